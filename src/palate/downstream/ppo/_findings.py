"""What a reader of the curves should know, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.downstream.ppo._results import Change, StepLine, Written
from palate.report import Finding

COLLAPSED = 0.5
"""Entropy below this part of what it was."""
RUN_AWAY = 1.5
"""Length beyond this many times what it was, or below its inverse."""
TRUNCATED = 0.3
"""So much more of the texts being cut off is running away too: there is no room left to grow."""
FEWEST_STEPS = 10


def warnings_of(curve: Sequence[StepLine]) -> list[str]:
    """Where the reward rises for a wrong reason: the last fifth of the steps against the first."""
    if len(curve) < FEWEST_STEPS:
        return []
    some = len(curve) // 5
    first, last = curve[:some], curve[-some:]

    def means(name: str) -> tuple[float, float]:
        return tuple(float(np.mean([getattr(line, name) for line in part])) for part in (first, last))  # type: ignore[return-value]

    entropy, length, truncated = (means(name) for name in ("entropy", "length", "truncated"))
    found = []
    if _rises([line.reward for line in first], [line.reward for line in last]):
        if entropy[1] < COLLAPSED * entropy[0]:
            found.append(
                f"reward rises while entropy collapses, from {entropy[0]:.2f} to {entropy[1]:.2f} nats a token: the "
                "policy says the same again and again. Raise --kl or lower --learning-rate"
            )
        if length[1] > RUN_AWAY * length[0] or truncated[1] > truncated[0] + TRUNCATED:
            found.append(
                f"reward rises while length runs away, from {length[0]:.0f} to {length[1]:.0f} tokens with "
                f"{truncated[1]:.0%} cut off: the reward model may pay for length"
            )
        elif length[1] < length[0] / RUN_AWAY:
            found.append(
                f"reward rises while length shrinks, from {length[0]:.0f} to {length[1]:.0f} tokens: the reward model "
                "may pay for saying little"
            )
    return found


def _rises(first: Sequence[float], last: Sequence[float]) -> bool:
    """By more than twice the error of the two means, so that the noise of steps is not taken for a rise."""
    error = np.sqrt((np.var(first) + np.var(last)) / len(first))
    return bool(np.mean(last) - np.mean(first) > 2 * error)


def findings(
    curve: Sequence[StepLine],
    before: Written | None,
    after: Written | None,
    score: Change | None,
    reward: Change | None,
    agreement: Change | None = None,
) -> list[Finding]:
    """Warnings first, then what held-out users got."""
    found = [Finding("warning", text) for text in warnings_of(curve)]
    left_out = sum(line.left_out for line in curve)
    if left_out:
        found.append(Finding("note", f"{left_out} unscored texts stayed out of their steps"))
    if before and after and after.empty == after.texts:
        found.append(Finding("warning", "every text of the trained policy is empty: it ends before it says anything"))
    elif before and after and after.empty > before.empty:
        text = f"the trained policy leaves {after.empty} of {after.texts} texts empty, the untrained one {before.empty}"
        found.append(Finding("warning", text))
    if score is None:
        return found
    clear = score.low is not None and score.high is not None and (score.low > 0 or score.high < 0)
    better = score.difference > 0
    if clear and better:
        found.append(Finding("good", "held-out users are served better than by the untrained policy"))
    elif clear:
        found.append(Finding("warning", "held-out users are served worse than by the untrained policy"))
    else:
        found.append(Finding("note", "whether held-out users are served better cannot be told"))
    if reward is not None and reward.low is not None and reward.low > 0 and not (clear and better):
        text = "the reward of held-out users' texts rose, and the critic's score did not clearly follow"
        found.append(Finding("note" if better else "warning", text))
    if agreement is not None and agreement.high is not None and agreement.high < 0:
        text = (
            "reward model and critic agree less often on the trained policy's texts than on the untrained one's: "
            "training may have led to where the reward model errs"
        )
        found.append(Finding("note" if clear and better else "warning", text))
    return found
