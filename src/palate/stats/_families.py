"""Is an agreement one between families of models, or does it hold within them?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.stats._agreement import with_q
from palate.stats._association import Coefficient, associate
from palate.stats._intervals import Floats
from palate.stats._scores import Measured, Scores, measure

FEWEST_OF_FAMILY = 4
"""A family with fewer models than this has no coefficient of its own."""
_NAMES = ("pearson", "spearman")


class FamilyPart(msgspec.Struct, frozen=True, kw_only=True):
    """The agreement in one part of a zoo. q is held over all parts."""

    name: str
    n: int
    """Models, or families for `between`."""
    pearson: Coefficient | None
    spearman: Coefficient | None


class FamilyAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """One predictor and one outcome, by families of models."""

    predictor: str
    outcome: str
    pooled: FamilyPart
    """All models, whatever their family."""
    centred: FamilyPart
    """All models, each less the mean of its family: what is left within families. p shuffles models within theirs."""
    between: FamilyPart
    """The means of families."""
    within: list[FamilyPart]
    """Each family of at least four models."""
    rmse: float | None
    """Error of a line fitted on the other families, one family left out at a time. Null with fewer than two families,
    or where the others leave no line to fit."""
    rmse_of_mean: float | None
    """The same where the outcome is predicted as the mean of the others, whatever the predictor says."""


def by_family(predictor: Scores, outcome: Scores, families: Sequence[str], *, seed: int = 0) -> FamilyAgreement:
    """The pooled agreement, and that within and between families; `families` has a name for each model.

    >>> first = Scores.published("A", [1, 2, 3, 4, 11, 12, 13, 14])
    >>> second = Scores.published("B", [4, 3, 2, 1, 14, 13, 12, 11])
    >>> found = by_family(first, second, ["x"] * 4 + ["y"] * 4)
    >>> round(found.pooled.pearson.value, 2), found.centred.pearson.value, found.within[0].spearman.value
    (0.9, -1.0, -1.0)
    """
    x, y = measure([predictor, outcome], seed)
    has = np.isfinite(x.values) & np.isfinite(y.values)
    x, y = x.only(has), y.only(has)
    names, codes = np.unique(np.asarray(families)[has], return_inverse=True)
    means = (codes == np.arange(len(names))[:, None]) / np.bincount(codes)[:, None]
    centring = np.eye(len(codes)) - means[codes]

    parts = [
        _part("pooled", x, y, seed),
        _part("centred", x.through(centring), y.through(centring), seed, codes),
        _part("between", x.through(means), y.through(means), seed),
        *(
            _part(str(name), x.only(codes == code), y.only(codes == code), seed)
            for code, name in enumerate(names)
            if np.count_nonzero(codes == code) >= FEWEST_OF_FAMILY
        ),
    ]
    adjusted = {name: with_q([getattr(part, name) for part in parts]) for name in _NAMES}
    pooled, centred, between, *within = (
        msgspec.structs.replace(part, **{name: adjusted[name][place] for name in _NAMES})
        for place, part in enumerate(parts)
    )
    rmse, rmse_of_mean = _left_out(x.values, y.values, codes)
    return FamilyAgreement(
        predictor=predictor.name,
        outcome=outcome.name,
        pooled=pooled,
        centred=centred,
        between=between,
        within=within,
        rmse=rmse,
        rmse_of_mean=rmse_of_mean,
    )


def _part(name: str, x: Measured, y: Measured, seed: int, within: NDArray[np.intp] | None = None) -> FamilyPart:
    found = associate(x, y, names=_NAMES, within=within, seed=seed)
    return FamilyPart(name=name, n=len(x.values), **found)


def _left_out(x: Floats, y: Floats, families: NDArray[np.intp]) -> tuple[float | None, float | None]:
    errors, errors_of_mean = np.zeros(len(x)), np.zeros(len(x))
    for family in np.unique(families):
        left, others = families == family, families != family
        if np.count_nonzero(others) < 2 or np.ptp(x[others]) == 0:
            return None, None
        slope, level = np.polynomial.polynomial.polyfit(x[others], y[others], 1)[::-1]
        errors[left] = y[left] - level - slope * x[left]
        errors_of_mean[left] = y[left] - y[others].mean()
    if not len(x):
        return None, None
    return float(np.sqrt(np.mean(errors**2))), float(np.sqrt(np.mean(errors_of_mean**2)))
