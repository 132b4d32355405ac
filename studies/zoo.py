"""Reward models whose quality is known, for studies on simulated users: parts of the truth, and the truth made worse.

rm = "./studies/zoo.py:Topics"        # in a plan that is run from the repository's folder
rm = "./studies/zoo.py:Noisy,deviation=1.0"     # with an error as large as the differences that people see
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from statistics import NormalDist

from palate.records import Ask, PalateError, Rating
from palate.simulate import SimulatedReward, taste_of, utility
from palate.simulate._taste import STANDARD

Scores = Callable[[str, Sequence[str], Sequence[float]], list[float]]
"""From a user, responses and their utilities to what a reward model says of them."""


class _Seen:
    """A simulated user's utility, seen through something."""

    knows_users = True

    def __init__(self, name: str, scores: Scores) -> None:
        self.name, self._scores = name, scores

    @property
    def fingerprint(self) -> str:
        """Changes with whatever could change a utility."""
        return f"{self.name}-1-{SimulatedReward().fingerprint}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Unscored wherever the whole utility is."""
        return [
            whole
            if whole.scores is None or ask.view.user_id is None
            else Rating(self._scores(ask.view.user_id, ask.responses, whole.scores))
            for ask, whole in zip(asks, SimulatedReward().rate(asks), strict=True)
        ]


class Style(_Seen):
    """The truth about style alone, without the user's topic."""

    def __init__(self) -> None:
        super().__init__("style", _of(lambda name: not name.startswith("topic:")))


class Topics(_Seen):
    """The truth about the user's topic alone."""

    def __init__(self) -> None:
        super().__init__("topics", _of(lambda name: name.startswith("topic:")))


PARTS: dict[str, tuple[str, ...]] = {
    "shape": ("length", "sentence_length", "reading_ease", "list_form"),
    "tone": ("formality", "hedging", "sentiment"),
    "address": ("first_person", "second_person"),
    "marks": ("questions", "exclamations", "numbers"),
}
"""Style in four parts."""


class Part(_Seen):
    """The truth about one of the four parts of style alone."""

    def __init__(self, name: str) -> None:
        if name not in PARTS:
            raise PalateError(f"option name={name}: the parts of style are {', '.join(PARTS)}")
        super().__init__(name, _of(lambda trait: trait in PARTS[name]))


class Strongest(_Seen):
    """The truth about the one thing that each user cares for most."""

    def __init__(self) -> None:
        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            name, weight = next(iter(taste_of(user).items()))
            return [utility({name: weight}, response) for response in responses]

        super().__init__("strongest", scores)


class Mistaken(_Seen):
    """A mistaken taste: the true one with an error of this deviation on the weight of every trait and topic.

    Noise on scores differs from text to text, and averages out over many; this error is the same for all texts of a
    user. Couples err alike, with opposite signs.
    """

    def __init__(self, deviation: str = "0.3") -> None:
        size = float(deviation)

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            taste = taste_of(user)
            couple, sign = _couple(user), 1 if next(iter(taste.values())) > 0 else -1
            believed = {
                name: taste.get(name, 0.0) + sign * size * _error(f"mistaken\0{couple}\0{name}") for name in STANDARD
            }
            return [utility(believed, response) for response in responses]

        super().__init__(f"mistaken-{size:g}", scores)


class Known(_Seen):
    """The truth for a share of the users, always the same ones, and nothing for the rest; couples go together."""

    def __init__(self, share: str = "0.5") -> None:
        part = float(share)

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            known = NormalDist().cdf(_error(f"known\0{_couple(user)}")) < part
            return [score if known else 0.0 for score in whole]

        super().__init__(f"known-{part:g}", scores)


class Coarse(_Seen):
    """The truth as good or bad, without how much."""

    def __init__(self) -> None:
        super().__init__("coarse", lambda user, responses, whole: [float(score > 0) for score in whole])


class Torn(_Seen):
    """The truth about style, and the opposite of the truth about the topic."""

    def __init__(self) -> None:
        style, topic = _of(lambda name: not name.startswith("topic:")), _of(lambda name: name.startswith("topic:"))

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            both = zip(style(user, responses, whole), topic(user, responses, whole), strict=True)
            return [one - other for one, other in both]

        super().__init__("torn", scores)


class Biased(_Seen):
    """The truth, and a taste for one trait that is ascribed to everybody."""

    def __init__(self, trait: str, size: str = "2.0") -> None:
        weight = float(size)
        utility({trait: weight}, "")  # an unknown trait fails here

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            return [score + utility({trait: weight}, text) for score, text in zip(whole, responses, strict=True)]

        super().__init__(f"biased-{trait}-{weight:g}", scores)


class Fickle(_Seen):
    """The truth for most users, and the opposite for the rest, always the same ones; couples go together."""

    def __init__(self, wrong: str = "0.3") -> None:
        share = float(wrong)

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            sign = -1 if NormalDist().cdf(_error(_couple(user))) < share else 1
            return [sign * score for score in whole]

        super().__init__(f"fickle-{share:g}", scores)


class Wrong(_Seen):
    """The truth turned round: it prefers what the user likes less."""

    def __init__(self) -> None:
        super().__init__("wrong", lambda user, responses, whole: [-score for score in whole])


class Noisy(_Seen):
    """The truth with an error of this deviation, the same for the same user and text."""

    def __init__(self, deviation: str = "1.0") -> None:
        size = float(deviation)

        def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
            return [score + size * _error(f"{user}\0{text}") for score, text in zip(whole, responses, strict=True)]

        super().__init__(f"noisy-{size:g}", scores)


def _of(wanted: Callable[[str], bool]) -> Scores:
    """The utility of some of the things that a user cares for."""

    def scores(user: str, responses: Sequence[str], whole: Sequence[float]) -> list[float]:
        taste = {name: weight for name, weight in taste_of(user).items() if wanted(name)}
        return [utility(taste, response) for response in responses]

    return scores


def _couple(user: str) -> str:
    """What a user and their twin of the opposite taste have in common."""
    return str(sorted((abs(weight), name) for name, weight in taste_of(user).items()))


def _error(text: str) -> float:
    """Standard normal, and the same for the same text."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6])
    return NormalDist().inv_cdf((number + 0.5) / 2**48)
