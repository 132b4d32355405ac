"""The critic and the reward model `sim`: simulated users say how much they like a text, right by definition."""

from __future__ import annotations

from collections.abc import Sequence

from palate.records import Ask, Comparison, Completion, Draft, Grade, PalateError, Rating
from palate.simulate._taste import contributions, is_simulated, taste_fingerprint, taste_of, utility


class _Simulated:
    name = "sim"

    @property
    def fingerprint(self) -> str:
        """Changes with whatever could change a utility."""
        return f"sim-{taste_fingerprint()}"


class SimulatedCritic(_Simulated):
    """The true utility of any text for any simulated user. It needs no file: the user's id tells the taste."""

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        """Only simulated users have a known utility."""
        if not any(is_simulated(item.user_id) for item in items):
            raise PalateError(
                "the critic sim knows the tastes of simulated users only, and no item is of one; "
                "use the benchmark sim, with the ids of users as they are, or another critic"
            )

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        """The user's utility of each text, and what each loved or hated thing adds to it."""
        return [_mark(draft) for draft in drafts]


class SimulatedReward(_Simulated):
    """The same as a reward model: the utility of whoever the view is of. The truth, for checks, and no model.

    It rates as the user that the view names, a stranger where it is a stranger's; one that names nobody is unscored.
    """

    knows_users = True

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The utility of each response."""
        return [_rating(ask) for ask in asks]


def _rating(ask: Ask) -> Rating:
    if ask.view.user_id is None or not is_simulated(ask.view.user_id):
        return Rating(unscored="the view does not name a simulated user; show one, such as user or judgements:4")
    if not all(response.strip() for response in ask.responses):
        return Rating(unscored="a text is empty, and nobody has a taste for nothing")
    taste = taste_of(ask.view.user_id)
    return Rating([utility(taste, response) for response in ask.responses])


def _mark(draft: Draft) -> Grade:
    if not is_simulated(draft.item.user_id):
        return Grade(unscored="the user is not a simulated one, so the taste is not known")
    if not draft.text.strip():
        # Else whoever likes short texts would like nothing at all best.
        return Grade(unscored="the text is empty")
    parts = contributions(taste_of(draft.item.user_id), draft.text)
    return Grade(score=sum(parts.values()), parts=parts)
