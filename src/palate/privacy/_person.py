"""What of a user could lie in files: their id, what they wrote, what they were shown and chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from palate.records import Benchmark, Comparison, Completion, Judgement, Privileged, User

SHORTEST = 20
"""Characters of a text that can be told to be somebody's; `Yes, please.` is said by many."""
Choice = tuple[str, tuple[str, ...]]


@dataclass
class Person:
    """One user, or several who are erased together, gathered from benchmarks and runs before anything is erased."""

    ids: frozenset[str]
    wrote: set[str] = field(default_factory=set)
    """Posts, reasons, completions and private facts that are nobody else's."""
    met: set[str] = field(default_factory=set)
    """Prompts and responses that nobody else met."""
    choices: set[Choice] = field(default_factory=set)
    """Prompt and responses, sorted, of choices that nobody else was offered."""
    known: set[str] = field(default_factory=set)
    """Whom a record is of."""
    items: set[str] = field(default_factory=set)
    """Ids of their comparisons and completions."""
    others: set[str] = field(default_factory=set)
    """All texts of everybody else but those that this user wrote, to tell what is this user's alone."""
    _others_wrote: set[str] = field(default_factory=set)
    _others_chose: set[Choice] = field(default_factory=set)

    @property
    def id(self) -> str:
        """Of one user."""
        [id] = self.ids
        return id

    @property
    def texts(self) -> list[str]:
        """All that has to go."""
        return sorted(self.wrote | self.met)

    def learn(self, benchmark: Benchmark) -> None:
        """Take in what one benchmark holds; a text that somebody else wrote too is not this user's alone."""
        own = _Texts.of(benchmark, lambda user: user in self.ids)
        others = _Texts.of(benchmark, lambda user: user not in self.ids)
        items: list[Comparison | Completion] = [*benchmark.comparisons, *benchmark.completions]
        mine = [item for item in items if item.user_id in self.ids]
        self.known |= {*(self.ids & benchmark.users.keys()), *(item.user_id for item in mine)}
        self.items |= {item.id for item in mine}
        self._others_wrote |= others.wrote
        self._others_chose |= others.choices
        self.wrote = {text for text in self.wrote | own.wrote if len(text) >= SHORTEST} - self._others_wrote
        self.others = (self.others | others.wrote | others.met) - self.wrote
        self.met = {text for text in self.met | own.met if len(text) >= SHORTEST} - self.others
        self.choices = (self.choices | own.choices) - self._others_chose

    def is_in(self, texts: Iterable[str]) -> bool:
        """Whether one of these is a text that the user wrote."""
        return any(text in self.wrote for text in texts)


@dataclass
class _Texts:
    wrote: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    choices: set[Choice] = field(default_factory=set)

    @classmethod
    def of(cls, benchmark: Benchmark, whose: Callable[[str], bool]) -> _Texts:
        found = cls()
        for user in benchmark.users.values():
            if whose(user.id):
                found._add_user(user)
        items: list[Comparison | Completion] = [*benchmark.comparisons, *benchmark.completions]
        for item in items:
            if whose(item.user_id):
                found._add_item(item)
        return found

    def _add_user(self, user: User) -> None:
        self.wrote.update(post.text for post in user.posts)
        for judgement in user.judgements:
            self._add_choice(judgement)
            self.wrote.update([judgement.reason] if judgement.reason else [])

    def _add_item(self, item: Comparison | Completion) -> None:
        self.wrote.update(private_facts(item.privileged))
        if isinstance(item, Comparison):
            self._add_choice(item)
            return
        self.met.update((item.prompt, *item.alternatives))
        self.wrote.update([item.text] if item.text else [])

    def _add_choice(self, choice: Comparison | Judgement) -> None:
        self.met.update((choice.prompt, *choice.responses))
        self.choices.add(choice_of(choice.prompt, choice.responses))


def quotation_search(texts: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text holds one of these, each of `SHORTEST` characters or more: one look, however many they are.

    >>> holds = quotation_search(["I keep bees on the roof.", "I keep bees on the lawn."])
    >>> [holds(text) for text in ("They said: I keep bees on the lawn. Really?", "I keep bees on the moon.")]
    [True, False]
    """
    beginnings: dict[str, list[str]] = {}
    for text in texts:
        beginnings.setdefault(text[:SHORTEST], []).append(text)

    def holds(text: str) -> bool:
        places = range(len(text) - SHORTEST + 1) if beginnings else ()
        begun = (place for place in places if text[place : place + SHORTEST] in beginnings)
        return any(text.startswith(tuple(beginnings[text[place : place + SHORTEST]]), place) for place in begun)

    return holds


def private_facts(privileged: Privileged) -> Iterator[str]:
    """Every text of the narrative and the rubric."""
    if privileged.narrative:
        yield privileged.narrative
    for one in privileged.aspects:
        yield from (text for text in (one.aspect, one.reason, one.evidence) if text)


def choice_of(prompt: str, responses: Sequence[str]) -> Choice:
    """A choice whatever the order of its responses."""
    return prompt, tuple(sorted(responses))
