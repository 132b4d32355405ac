"""Stack Exchange: a question, the asker's earlier posts, and the answer that the asker accepted."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.data._cards import card_of
from palate.data._draft import BenchmarkDraft, draft_of
from palate.data._files import read_all
from palate.data._tables import NOBODY
from palate.data._wire import normalise_date
from palate.records import Benchmark, Comparison, Post, Privileged, User


class _Answer(msgspec.Struct):
    text: str
    score: int = 0


class _Post(msgspec.Struct):
    title: str
    text: str
    date: str


class _Question(msgspec.Struct):
    site: str
    user: str
    question_id: str
    question: str
    narrative: str
    date: str
    chosen: str
    rejected: list[_Answer]
    profile: list[_Post]
    chosen_score: int = 0


def read_stackexchange(folder: Path, *, pairs: bool = False) -> BenchmarkDraft:
    """One comparison a question, or one a pair; the body of the question is the private narrative, as in LaMP-QA.

    An asker's posts are the union over their questions: views hold those dated before the question.
    """
    read = read_all(folder / "accepted.jsonl.gz", _Question, "stackexchange")
    questions = sorted(read, key=lambda one: (one.site, one.date, one.question_id))
    posts: dict[str, dict[str, Post]] = {}
    comparisons: list[Comparison] = []
    for question in questions:
        history = posts.setdefault(question.user, {})
        for post in question.profile:
            id = f"{question.user}:{post.date}"
            text = f"{post.title}\n{post.text}"
            date = normalise_date(post.date)
            history.setdefault(id, Post(id=id, text=text, date=date, category=question.site))
        comparisons += _comparisons(question, pairs=pairs)
    users = {
        id: User(id=id, posts=tuple(sorted(history.values(), key=lambda post: post.date or "")))
        for id, history in posts.items()
    }
    alone = len({question.user for question in questions if not question.profile})
    card = card_of(
        "stackexchange",
        "1.0",
        "The asker accepted one answer; the others are the alternatives. Votes are left out.",
        f"{alone} askers had no earlier post at one of their questions",
        "the body of the question is privileged (narrative); the prompt is its title",
    )
    benchmark = Benchmark(card=card, users=users, comparisons=tuple(comparisons))
    return draft_of(benchmark, "stackexchange", unordered=True)


def read_stackexchange_votes(folder: Path, *, pairs: bool = False) -> BenchmarkDraft:
    """What readers voted up most of each question's answers, whoever asked: impersonal, so nobody is named."""
    questions = read_all(folder / "accepted.jsonl.gz", _Question, "stackexchange")
    ranked = [(question, _by_votes(question)) for question in questions]
    told = [(question, answers) for question, answers in ranked if answers[0].score > answers[1].score]
    comparisons = [
        msgspec.structs.replace(item, user_id=f"{NOBODY}{item.id}", privileged=Privileged())
        for question, (best, *others) in told
        for item in _comparisons(msgspec.structs.replace(question, chosen=best.text, rejected=others), pairs=pairs)
    ]
    card = card_of(
        "stackexchange",
        "1.0",
        "The answer with the most votes of all readers, against the others. An accepted answer is shown first, "
        "which brings it votes.",
        f"questions whose best answers have equal votes, left out: {len(ranked) - len(told)}",
    )
    card = msgspec.structs.replace(card, name="stackexchange-votes", title="Stack Exchange: the answer with most votes")
    users = {item.user_id: User(id=item.user_id) for item in comparisons}
    return draft_of(Benchmark(card=card, users=users, comparisons=tuple(comparisons)), "stackexchange", unordered=True)


def _by_votes(question: _Question) -> list[_Answer]:
    answers = [_Answer(question.chosen, question.chosen_score), *question.rejected]
    return sorted(answers, key=lambda answer: -answer.score)


def _comparisons(question: _Question, *, pairs: bool) -> list[Comparison]:
    id = f"{question.site}:{question.question_id}"
    others = [answer.text for answer in question.rejected]
    whole = Comparison(
        id=id,
        user_id=question.user,
        prompt=question.question,
        responses=(question.chosen, *others),
        preferred=0,
        category=question.site,
        group=id,
        date=normalise_date(question.date),
        privileged=Privileged(narrative=question.narrative),
    )
    if not pairs:
        return [whole]
    return [
        msgspec.structs.replace(whole, id=f"{id}:{number}", responses=(question.chosen, other))
        for number, other in enumerate(others, start=1)
    ]
