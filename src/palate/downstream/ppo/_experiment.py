"""Training with a reward model as a kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palate.downstream._items import ITEMS
from palate.downstream.ppo._document import ppo_document
from palate.downstream.ppo._results import PpoSummary
from palate.downstream.ppo._run import HELD_OUT, LEDGERS, PpoSettings, policy_folder
from palate.downstream.ppo._summary import summarise_ppo
from palate.report import Document
from palate.runs import Experiment, Ledger, Reading, Run
from palate.runs._experiment import DEFAULT_READING

TRAINED = (
    "{path} was trained on this user, and a policy cannot unlearn one user: delete that folder, and copies of its "
    "policy, and name it no more with --run."
)
WEIGHTS = (
    "the weights in {path} are as they were: they were not trained on this user, but if the reward model was, or if "
    "texts of theirs were shown with others' items, a trace of that may be in them"
)
STRANGERS = (
    "{path} showed somebody else's profile in training and does not keep whose: if it was this user's, a trace of it "
    "is in the weights; delete the folder to be sure"
)


class PpoExperiment(Experiment[PpoSettings, PpoSummary]):
    """A policy is trained with the reward of a reward model, and a critic judges it on held-out users."""

    kind = "ppo"
    command = "palate ppo"
    settings = PpoSettings

    def ledgers(self, settings: PpoSettings) -> Sequence[Ledger[Any]]:
        """Prompts of both sides, the curves, what was shown of held-out users, and what was written for them."""
        return LEDGERS

    def summarise(self, run: Run[PpoSettings], reading: Reading = DEFAULT_READING) -> PpoSummary:
        """Every number from the curves and from the raw texts, ratings and grades."""
        return summarise_ppo(run)

    def document(self, run: Run[PpoSettings], summary: PpoSummary, *, users: bool = True) -> Document:
        """What held-out users got, how training went, and every held-out prompt with its texts before and after."""
        return ppo_document(run, summary, users=users)

    def refuse_to_forget(self, run: Run[PpoSettings], user: str) -> str | None:
        """Whoever was trained on is in the weights, and cannot be taken out."""
        trained = any(item.user_id == user and not item.held_out for item in run.read(ITEMS))
        return TRAINED.format(path=run.folder) if trained else None

    def may_tell_of_anybody(self, run: Run[PpoSettings]) -> Sequence[Ledger[Any]]:
        """What a policy writes that was trained while strangers were shown."""
        return (HELD_OUT,) if _showed_strangers(run) else ()

    def left_after_forgetting(self, run: Run[PpoSettings]) -> list[str]:
        """The weights stay as they are."""
        strangers = [STRANGERS.format(path=run.folder)] if _showed_strangers(run) else []
        return [WEIGHTS.format(path=policy_folder(run)), *strangers]


def _showed_strangers(run: Run[PpoSettings]) -> bool:
    return any(view.whose != "own" for view in (run.settings.view, run.settings.policy_view))


PPO = PpoExperiment()
