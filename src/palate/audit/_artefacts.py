"""Can the choice be told from the responses alone, by somebody who knows neither the people nor the questions?

A linear model reads the responses as a reward model is fed them: their form, words, characters and places. It is
fitted by ridge regression, which permuted labels can share the work of, so that the test is a permutation test of
everything that is done with the labels, the choice of the penalty included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import block_diag, coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

from palate.audit._fed_text import FedTexts
from palate.data import text_key
from palate.personal import units
from palate.records import Comparison, PalateError
from palate.report import CLEAR
from palate.runs import Progress, no_progress
from palate.stats import (
    SHARE,
    Floats,
    Quantity,
    Resamples,
    cluster_totals,
    independent_clusters,
    intervals,
    ratio,
    shared_units,
)

PERMUTATIONS = 499
MOST_READ = 4_000
"""Pairs that are read; of more, a sample. A comparison of k responses counts as k - 1 pairs."""
FEWEST = 20
FOLDS = 5
_INNER_FOLDS = 3
_PENALTIES = (0.1, 1.0, 10.0)
"""Of ridge regression, in units of the mean squared length of a row."""
_TIED = 0.6
"""Where tying users to questions holds more than this part together, the two are held out across each other."""
_MOST_TELLING = 6
_SAME = 0.95
"""Columns that go together more closely than this are one feature, named by the longest n-gram."""

Codes = NDArray[np.intp]
Singles = NDArray[np.float32]


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """A feature by which the chosen response can be told."""

    feature: str
    """What a response has or is."""
    weight: float
    """Correlation with what the features above it leave unexplained of the choice; above 0 where the chosen response
    has more of it."""
    chosen: float
    """How often the response with the most of it was chosen, ties shared, where responses differ in it."""
    differ: int
    """Comparisons whose responses differ in it."""
    item: str
    """Id of an example."""
    example: str
    """What the response with the most of it says there."""
    example_chosen: bool


class Artefacts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a model gets that reads nothing but the responses, on people and prompts it has not seen."""

    accuracy: float
    low: float | None
    high: float | None
    chance: float
    """What guessing gets on the same comparisons."""
    p: float
    """How often permuted labels give as much; see `permutations`. It is about these people; see `told_of_others`."""
    p_below: float
    """How often they give as little."""
    n: int
    """Comparisons on which it was tested."""
    users: int
    read: int
    """Comparisons that it learned from or was tested on."""
    permutations: int
    """Labels change places within comparisons, together for all that share a text, group, twin or prompt."""
    held_out: str
    """What no test comparison shares with those that its model was trained on."""
    position: str
    """Whether places could tell: `shown` (on the screen), `file`, or why not."""
    telling: list[Telling]
    """The most telling features, the most telling first; none where no feature goes with the choice by more than the
    best of as many would by chance. They mean something where p is small."""

    @property
    def told(self) -> bool:
        """Whether form tells the choices of these people: labels permuted within what hangs together give less."""
        return self.p < CLEAR

    @property
    def told_of_others(self) -> bool:
        """Whether it tells the choices of others like them, too. p keeps no person's choices together, so that a dozen
        people with tastes of their own would raise an alarm; the interval resamples people."""
        return self.told and self.low is not None and self.low > self.chance

    @property
    def told_the_wrong_way(self) -> bool:
        """Whether permuted labels hardly ever give as little, so that this is no acquittal."""
        return self.p_below < CLEAR


def find_artefacts(
    comparisons: Sequence[Comparison],
    *,
    seed: int = 0,
    feed: Callable[[Comparison], Sequence[str]] | None = None,
    permutations: int = PERMUTATIONS,
    progress: Progress | None = None,
) -> Artefacts:
    """Train a model on the responses alone, and test it on users and prompts it has not seen.

    `feed` gives the very strings that your model gets for the responses of a comparison, in their order; without it
    the responses themselves are read.

    >>> from palate.data import load_benchmark
    >>> find_artefacts(load_benchmark("mini").comparisons).accuracy
    0.5
    """
    sheet = read_sheet(comparisons, seed=seed, feed=feed, progress=progress)
    return judge_sheet(sheet, [item.preferred for item in sheet.items], seed, permutations, progress)[0]


