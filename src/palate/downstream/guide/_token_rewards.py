"""The responses of comparisons, token by token: the policy's log-probabilities and a reward model's rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palate.downstream.guide._run import AnswerTokens, LikelihoodLine, TokenRewardLine
from palate.engine import Failure, LikelihoodRequest, LocalModel, Turn, steps
from palate.records import Ask, Comparison, RewardModel, View
from palate.rewards import conversation, fit_view, follow

CLOSING = 8
"""Tokens that a chat template may write around an answer."""


def policy_likelihoods(
    policy: LocalModel, policy_view: str, seen: Sequence[tuple[Comparison, View]], top: int
) -> list[LikelihoodLine]:
    """For each comparison the log-probabilities of its responses' tokens, and of the likeliest in their places."""
    fitted = [_fitted(policy, item, view) for item, view in seen]
    requests = [LikelihoodRequest(turns=conversation(ask), continuations=ask.responses) for ask, _ in fitted]
    lines = []
    for (ask, note), found in zip(fitted, policy.follow_answers(requests, top), strict=True):
        if isinstance(found, Failure):
            lines.append(LikelihoodLine(policy_view=policy_view, item=ask.id, failed=found.reason))
            continue
        answers = tuple(
            AnswerTokens(
                tokens=tuple(one.tokens),
                log_probabilities=tuple(round(value, 6) for value in one.log_probabilities),
                top=tuple(tuple(some.tokens) for some in one.candidates),
                of_top=tuple(tuple(round(value, 6) for value in some.log_probabilities) for some in one.candidates),
            )
            for one in found
        )
        lines.append(
            LikelihoodLine(policy_view=policy_view, item=ask.id, answers=answers, parts=len(ask.view.parts), note=note)
        )
    return lines


def _fitted(policy: LocalModel, item: Comparison, view: View) -> tuple[Ask, str | None]:
    ask = Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view)
    longest = max(policy.count_tokens((Turn("user", text),)) or 0 for text in item.responses)
    return fit_view(ask, lambda one: (policy.count_tokens(conversation(one)) or 0) + longest, policy.context)


def token_rewards(
    policy: LocalModel,
    reward: RewardModel,
    names: tuple[str, str],
    seen: Sequence[tuple[Comparison, View]],
    likelihoods: Sequence[LikelihoodLine],
) -> list[TokenRewardLine]:
    """The rewards of every candidate at every place of every response; `names` are the model's and its view's.

    All responses grow together, place by place: what the reward model has read of each is kept.
    """
    answers = [answer for line in likelihoods for answer in line.answers]
    owners = [index for index, line in enumerate(likelihoods) for _ in line.answers]
    asks = [
        Ask(id=item.id, prompt=item.prompt, responses=item.responses, view=view)
        for item, view in (seen[owner] for owner in owners)
    ]
    follower = follow(reward, asks, room=CLOSING)
    found: list[list[tuple[float, ...]]] = [[] for _ in answers]
    failed: dict[int, str] = {}
    for place in steps(max((len(answer.tokens) for answer in answers), default=0)):
        texts = {
            index: _texts(policy, answer, place)
            for index, answer in enumerate(answers)
            if place < len(answer.tokens) and owners[index] not in failed
        }
        for index, rating in follower.rate(texts).items():
            if rating.scores is None:
                failed.setdefault(owners[index], rating.unscored or "unscored")
            else:
                found[index].append(tuple(float(f"{score:.7g}") for score in rating.scores))
    return _lines(names, likelihoods, owners, found, failed)


def _texts(policy: LocalModel, answer: AnswerTokens, place: int) -> list[str]:
    """The text up to a place with each candidate; an end adds nothing, so that its reward is the finished text's."""
    before = answer.tokens[:place]
    return [policy.decoded([*before, token]) for token in answer.candidates[place][0]]


def _lines(
    names: tuple[str, str],
    likelihoods: Sequence[LikelihoodLine],
    owners: Sequence[int],
    found: Sequence[list[tuple[float, ...]]],
    failed: Mapping[int, str],
) -> list[TokenRewardLine]:
    rm, view = names
    return [
        TokenRewardLine(
            policy_view=line.policy_view,
            rm=rm,
            view=view,
            item=line.item,
            rewards=()
            if index in failed
            else tuple(tuple(found[one]) for one, owner in enumerate(owners) if owner == index),
            unscored=failed.get(index),
        )
        for index, line in enumerate(likelihoods)
    ]
