"""The first stage: users with a history and the questions they asked after it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from palate.build._askers import recover_askers
from palate.build._dump import StackExchangeDump
from palate.build._entries import Source
from palate.build._index import Answer, Index, Question, accepted_answer, others_of, remove_index
from palate.build._plan import ForumSource, LampQaSource, Plan, StackExchangeSource, TableSource
from palate.build._records import ITEMS, POSTS, SELECT, OfferedAnswer, PostLine, SelectedItem, SelectLine
from palate.build._tables import Forum, Table
from palate.data import Pseudonyms, load_benchmark, normalise_date, text_key
from palate.records import Benchmark, Comparison, Completion, PalateError
from palate.runs import Progress, json_lines, write_whole

INDEX = "index.sqlite"


def open_source(plan: Plan, folder: Path) -> Source:
    """What a plan names, with paths that are relative to the plan."""
    source = plan.source
    if isinstance(source, StackExchangeSource):
        return StackExchangeDump(
            folder / source.path,
            site=source.site,
            licence=source.licence,
            max_gigabytes=source.max_gigabytes,
            keep_damaged=source.keep_damaged,
        )
    if isinstance(source, TableSource):
        return Table(folder / source.path, columns=source.columns, days=source.days, licence=source.licence)
    if isinstance(source, ForumSource):
        return Forum(folder / source.path, columns=source.columns, days=source.days, licence=source.licence)
    raise TypeError(f"{type(source).__name__} is not read as a stream")


class Names:
    """Ids as they stand in a build: keyed hashes, or the source's own."""

    def __init__(self, pseudonyms: Pseudonyms | None) -> None:
        self._pseudonyms = pseudonyms

    def user(self, id: str) -> str:
        """Of a user."""
        return self._pseudonyms.user(id) if self._pseudonyms else id.replace("\0", ":")

    def item(self, id: str) -> str:
        """Of a question or post."""
        return self._pseudonyms.item(id) if self._pseudonyms else id.replace("\0", ":")

    def group(self, prompt: str) -> str:
        """The same for everybody who asks the same."""
        return self.item(f"group\0{text_key(prompt)}")


def is_selected(folder: Path) -> bool:
    """Whether the stage is done. What was erased from its files since then is not put back."""
    return (folder / ITEMS.name).is_file()


def select(folder: Path, plan: Plan, where: Path, names: Names, *, data_dir: Path | None, progress: Progress) -> None:
    """Write the items, posts and counts of the selection; the items last, since they tell that all is there."""
    if isinstance(plan.source, LampQaSource):
        benchmark = load_benchmark(plan.source.benchmark, data_dir=data_dir)
        items, posts, lines = _from_benchmark(plan, benchmark, names)
    else:
        items, posts, lines = _from_source(folder / INDEX, plan, open_source(plan, where), names, progress)
    if plan.generated and "twins" in plan.candidates.contrasts:
        items = with_twins(items, posts_by_user(posts), plan)
    if not items:
        reasons = "; ".join(f"{reason}: {count:,}" for line in lines for reason, count in line.why.items())
        raise PalateError(f"no question is left to build from. {reasons or 'The source is empty'}")
    write_whole(folder / SELECT.name, json_lines(lines))
    write_whole(folder / POSTS.name, json_lines(posts))
    write_whole(folder / ITEMS.name, json_lines(items))
    remove_index(folder / INDEX)


Selected = tuple[list[SelectedItem], list[PostLine], list[SelectLine]]


def _from_source(file: Path, plan: Plan, source: Source, names: Names, progress: Progress) -> Selected:
    index = Index(file)
    try:
        index.read(source, _told(progress, "reading who wrote what"))
        progress("choosing questions", 0, 1)
        index.choose(plan)
        index.read_texts(source, _told(progress, "reading texts"))
        read, choose = index.counts("read"), index.counts("choose")
        posts = read.pop("posts", 0)
        why: Counter[str] = Counter(choose)
        items = list(_items(index, plan, source, names, why))
        lines = [
            SelectLine(step="read", came=posts + sum(read.values()), went=posts, why=read),
            SelectLine(step="choose", came=len(items) + sum(why.values()), went=len(items), why=dict(why)),
        ]
        kept = {item.user_id for item in items}
        return items, [post for post in _posts(index, source, names) if post.user_id in kept], lines
    except sqlite3.DatabaseError as error:
        remove_index(file)  # it may be damaged, and the source still has all that is in it
        raise PalateError(f"cannot use {file}: {error}. Make room if the disk is full, and run it again.") from error
    finally:
        index.close()


def _told(progress: Progress, what: str) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        progress(what, done >> 20, total >> 20)

    return told


def _items(index: Index, plan: Plan, source: Source, names: Names, why: Counter[str]) -> Iterator[SelectedItem]:
    for question, answers in index.items():
        title, body, category = index.text(question.id)
        date = _date(question.date)
        if date is None:
            why["questions with a date that cannot be read"] += 1
            continue
        if not title:
            title, body = body, ""
        if not title:
            why["questions without text"] += 1
            continue
        assert question.user is not None
        yield SelectedItem(
            id=names.item(f"{source.where}\0{question.id}"),
            user_id=names.user(question.user),
            prompt=title,
            narrative=body or None,
            category=category,
            group=names.group(title),
            date=date,
            answers=() if plan.generated else tuple(_answers(index, source, question, answers)),
            page=source.link("question", question.id),
            author=source.link("user", question.user),
        )