class Sheet(msgspec.Struct, frozen=True):
    """Everything about comparisons but the choice."""

    items: list[Comparison]
    texts: FedTexts
    contrasts: csr_array
    """(rows, responses): within every item the k - 1 orthonormal contrasts of its k responses."""
    features: Singles
    """(rows, columns): contrasts of the features, columns weighed, in single precision."""
    products: Singles | None
    """(rows, rows): inner products of the rows, where there are fewer rows than columns."""
    row_item: Codes
    sizes: Codes
    """Responses of each item."""
    unit: Codes
    """Items that share a text, group, twin or prompt have one code."""
    user: Codes
    prompts_held: bool
    position: str


def read_sheet(
    comparisons: Sequence[Comparison],
    *,
    seed: int = 0,
    feed: Callable[[Comparison], Sequence[str]] | None = None,
    progress: Progress | None = None,
) -> Sheet:
    """Read the responses of comparisons, and tie together what must not be torn apart."""
    if len(comparisons) < FEWEST:
        raise PalateError(
            f"{len(comparisons)} comparisons are too few to look for artefacts; {FEWEST} are the least, and some "
            "hundreds are better"
        )
    report = progress or no_progress
    items = _sample(comparisons, seed)
    report("reading responses", 0, len(items))
    texts = [_fed(item, feed) for item in items]
    positions, position = _positions(items)
    fed = FedTexts(items, texts, positions)
    sizes = np.array([len(responses) for responses in texts])
    contrasts = csr_array(block_diag([_contrast(size) for size in sizes.tolist()], format="csr"))
    unit, prompts_held = _tie(items)
    features = _weighed(np.asarray(contrasts @ fed.raw), fed.block_of).astype(np.float32)
    return Sheet(
        items,
        fed,
        contrasts,
        features,
        features @ features.T if len(features) < features.shape[1] else None,
        np.repeat(np.arange(len(items)), sizes - 1),
        sizes,
        unit,
        np.unique([item.user_id for item in items], return_inverse=True)[1],
        prompts_held,
        position,
    )


def _sample(comparisons: Sequence[Comparison], seed: int) -> list[Comparison]:
    """At most MOST_READ pairs, twins together."""
    if sum(len(item.responses) - 1 for item in comparisons) <= MOST_READ:
        return list(comparisons)
    place = {item.id: number for number, item in enumerate(comparisons)}
    kept: dict[int, None] = {}
    pairs = 0
    for number in np.random.default_rng(seed).permutation(len(comparisons)).tolist():
        twin = place.get(comparisons[number].twin or "", number)
        for new in dict.fromkeys((number, twin)):
            pairs += len(comparisons[new].responses) - 1 if new not in kept else 0
            kept[new] = None
        if pairs >= MOST_READ:
            break
    return [comparisons[number] for number in sorted(kept)]


def _fed(item: Comparison, feed: Callable[[Comparison], Sequence[str]] | None) -> Sequence[str]:
    if feed is None:
        return item.responses
    texts = feed(item)
    if len(texts) != len(item.responses) or not all(isinstance(text, str) for text in texts):
        raise PalateError(
            f"feed must give one string for each response: comparison {item.id} has {len(item.responses)} responses, "
            f"and feed gave {[type(text).__name__ for text in texts]}. Give str(...) of whatever your model is fed."
        )
    return texts


def _positions(items: Sequence[Comparison]) -> tuple[list[Sequence[int]] | None, str]:
    """Where each response stood: on the screen where that was recorded, else in the file."""
    if all(item.shown is not None for item in items):
        return [item.shown for item in items if item.shown is not None], "shown"
    if len({item.preferred for item in items}) == 1:
        return None, "not read: the file keeps the chosen response in a column of its own"
    return [range(len(item.responses)) for item in items], "file"


def _contrast(size: int) -> Floats:
    """Helmert's contrasts of `size` responses, of length 1.

    >>> _contrast(2).round(3).tolist()
    [[0.707, -0.707]]
    """
    rows = np.tril(np.ones((size, size)), -1)[1:]
    rows[np.arange(size - 1), np.arange(1, size)] = -np.arange(1, size)
    return np.asarray(rows / np.sqrt(np.sum(rows**2, axis=1, keepdims=True)))


