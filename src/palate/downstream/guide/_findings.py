"""What a run of guided decoding says in words: what to distrust first, then what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream._personal import MANY_EMPTY, PersonalGain, personal_findings
from palate.downstream.guide._results import PairResult, TextResult
from palate.report import (
    CLEAR,
    Finding,
    Severity,
    chance_of_error,
    change_with_interval,
    commonest,
    count,
    percent,
    warnings_first,
)
from palate.runs import LOST
from palate.stats import Figure

MANY_CUT = 0.5


def findings(
    accuracies: Sequence[PairResult],
    texts: Sequence[TextResult],
    personal: Sequence[PersonalGain],
    about: Sequence[Finding],
    lost: int = 0,
) -> list[Finding]:
    """Warnings first; `about` is what to know of the views and prompts, `lost` how many items the run held once and
    holds no more."""
    found = [*about, *_left_out(accuracies), *about_texts(texts), *personal_findings(personal)]
    found += [*_accuracies(accuracies), *_over_alone(texts)]
    if lost:
        found.append(Finding("warning", LOST.format(count=lost)))
    return warnings_first(found)


def _left_out(accuracies: Sequence[PairResult]) -> Iterator[Finding]:
    for one in accuracies:
        if one.left_out:
            yield Finding(
                "warning",
                f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): {count(one.left_out, 'comparison')} left "
                f"out of policy accuracy; mostly: {commonest(one.reasons)}",
            )


def about_texts(texts: Sequence[TextResult]) -> Iterator[Finding]:
    """What to know of what was written: items without a text or a grade, empty texts, texts cut off."""
    for one in texts:
        who, written = _who(one), one.n + one.ungraded
        if one.failed or one.ungraded:
            lost = count(one.failed + one.ungraded, "item")
            yield Finding(
                "warning", f"{who}: {lost} left out, not written or not graded; mostly: {commonest(one.reasons)}"
            )
        if written and one.empty == written:
            yield Finding("warning", f"{who} stopped at once every time: all {count(written, 'text')} are empty")
        elif one.empty:
            severity: Severity = "warning" if one.empty > MANY_EMPTY * written else "note"
            yield Finding(severity, f"{who} wrote {one.empty:,} empty texts of {written:,}")
        if one.unfinished > MANY_CUT * written and not one.rm:
            yield Finding(
                "note",
                f"{who} was cut off at the maximum number of tokens in {one.unfinished:,} of {count(written, 'text')}",
            )


def _accuracies(accuracies: Sequence[PairResult]) -> Iterator[Finding]:
    """Whether the reward model's order of whole responses carries over to the steered policy."""
    for one in accuracies:
        steered = [point for point in one.policy_accuracy if point.weight]
        if not steered or one.reward_accuracy is None:
            continue
        alone = next(point for point in one.policy_accuracy if point.weight == 0)
        best = max(steered, key=lambda point: point.normalised.value)
        clear = best.q is not None and best.q < CLEAR and best.over_alone.value > 0
        yield Finding(
            "good" if clear else "note",
            f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): reward accuracy "
            f"{_share(one.reward_accuracy)}; the policy's own {_share(alone.normalised)}, steered at best "
            f"{_share(best.normalised)}, at weight {best.weight:g}"
            + ("" if clear else "; no clear gain over the policy alone"),
        )


def _over_alone(texts: Sequence[TextResult]) -> Iterator[Finding]:
    unclear: dict[str, list[str]] = {}
    for one in texts:
        over = one.over_alone
        if over is None:
            continue
        said = change_with_interval(over)
        if over.q >= CLEAR:
            unclear.setdefault(one.policy_view, []).append(f"{one.rm} seeing {one.view} at {one.weight:g} {said}")
            continue
        text = f"{_who(one)}, against the policy alone: {said}, q = {chance_of_error(over.q)}"
        rose = one.reward_gain is not None and one.reward_gain.value > 0
        if over.difference < 0 and rose:
            text += "; its own reward rose, so the reward is over-optimised"
        yield Finding("good" if over.difference > 0 else "warning", text)
    for view, names in unclear.items():
        yield Finding("note", f"no clear difference from the policy alone where it sees {view}: {'; '.join(names)}")


def _who(one: TextResult) -> str:
    alone = f"the policy, seeing {one.policy_view}"
    return f"{alone}, guided by {one.rm} seeing {one.view} at weight {one.weight:g}" if one.rm else f"{alone}, alone"


def _share(figure: Figure) -> str:
    interval = "" if figure.low is None else f" ({percent(figure.low)} to {percent(figure.high)})"
    return f"{percent(figure.value)}{interval}"
