"""Planted tastes, learned from some couples and measured on others, whom the model meets through views only.

    python tests/unseen.py history-attention

prints accuracy on planted tastes, with one choice in ten turned round, against what is known of a stranger.
"""

from __future__ import annotations

import sys

import numpy as np

from palate.personal import MethodSettings, PersonalModel
from palate.records import Ask, Benchmark, Comparison, View
from palate.views import ViewBuilder, resolve_views
from planted import planted

BENCHMARK = planted(couples=20, choices=12, history=8)
STRANGERS: set[str] | None = None
"""Whom nobody is trained on; three couples in ten unless said."""


def strangers(benchmark: Benchmark) -> set[str]:
    """The users who are met through views only."""
    return STRANGERS or {name for name in benchmark.users if int(name.split("-")[1]) < 0.3 * len(benchmark.users) / 2}


def trained(method: str, settings: MethodSettings | None = None, benchmark: Benchmark = BENCHMARK) -> PersonalModel:
    """A model of everybody but the strangers."""
    unseen = strangers(benchmark)
    return PersonalModel(method, features="traits").fit(
        [item for item in benchmark.comparisons if item.user_id not in unseen],
        {name: user for name, user in benchmark.users.items() if name not in unseen},
        settings,
    )


def asks(view: str, benchmark: Benchmark = BENCHMARK) -> list[tuple[Comparison, Ask]]:
    """The strangers' comparisons, each with what the view shows."""
    items = [item for item in benchmark.comparisons if item.user_id in strangers(benchmark)]
    views = ViewBuilder(benchmark, retriever="random", seed=0).build(resolve_views([view])[0], items)
    assert all(isinstance(one, View) for one in views)
    return [
        (item, Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=one))
        for item, one in zip(items, views, strict=True)
        if isinstance(one, View)
    ]


def accuracy(model: PersonalModel, view: str, benchmark: Benchmark = BENCHMARK) -> float:
    """How often the strangers' choices are foretold; a tie is half right."""
    asked = asks(view, benchmark)
    right = []
    for (item, _), rating in zip(asked, model.rate([ask for _, ask in asked]), strict=True):
        assert rating.scores is not None
        ahead = rating.scores[item.preferred] - rating.scores[1 - item.preferred]
        right.append((np.sign(ahead) + 1) / 2)
    return float(np.mean(right))


def main(method: str) -> None:
    benchmark = planted(couples=60, choices=12, history=8, noise=0.1)
    model = trained(method, benchmark=benchmark)
    print(model.settings)
    for view in ("none", *(f"judgements:{count}" for count in (1, 2, 4, 8)), "posts"):
        print(f"{view:<14}{accuracy(model, view, benchmark):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