def _weighed(rows: Floats, block_of: Codes) -> Floats:
    """Columns of form in standard deviations; then every block as long as the others, on average over rows."""
    weighed = rows.copy()
    form = block_of == 0
    spread = np.sqrt(np.mean(weighed[:, form] ** 2, axis=0))
    weighed[:, form] /= np.where(spread > 1e-9, spread, 1.0)
    for block in range(int(block_of.max()) + 1):
        own = block_of == block
        length = np.sqrt(np.mean(np.sum(weighed[:, own] ** 2, axis=1))) if own.any() else 0.0
        weighed[:, own] /= length if length > 1e-9 else 1.0
    return weighed


def _tie(items: Sequence[Comparison]) -> tuple[Codes, bool]:
    """Units that also hold together a prompt, unless most of the items have one prompt in common."""
    own = units(items)
    prompts = np.unique([text_key(item.prompt) for item in items], return_inverse=True)[1]
    tied = _components(own, prompts)
    held = np.bincount(tied).max() <= max(_TIED * len(items), np.bincount(own).max())
    return (tied, True) if held else (own, False)


def _components(one: Codes, other: Codes) -> Codes:
    """Codes of items that share either code, directly or through others."""
    first, size = int(one.max()) + 1, int(one.max()) + int(other.max()) + 2
    graph = coo_array((np.ones(len(one)), (one, other + first)), shape=(size, size))
    return np.unique(connected_components(graph, directed=False)[1][one], return_inverse=True)[1].astype(np.intp)


