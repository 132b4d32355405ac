"""From candidates and verdicts to comparisons, and the yields of the stages that a generator was asked in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from palate.build._plan import Plan
from palate.build._records import SERVES, CandidateLine, RubricLine, SelectedItem, VerdictLine, Yield
from palate.records import Comparison, Privileged

Candidates = Mapping[tuple[str, str], CandidateLine]


def generated_comparisons(
    plan: Plan,
    items: Sequence[SelectedItem],
    rubrics: Mapping[str, RubricLine],
    candidates: Candidates,
    verdicts: Mapping[tuple[str, str], VerdictLine],
) -> tuple[list[Comparison], list[Yield]]:
    """Every pair that passed; twins only where both did."""
    by_id = {item.id: item for item in items}
    kept = {key for key, line in verdicts.items() if not line.why and key[0] in by_id}
    lone = {(id, contrast) for id, contrast in kept if contrast == "twins" and (by_id[id].twin, "twins") not in kept}
    pairs = [
        _comparison(by_id, rubrics, candidates, id, contrast)
        for item in items
        for id, contrast in ((item.id, name) for name in plan.candidates.contrasts)
        if (id, contrast) in kept - lone
    ]
    return pairs, _yields(items, rubrics, candidates, verdicts, len(pairs), len(lone))


def _comparison(
    items: Mapping[str, SelectedItem],
    rubrics: Mapping[str, RubricLine],
    candidates: Candidates,
    id: str,
    contrast: str,
) -> Comparison:
    item = items[id]
    rejected = (item.twin or "", SERVES) if contrast == "twins" else (id, contrast)
    return Comparison(
        id=f"{id}/{contrast}",
        user_id=item.user_id,
        prompt=item.prompt,
        responses=(candidates[id, SERVES].text, candidates[rejected].text),
        preferred=0,
        category=item.category,
        contrast=contrast,
        twin=f"{item.twin}/twins" if contrast == "twins" else None,
        group=item.group,
        date=item.date,
        privileged=Privileged(narrative=item.narrative, aspects=tuple(rubrics[id].aspects)),
    )


def _yields(
    items: Sequence[SelectedItem],
    rubrics: Mapping[str, RubricLine],
    candidates: Candidates,
    verdicts: Mapping[tuple[str, str], VerdictLine],
    pairs: int,
    lone: int,
) -> list[Yield]:
    ids = {item.id for item in items}
    lines = [line for line in rubrics.values() if line.item in ids]
    with_rubric = [line for line in lines if line.aspects]
    invented = sum(line.invented for line in lines)
    aspects = sum(len(line.aspects) for line in lines)
    written = [line for line in candidates.values() if line.item in ids]
    judged = [line for line in verdicts.values() if line.item in ids]
    why = Counter(line.why for line in judged if line.why)
    if lone:
        why["its twin was left out"] = lone
    return [
        Yield(stage="rubrics", came=len(lines), went=len(with_rubric), why=_counted(line.why for line in lines)),
        Yield(
            stage="evidence",
            came=aspects + invented,
            went=aspects,
            why={"the evidence is not in the user's texts": invented} if invented else {},
            of="aspects",
        ),
        Yield(
            stage="candidates",
            came=len(written),
            went=sum(not line.why for line in written),
            why=_counted(line.why for line in written),
            of="responses",
        ),
        Yield(stage="filter", came=len(judged), went=pairs, why=dict(why), of="pairs"),
    ]


def _counted(reasons: Iterable[str]) -> dict[str, int]:
    return dict(Counter(reason for reason in reasons if reason))
