"""What a guided run says in words: what to distrust first, then what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream._guide._results import Figure, GuideFinding, OverAlone, PairResult, Severity, TextResult
from palate.evaluate import CLEAR, chance_of_error, count, percent

MANY_EMPTY = 0.1
MANY_CUT = 0.5


def findings(accuracies: Sequence[PairResult], texts: Sequence[TextResult]) -> list[GuideFinding]:
    """Warnings first."""
    found = [*_left_out(accuracies), *_about_texts(texts), *_accuracies(accuracies), *_over_alone(texts)]
    order = ("warning", "note", "good")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _left_out(accuracies: Sequence[PairResult]) -> Iterator[GuideFinding]:
    for one in accuracies:
        if one.left_out:
            reason = max(one.reasons, key=lambda reason: one.reasons[reason])
            yield _say(
                "warning",
                f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): {count(one.left_out, 'comparison')} left "
                f"out of policy accuracy; mostly: {reason}",
            )


def _about_texts(texts: Sequence[TextResult]) -> Iterator[GuideFinding]:
    for one in texts:
        who, written = _who(one), one.n + one.unmarked
        if one.failed or one.unmarked:
            reason = max(one.reasons, key=lambda reason: one.reasons[reason])
            lost = count(one.failed + one.unmarked, "item")
            yield _say("warning", f"{who}: {lost} left out, not written or not marked; mostly: {reason}")
        if written and one.empty == written:
            yield _say("warning", f"{who} stopped at once every time: all {count(written, 'text')} are empty")
        elif one.empty:
            severity: Severity = "warning" if one.empty > MANY_EMPTY * written else "note"
            yield _say(severity, f"{who} wrote {one.empty:,} empty texts of {written:,}")
        if one.unfinished > MANY_CUT * written and not one.rm:
            yield _say(
                "note", f"{who} was cut off at the most tokens in {one.unfinished:,} of {count(written, 'text')}"
            )


def _accuracies(accuracies: Sequence[PairResult]) -> Iterator[GuideFinding]:
    """Whether the order of whole responses carries over to the steered policy."""
    for one in accuracies:
        steered = [point for point in one.policy_accuracy if point.weight]
        if not steered or one.reward_accuracy is None:
            continue
        alone = next(point for point in one.policy_accuracy if point.weight == 0)
        best = max(steered, key=lambda point: point.normalised.value)
        clear = best.q is not None and best.q < CLEAR and best.over_alone.value > 0
        yield _say(
            "good" if clear else "note",
            f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): reward accuracy "
            f"{_share(one.reward_accuracy)}; the policy's own {_share(alone.normalised)}, steered at best "
            f"{_share(best.normalised)}, at weight {best.weight:g}"
            + ("" if clear else "; no clear gain over the policy alone"),
        )


def _over_alone(texts: Sequence[TextResult]) -> Iterator[GuideFinding]:
    unclear: dict[str, list[str]] = {}
    for one in texts:
        over = one.over_alone
        if over is None:
            continue
        said = f"{over.difference:+.3f}{_interval(over)}"
        if over.q >= CLEAR:
            unclear.setdefault(one.policy_view, []).append(f"{one.rm} at {one.weight:g} {said}")
            continue
        text = f"{_who(one)}, against the policy alone: {said}, q = {chance_of_error(over.q)}"
        rose = one.reward_gain is not None and one.reward_gain.value > 0
        if over.difference < 0 and rose:
            text += "; its own reward rose, so the reward is over-optimised"
        yield _say("good" if over.difference > 0 else "warning", text)
    for view, names in unclear.items():
        yield _say("note", f"no clear difference from the policy alone where it sees {view}: {'; '.join(names)}")


def _who(one: TextResult) -> str:
    alone = f"the policy, seeing {one.policy_view}"
    return f"{alone}, guided by {one.rm} seeing {one.view} at weight {one.weight:g}" if one.rm else f"{alone}, alone"


def _share(figure: Figure) -> str:
    interval = "" if figure.low is None else f" ({percent(figure.low)} to {percent(figure.high)})"
    return f"{percent(figure.value)}{interval}"


def _interval(one: OverAlone) -> str:
    return "" if one.low is None or one.high is None else f" ({one.low:+.3f} to {one.high:+.3f})"


def _say(severity: Severity, text: str) -> GuideFinding:
    return GuideFinding(severity=severity, text=text)