Split = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Which items are trained on, and which are tested."""


def _splits(unit: Codes, user: Codes, among: NDArray[np.bool_], folds: int, seed: int) -> list[Split]:
    """Folds of the items `among`, whose test items share no unit with the training items, and no user.

    Where users and units hang together too closely to be parted, both are parted, and a fold trains on what is of
    neither its users nor its units; then only a part of the items is tested.
    """
    rows = np.flatnonzero(among)
    if not len(rows):
        return []
    codes = unit if user[rows].max() == user[rows].min() else _components(unit, user)
    largest = np.bincount(codes[rows]).max()
    if largest <= _TIED * len(rows):
        part_of_user = part_of_unit = _parts(codes, rows, folds, seed)
    else:
        part_of_user, part_of_unit = _parts(user, rows, folds, seed), _parts(unit, rows, folds, seed + 1)
    found = []
    for part in range(folds):
        test = among & (part_of_user == part) & (part_of_unit == part)
        train = among & (part_of_user != part) & (part_of_unit != part)
        if test.any() and train.any():
            found.append((train, test))
    return found


def _parts(codes: Codes, rows: Codes, folds: int, seed: int) -> Codes:
    """For each item the part of its code; parts hold like numbers of the items in `rows`."""
    sizes = np.bincount(codes[rows], minlength=int(codes.max()) + 1)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    room = np.zeros(folds)
    part = np.zeros(len(sizes), np.intp)
    for code in order:
        part[code] = room.argmin()
        room[part[code]] += sizes[code]
    return part[codes]


def judge_sheet(
    sheet: Sheet,
    preferred: Sequence[int],
    seed: int,
    permutations: int,
    progress: Progress | None = None,
    *,
    telling: bool = True,
) -> tuple[Artefacts, Floats]:
    """How far the sheet tells these choices, beside permuted ones; and what each item earned, nan where not tested.

    `telling` asks by what, which takes time.
    """
    report = progress or no_progress
    outer = _splits(sheet.unit, sheet.user, np.ones(len(sheet.items), bool), FOLDS, seed)
    if not outer:
        raise PalateError(
            "the comparisons cannot be split so that test items share no prompt, text or user with training items; "
            "add comparisons of other prompts"
        )
    labels = _permuted(sheet, np.array(preferred), permutations, seed)
    targets = np.asarray(sheet.contrasts @ _one_hot(labels, sheet.sizes), np.float32)
    credit = np.full(labels.shape, np.nan)
    for number, (train, test) in enumerate(outer):
        report("looking for artefacts", number, len(outer))
        penalty = _penalties(sheet, targets, train, seed)
        predicted = _predict(sheet, targets, train, test)
        scores = np.take_along_axis(predicted, penalty[None, None, :], axis=0)[0]
        credit[test] = _credits(sheet, scores, labels, test)
    report("looking for artefacts", len(outer), len(outer))
    tested = ~np.isnan(credit[:, 0])
    accuracies = credit[tested].mean(axis=0)
    low, high = _interval(sheet, credit, tested, seed)
    found = Artefacts(
        accuracy=float(accuracies[0]),
        low=low,
        high=high,
        chance=float(np.mean(1 / sheet.sizes[tested])),
        p=float((1 + np.count_nonzero(accuracies[1:] >= accuracies[0] - 1e-9)) / (1 + permutations)),
        p_below=float((1 + np.count_nonzero(accuracies[1:] <= accuracies[0] + 1e-9)) / (1 + permutations)),
        n=int(tested.sum()),
        users=len(np.unique(sheet.user[tested])),
        read=len(sheet.items),
        permutations=permutations,
        held_out="users, prompts, texts, groups and twins"
        if sheet.prompts_held
        else "users, texts, groups and twins; most comparisons have the same prompt",
        position=sheet.position,
        telling=list(_telling(sheet, targets[:, 0], labels[:, 0])) if telling else [],
    )
    return found, credit[:, 0]


def _permuted(sheet: Sheet, preferred: Codes, permutations: int, seed: int) -> Codes:
    """(items, 1 + permutations): the labels, then permuted ones.

    All items of a unit change together, as many steps round their responses in alphabetical order, so that what
    holds a unit together (twins who differ, people who agree) stays as it is.
    """
    ranks = [sorted(range(len(item.responses)), key=item.responses.__getitem__) for item in sheet.items]
    rank_of = [{index: rank for rank, index in enumerate(order)} for order in ranks]
    at = np.array([rank_of[row][label] for row, label in enumerate(preferred.tolist())])
    turns = np.random.default_rng([seed, 1]).random((int(sheet.unit.max()) + 1, permutations))[sheet.unit]
    turned = (at[:, None] + np.floor(turns * sheet.sizes[:, None]).astype(np.intp)) % sheet.sizes[:, None]
    back = np.zeros((len(ranks), int(sheet.sizes.max())), np.intp)
    for row, order in enumerate(ranks):
        back[row, : len(order)] = order
    return np.concatenate([preferred[:, None], np.take_along_axis(back, turned, axis=1)], axis=1)


def _one_hot(labels: Codes, sizes: Codes) -> Floats:
    starts = np.cumsum(sizes) - sizes
    hot = np.zeros((int(sizes.sum()), labels.shape[1]))
    hot[starts[:, None] + labels, np.arange(labels.shape[1])] = 1.0
    return hot


def _predict(sheet: Sheet, targets: Singles, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Singles:
    """(penalties, rows, labels): what ridge regression on the training items says of the rows of the test items."""
    known, asked = np.flatnonzero(train[sheet.row_item]), np.flatnonzero(test[sheet.row_item])
    if sheet.products is not None:
        products, right = sheet.products[np.ix_(known, known)], targets[known]
        left = sheet.products[np.ix_(asked, known)]
        scale = float(np.mean(np.diag(products)))
    else:
        rows = sheet.features[known]
        products, right = rows.T @ rows, rows.T @ targets[known]
        left = sheet.features[asked]
        scale = float(np.trace(products)) / len(known)
    found = []
    for penalty in _PENALTIES:
        factor = cho_factor(
            products + penalty * (scale or 1.0) * np.eye(len(products), dtype=np.float32), check_finite=False
        )
        found.append(left @ cho_solve(factor, right, check_finite=False))
    return np.stack(found)


def _penalties(sheet: Sheet, targets: Singles, train: NDArray[np.bool_], seed: int) -> Codes:
    """For every column of labels, the penalty with the least squared error in folds of the training items."""
    splits = _splits(sheet.unit, sheet.user, train, _INNER_FOLDS, seed)
    if not splits:
        return np.full(targets.shape[1], len(_PENALTIES) - 1)
    errors = [
        np.sum((targets[test[sheet.row_item]] - _predict(sheet, targets, known, test)) ** 2, axis=1)
        for known, test in splits
    ]
    return np.asarray(np.argmin(np.sum(errors, axis=0), axis=0), np.intp)


def _credits(sheet: Sheet, predicted: Singles, labels: Codes, test: NDArray[np.bool_]) -> Floats:
    """(test items, labels): 1 where the chosen response has the highest score, a share where several have."""
    scores = np.asarray(sheet.contrasts[np.flatnonzero(test[sheet.row_item])].T @ predicted)
    starts = np.cumsum(sheet.sizes) - sheet.sizes
    credit = np.zeros((int(test.sum()), labels.shape[1]))
    items = np.flatnonzero(test)
    for size in np.unique(sheet.sizes[items]):
        own = np.flatnonzero(sheet.sizes[items] == size)
        of_items = scores[starts[items[own]][:, None] + np.arange(size)]
        best = of_items >= of_items.max(axis=1, keepdims=True) - 1e-6
        right = np.take_along_axis(best, labels[items[own]][:, None, :], axis=1)[:, 0]
        credit[own] = right / best.sum(axis=1)
    return credit


def _interval(
    sheet: Sheet, credit: Floats, tested: NDArray[np.bool_], seed: int
) -> tuple[float, float] | tuple[None, None]:
    """By resampling users, and what they judged in common; where there is one user, what is not of one unit.

    Models of different folds have training items in common, which resampling does not see. So the interval is never
    narrower than that of permuted labels, scaled to the accuracy as the standard deviation of a share is.
    """
    items = [item for item, own in zip(sheet.items, tested, strict=True) if own]
    one_user = len(np.unique(sheet.user[tested])) < 2
    codes = sheet.unit[tested] if one_user else independent_clusters(items)
    codes = np.unique(codes, return_inverse=True)[1]
    columns = np.stack([credit[tested, 0], np.ones(len(items))], axis=1)
    shared = None if one_user else shared_units(items, codes, "auto")
    clusters = int(codes.max()) + 1
    quantity = Quantity(
        cluster_totals(columns, codes, clusters),
        ratio,
        SHARE,
        shared.totals(*columns.T) if shared is not None else None,
    )
    [estimate] = intervals([quantity], Resamples(clusters, seed=seed))
    if estimate is None:
        return None, None
    accuracies = credit[tested].mean(axis=0)
    level = float(np.mean(accuracies[1:]))
    scale = np.sqrt(estimate.value * (1 - estimate.value) / (level * (1 - level))) if 0 < level < 1 else 0.0
    reach = 1.96 * float(np.std(accuracies[1:])) * float(scale)
    return (
        max(0.0, min(estimate.low, estimate.value - reach)),
        min(1.0, max(estimate.high, estimate.value + reach)),
    )


def _telling(sheet: Sheet, target: Singles, preferred: Codes) -> Iterator[Telling]:
    """Greedily, the column that goes most closely with what the columns before it leave unexplained of the choice."""
    lengths = np.sqrt(np.sum(sheet.features**2, axis=0))
    columns = sheet.features / np.where(lengths > 1e-9, lengths, 1.0)
    left = target / np.sqrt(np.sum(target**2))
    # What the closest of all columns would not reach by chance, 95% of the time. Each block has a like part of the 5%,
    # so that the many n-grams do not drown what there is of form.
    sizes = np.bincount(sheet.texts.block_of)
    enough = norm.isf(0.025 / len(sizes) / np.maximum(sizes, 1))[sheet.texts.block_of] / np.sqrt(len(target))
    for _ in range(_MOST_TELLING):
        closeness = columns.T @ left
        best = int(np.argmax(np.where(np.abs(closeness) >= enough, np.abs(closeness), 0.0)))
        if abs(closeness[best]) < enough[best]:
            return
        same = np.flatnonzero(np.abs(columns.T @ columns[:, best]) > _SAME)
        named = max(same.tolist(), key=lambda place: (len(sheet.texts.gram(place) or ""), place == best))
        yield _describe(sheet, named, float(closeness[best]), preferred)
        left = left - closeness[best] * columns[:, best]


def _describe(sheet: Sheet, column: int, weight: float, preferred: Codes) -> Telling:
    raw = sheet.texts.raw[:, column]
    starts = np.cumsum(sheet.sizes) - sheet.sizes
    most, least = np.maximum.reduceat(raw, starts), np.minimum.reduceat(raw, starts)
    differ = np.flatnonzero(most - least > 1e-9)
    at_most = raw >= np.repeat(most, sheet.sizes) - 1e-9
    right = at_most[starts + preferred] / np.add.reduceat(at_most.astype(np.float64), starts)
    item = int(differ[np.argmax(right[differ] > 0 if weight > 0 else right[differ] == 0)])
    place = int(starts[item] + np.argmax(raw[starts[item] : starts[item] + sheet.sizes[item]]))
    return Telling(
        feature=sheet.texts.describe(column),
        weight=weight,
        chosen=float(right[differ].mean()),
        differ=len(differ),
        item=sheet.items[item].id,
        example=sheet.texts.excerpt(column, place),
        example_chosen=place - int(starts[item]) == int(preferred[item]),
    )
