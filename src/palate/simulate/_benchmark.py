"""The benchmark `sim`: choices of simulated users, whose tastes are known exactly.

Both users of a couple are offered the same texts and choose by a noisy comparison of utilities,

    P(first) = 1 / (1 + exp(-(utility(first) - utility(second)) / noise))

so that the best any model can do is known: the mean of max(P, 1 - P) over the items.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palate.records import Benchmark, Card, Comparison, Judgement, PalateError, User
from palate.simulate._pool import Offer, pool
from palate.simulate._taste import Taste, contributions, private_truth, reason, taste_of, user_id, utility

NOISE = 0.2
"""In units of utility, whose spread over texts is about one."""
WORTH_SAYING = 0.1
"""A difference in utility that is smaller is no reason that anybody would give."""
LICENCES = {"mini": "Apache-2.0", "stackexchange": "CC BY-SA 3.0/4.0"}


def simulate(
    seed: int = 0,
    users: int = 40,
    *,
    judgements: int = 20,
    items: int = 10,
    noise: float = NOISE,
    texts: str = "mini",
    data_dir: Path | None = None,
) -> Benchmark:
    """Simulated users, each with past judgements and with items to be predicted.

    `texts` are those of `mini`, which are the same everywhere, or of `stackexchange`, from the data folder.

    >>> benchmark = simulate(seed=1, users=4, judgements=3, items=2)
    >>> len(benchmark.users), len(benchmark.comparisons)
    (4, 8)
    """
    if users < 2 or users % 2 or judgements < 0 or items < 1 or not 0 < noise < math.inf or seed < 0:
        raise PalateError(
            f"cannot simulate users={users}, judgements={judgements}, items={items}, noise={noise:g}, seed={seed}: "
            "there have to be at least 2 users and 1 item, users in couples, noise above 0, and no number below 0"
        )
    offers = pool(seed, texts, data_dir)
    if judgements + items > len(offers):
        raise PalateError(
            f"judgements={judgements} and items={items} need {judgements + items} pairs of texts for each user, and "
            f"texts={texts} has {len(offers)}; ask for fewer"
        )
    people: dict[str, User] = {}
    comparisons: list[Comparison] = []
    for number in range(users):
        person = user_id(seed, number)
        # By couple and not by user, so that both are offered the same.
        offered = random.Random(f"offers {seed} {number // 2}").sample(offers, judgements + items)
        taste = taste_of(person)
        people[person] = User(id=person, judgements=_judgements(person, taste, offered[:judgements], noise))
        comparisons += _comparisons(person, taste, offered[judgements:], noise, judgements)
    comparisons = _twinned(comparisons, items)
    return Benchmark(card=_card(seed, noise, texts, comparisons), users=people, comparisons=tuple(comparisons))


def simulate_by_options(
    *,
    seed: str = "0",
    users: str = "40",
    judgements: str = "20",
    items: str = "10",
    noise: str = str(NOISE),
    texts: str = "mini",
    data_dir: Path | None = None,
) -> Benchmark:
    """The benchmark that `sim,users=50,seed=1` means."""
    counts = {"seed": seed, "users": users, "judgements": judgements, "items": items}
    for name, text in counts.items():
        if not (text.isascii() and text.isdigit()):
            raise PalateError(f"option {name}={text}: expected a whole number")
    try:
        spread = float(noise)
    except ValueError:
        raise PalateError(f"option noise={noise}: expected a number") from None
    return simulate(**{name: int(text) for name, text in counts.items()}, noise=spread, texts=texts, data_dir=data_dir)


def ceiling(comparisons: Sequence[Comparison], noise: float = NOISE) -> float:
    """The accuracy that is expected of a model that knows every simulated user's taste exactly."""
    sure = [_probability(taste_of(item.user_id), item.responses, noise) for item in comparisons]
    return math.fsum(max(share, 1 - share) for share in sure) / len(sure)


def _probability(taste: Taste, responses: Sequence[str], noise: float) -> float:
    """That the first of two texts is chosen."""
    difference = (utility(taste, responses[0]) - utility(taste, responses[1])) / noise
    return 0.5 * (1 + math.tanh(difference / 2))  # the logistic function, for differences of any size


def _choose(person: str, taste: Taste, offer: Offer, noise: float) -> int:
    """Which of the two; drawn for each user and offer, so that fewer items do not change the others."""
    return int(random.Random(f"choice {person} {offer.id}").random() >= _probability(taste, offer.responses, noise))


def _judgements(person: str, taste: Taste, offers: Sequence[Offer], noise: float) -> tuple[Judgement, ...]:
    made = []
    for place, offer in enumerate(offers):
        preferred = _choose(person, taste, offer, noise)
        made.append(
            Judgement(
                id=f"{person}:{offer.id}",
                prompt=offer.prompt,
                responses=offer.responses,
                preferred=preferred,
                reason=_reason(person, taste, offer, preferred),
                sequence=place,
            )
        )
    return tuple(made)


def _reason(person: str, taste: Taste, offer: Offer, preferred: int) -> str | None:
    """The one or two things that spoke most for the choice; none where only noise did."""
    chosen, left = (contributions(taste, offer.responses[at]) for at in (preferred, 1 - preferred))
    gains = {name: chosen[name] - left[name] for name in taste}
    spoke = sorted((name for name in gains if gains[name] > WORTH_SAYING), key=lambda name: -gains[name])
    chance = random.Random(f"reason {person} {offer.id}")
    return reason(taste, spoke[: chance.choice((1, 1, 2))], chance) if spoke else None


def _comparisons(person: str, taste: Taste, offers: Sequence[Offer], noise: float, earlier: int) -> list[Comparison]:
    privileged = private_truth(taste)
    return [
        Comparison(
            id=f"{person}:{offer.id}",
            user_id=person,
            prompt=offer.prompt,
            responses=offer.responses,
            preferred=_choose(person, taste, offer, noise),
            category=offer.category,
            group=offer.id,
            sequence=earlier + place,
            privileged=privileged,
        )
        for place, offer in enumerate(offers)
    ]


def _twinned(comparisons: Sequence[Comparison], items: int) -> list[Comparison]:
    """Where the two of a couple chose differently, their items are twins: whoever is one's mirror image is no second,
    independent person, and must not be trained on while the other is tested."""
    found = list(comparisons)
    for start in range(0, len(found), 2 * items):
        for one, other in zip(range(start, start + items), range(start + items, start + 2 * items), strict=True):
            if found[one].preferred != found[other].preferred:
                pair = (found[one].id, found[other].id)
                found[one] = msgspec.structs.replace(found[one], twin=pair[1])
                found[other] = msgspec.structs.replace(found[other], twin=pair[0])
    return found


def _card(seed: int, noise: float, texts: str, comparisons: Sequence[Comparison]) -> Card:
    best = ceiling(comparisons, noise)
    return Card(
        name="sim",
        title="Simulated users, whose tastes are known exactly",
        version=f"1.1-{texts}",
        licence=LICENCES[texts],
        source=f"made by palate from the texts of {texts}, seed {seed}",
        description="Each user has weights on a few traits of a text and one topic; choices are drawn from them.",
        notes=(
            f"a model that knows every taste is right on {best:.1%} of the items (noise {noise:g})",
            "users 0 and 1, 2 and 3, and so on have opposite tastes",
            "most texts were changed by small edits, to vary what users care for",
        ),
    )
