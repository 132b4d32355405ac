"""Comparisons whose answer stands in the user's history, or can be had by remembering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from palate.audit._benchmark_results import Leaks
from palate.data import History, private_sentences
from palate.records import Benchmark, Comparison, Judgement, Post, User, came_before
from palate.runs import Progress


class _Past(msgspec.Struct):
    """What one user's history holds, indexed for the questions asked of it."""

    judged: dict[frozenset[str], list[Judgement]] = {}
    """By the responses."""
    not_items: list[Post | Judgement] = []
    """History that is no item itself: what is an item is excluded by date, and so by design."""


def find_leaks(benchmark: Benchmark, progress: Progress | None) -> Leaks:
    """Count the comparisons of each kind of leak."""
    ids = {item.id for item in benchmark.comparisons} | {item.id for item in benchmark.completions}
    pasts = {user.id: _past(user, ids) for user in benchmark.users.values()}
    chosen = _chosen_among(benchmark)
    history = History(benchmark)
    own = in_judgements = in_posts = in_traits = withheld = private = elsewhere = later = 0
    for done, item in enumerate(benchmark.comparisons):
        user, past = benchmark.users[item.user_id], pasts[item.user_id]
        own += any(came_before(one, item) for one in past.judged.get(frozenset(item.responses), ()))
        later += any(not came_before(one, item) for one in past.not_items)
        elsewhere += len(chosen[item.user_id, item.chosen]) > 1
        judgements, posts = history.judgements(user, item), history.posts(user, item)
        in_judgements += judgements.withheld > 0
        in_posts += posts.withheld > 0
        traits = history.traits(user, item)[1]
        in_traits += traits > 0
        withheld += judgements.withheld + posts.withheld + traits
        private += _privileged_in_history(posts.events, judgements.events, item)
        if progress and done % 200 == 0:
            progress("looking for leaks", done, len(benchmark.comparisons))
    return Leaks(
        own_choice=own,
        response_in_judgements=in_judgements,
        response_in_posts=in_posts,
        response_in_traits=in_traits,
        withheld=withheld,
        privileged_in_history=private,
        chosen_elsewhere=elsewhere,
        later_history=later,
    )


def _past(user: User, ids: set[str]) -> _Past:
    judged: dict[frozenset[str], list[Judgement]] = defaultdict(list)
    for one in user.judgements:
        judged[frozenset(one.responses)].append(one)
    past: list[Post | Judgement] = [*user.posts, *user.judgements]
    return _Past(judged, [one for one in past if one.id not in ids])


def _chosen_among(benchmark: Benchmark) -> dict[tuple[str, str], set[frozenset[str]]]:
    """By user and text, the sets of responses from which they chose it."""
    found: dict[tuple[str, str], set[frozenset[str]]] = defaultdict(set)
    for item in benchmark.comparisons:
        found[item.user_id, item.chosen].add(frozenset(item.responses))
    for user in benchmark.users.values():
        for judgement in user.judgements:
            found[user.id, judgement.chosen].add(frozenset(judgement.responses))
    return found


def _privileged_in_history(posts: Iterable[Post], judgements: Iterable[Judgement], item: Comparison) -> bool:
    sentences = set(private_sentences(item.privileged))
    if not sentences:
        return False
    texts = [
        *(post.text for post in posts),
        *(text for one in judgements for text in (one.prompt, *one.responses, one.reason or "")),
    ]
    shown = "\n".join(" ".join(text.lower().split()) for text in texts)
    return any(sentence in shown for sentence in sentences)
