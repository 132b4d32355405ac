"""A benchmark in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

import msgspec

from palate.records import Benchmark, Comparison, Completion


class BenchmarkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of what; words and history are medians."""

    users: int
    comparisons: int
    completions: int
    categories: dict[str, int]
    responses: dict[str, int]
    """How many comparisons have 2, 3, ... responses."""
    items_a_user: float
    posts_a_user: float
    judgements_a_user: float
    words_a_prompt: float
    words_a_response: float
    content_hash: str


def summarise(benchmark: Benchmark) -> BenchmarkSummary:
    """Count what a benchmark holds.

    >>> from palate.data import load_benchmark
    >>> summarise(load_benchmark("mini")).posts_a_user
    8.0
    """
    items: list[Comparison | Completion] = [*benchmark.comparisons, *benchmark.completions]
    per_user = Counter(item.user_id for item in items)
    texts = [response for item in benchmark.comparisons for response in item.responses]
    texts += [item.text for item in benchmark.completions if item.text is not None]
    users = benchmark.users.values()
    return BenchmarkSummary(
        users=len(users),
        comparisons=len(benchmark.comparisons),
        completions=len(benchmark.completions),
        categories=dict(Counter(item.category or "(none)" for item in items).most_common()),
        responses={str(n): count for n, count in sorted(_sizes(benchmark).items())},
        items_a_user=_middle(per_user[user.id] for user in users),
        posts_a_user=_middle(len(user.posts) for user in users),
        judgements_a_user=_middle(len(user.judgements) for user in users),
        words_a_prompt=_middle(len(item.prompt.split()) for item in items),
        words_a_response=_middle(len(text.split()) for text in texts),
        content_hash=benchmark.content_hash,
    )


def _sizes(benchmark: Benchmark) -> Counter[int]:
    return Counter(len(item.responses) for item in benchmark.comparisons)


def _middle(numbers: Iterable[int]) -> float:
    known = list(numbers)
    return float(median(known)) if known else 0.0