def _answers(index: Index, source: Source, question: Question, answers: list[Answer]) -> Iterator[OfferedAnswer]:
    accepted = accepted_answer(question, answers)
    assert accepted is not None
    for answer in (accepted, *others_of(question, answers)):
        yield OfferedAnswer(
            text=index.text(answer.id)[1],
            score=answer.score,
            accepted=answer is accepted,
            author=source.link("user", answer.user) if answer.user else "",
        )


def _posts(index: Index, source: Source, names: Names) -> Iterator[PostLine]:
    for user, id, date in index.history():
        title, body, category = index.text(id)
        text = "\n".join(part for part in (title, body) if part)
        written = _date(date)
        if text and written:
            post = names.item(f"{source.where}\0{id}")
            yield PostLine(id=post, user_id=names.user(user), text=text, date=written, category=category)


def _date(text: str | None) -> str | None:
    try:
        return normalise_date(text) if text else None
    except (ValueError, OverflowError):
        return None


def _from_benchmark(plan: Plan, benchmark: Benchmark, names: Names) -> Selected:
    """Rows with a profile and no name: whoever shares posts is one person."""
    askers, joined = recover_askers(benchmark.users.values())
    why: Counter[str] = Counter()
    items: list[SelectedItem] = []
    posts: dict[tuple[str, str], PostLine] = {}
    taken: Counter[str] = Counter()
    every: list[Comparison | Completion] = [*benchmark.comparisons, *benchmark.completions]
    every.sort(key=lambda item: item.id)
    for item in every:
        user = benchmark.users[item.user_id]
        asker = names.user(askers[user.id])
        if len(user.posts) < plan.select.earlier_posts:
            why[f"fewer than {plan.select.earlier_posts} earlier posts of the asker"] += 1
            continue
        if len(items) >= plan.select.items or taken[asker] >= (plan.select.items_per_user or len(every)):
            why["not drawn"] += 1
            continue
        taken[asker] += 1
        items.append(
            SelectedItem(
                id=names.item(item.id),
                user_id=asker,
                prompt=item.prompt,
                narrative=item.privileged.narrative,
                category=item.category,
                group=names.group(item.prompt),
                date=item.date,
                aspects=item.privileged.aspects,
            )
        )
        for post in user.posts[-plan.select.most_posts :]:
            line = PostLine(id=names.item(post.id), user_id=asker, text=post.text, date=post.date)
            posts.setdefault((asker, line.id), line)
    lines = [
        SelectLine(step="read", came=len(every), went=len(every), why={}),
        SelectLine(step="askers", came=len(benchmark.users), went=len(set(askers.values())), why=_joined(joined)),
        SelectLine(step="choose", came=len(every), went=len(items), why=dict(why)),
    ]
    return items, list(posts.values()), lines


def _joined(number: int) -> dict[str, int]:
    return {"rows of a person who was met before, by a post of theirs": number} if number else {}


def with_twins(items: list[SelectedItem], posts: Mapping[str, list[PostLine]], plan: Plan) -> list[SelectedItem]:
    """Each question with a second user: one who asked the same, or else one drawn who has a history by then."""
    waiting: dict[str, list[SelectedItem]] = {}
    pairs: dict[str, str] = {}
    for item in items:
        there = waiting.setdefault(item.group or item.id, [])
        other = next((one for one in there if one.user_id != item.user_id), None)
        if other is None:
            there.append(item)
        else:
            there.remove(other)
            pairs |= {item.id: other.id, other.id: item.id}
    people = sorted({item.user_id for item in items})
    found: list[SelectedItem] = []
    for item in items:
        if item.id in pairs:
            found.append(replace(item, twin=pairs[item.id]))
            continue
        partner = _partner(item, people, posts, plan)
        if partner is None:
            found.append(item)
            continue
        id = f"{item.id}~{partner}"
        found.append(replace(item, twin=id))
        found.append(
            SelectedItem(
                id=id,
                user_id=partner,
                prompt=item.prompt,
                category=item.category,
                group=item.group,
                date=item.date,
                twin=item.id,
                partner=True,
            )
        )
    return found


def _partner(item: SelectedItem, people: list[str], posts: Mapping[str, list[PostLine]], plan: Plan) -> str | None:
    """Drawn by the seed and the question, among those who had written enough before it."""
    order = sorted(people, key=lambda user: hashlib.sha256(f"{plan.seed}\0{item.id}\0{user}".encode()).digest())
    least = max(1, plan.select.earlier_posts)
    return next(
        (user for user in order if user != item.user_id and len(earlier_posts(item, posts.get(user, ()))) >= least),
        None,
    )


def posts_by_user(lines: Iterable[PostLine]) -> dict[str, list[PostLine]]:
    """The posts of every user, oldest first."""
    found: dict[str, list[PostLine]] = {}
    for line in lines:
        found.setdefault(line.user_id, []).append(line)
    for posts in found.values():
        posts.sort(key=lambda post: (post.date or "", post.id))
    return found


def earlier_posts(item: SelectedItem, posts: Iterable[PostLine]) -> list[PostLine]:
    """Those written before the question; all where nothing is dated."""
    return [post for post in posts if item.date is None or post.date is None or post.date < item.date]
