"""Both sides of the split, and how their users are shown to the policy and to the reward model."""

from __future__ import annotations

import msgspec

from palate.downstream._critics import as_critic
from palate.downstream._personal import own_view
from palate.downstream.ppo._prompts import Prompt, make_prompts
from palate.downstream.ppo._split import Side, split_by_users
from palate.engine import LocalModel
from palate.records import Benchmark, Critic
from palate.runs import Progress, prompts, ranks, sample_items, writer_of
from palate.views import Budget, ViewBuilder, ViewSpec, parse_budget, resolve_views


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who is held out and how users are shown, as the caller wrote it."""

    view: str | None
    policy_view: str | None
    test_share: float
    test_samples: int
    retriever: str
    writer: str
    budget: str | None
    limit: int | None
    seed: int


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained on and what is held out, checked against everything that is asked of it."""

    train: Side
    test: Side
    view: ViewSpec
    """What the reward model sees of the user."""
    policy_view: ViewSpec
    critic: Critic
    builders: tuple[ViewBuilder, ViewBuilder]
    retriever_fingerprint: str
    """Empty where neither view picks anything."""
    writer: str | None
    budget: Budget | None

    def prompts(
        self, policy: LocalModel, tokens: int, report: Progress
    ) -> tuple[list[Prompt], list[Prompt], dict[str, int]]:
        """To train on, to be tested with, and why items were left out."""
        report("reading the prompts", 0, 2)
        train, missing = make_prompts(self.train, self.builders[0], policy, self.policy_view, self.view, tokens)
        report("reading the prompts", 1, 2)
        test, also_missing = make_prompts(self.test, self.builders[1], policy, self.policy_view, self.view, tokens)
        return train, test, missing | also_missing


def make_sides(benchmark: Benchmark, critic: str | Critic, asked: Asked) -> Sides:
    """Split a benchmark by users, and refuse views and critics that do not suit it."""
    items = sample_items(prompts(benchmark), asked.limit, asked.seed)
    train, test = split_by_users(benchmark, items, asked.test_share, asked.seed)
    seen = asked.view or own_view(benchmark)
    [view], [policy_view] = resolve_views([seen]), resolve_views([asked.policy_view or seen])
    judge = as_critic(critic, benchmark)
    judge.require(test.items)
    budget = parse_budget(asked.budget) if asked.budget else None
    author = writer_of((view, policy_view), asked.writer)
    first, second = (
        ViewBuilder(side.benchmark, retriever=asked.retriever, budget=budget, seed=asked.seed, writer=author)
        for side in (train, test)
    )
    for spec in (view, policy_view):
        for builder in (first, second):
            builder.require(spec)
    return Sides(
        train=train,
        test=test,
        view=view,
        policy_view=policy_view,
        critic=judge,
        builders=(first, second),
        retriever_fingerprint=first.retriever.fingerprint if ranks(view) or ranks(policy_view) else "",
        writer=author.fingerprint if author else None,
        budget=budget,
    )
