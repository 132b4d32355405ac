"""A custom reward function for verl.

reward.custom_reward_function.path=pkg://palate.integrations.verl
reward.custom_reward_function.name=compute_score
+reward.custom_reward_function.reward_kwargs.rm=http:http://127.0.0.1:8300
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache

from palate.integrations._asker import Asker
from palate.records import PalateError
from palate.serve import trainer_ask

__all__ = ["compute_score"]

_making = threading.Lock()


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    rm: str,
    benchmark: str | None = None,
    view: str | None = None,
    retriever: str = "bm25",
    budget: str | None = None,
) -> float:
    """The reward of one solution for the user that `extra_info` names.

    `extra_info` has `question`, and may have `user_id` or `view`, what is known of the user as text.
    `data_source` and `ground_truth` are verl's and not used: what the user wants is the reward model's to say.

    >>> compute_score("chat", "Green tea.", None, {"question": "What shall I drink?"}, rm="longest")
    10.0
    """
    told = extra_info or {}
    question, user, seen = (told.get(name) for name in ("question", "user_id", "view"))
    if not isinstance(question, str):
        raise PalateError("extra_info has no text named 'question': put what the user asked there")
    ask = trainer_ask(
        "0",
        question,
        [solution_str],
        user_id=None if user is None else str(user),
        view=None if seen is None else str(seen),
    )
    with _making:
        asker = _asker(rm, benchmark, view, retriever, budget)
    [[score]] = asker.scores([ask])
    return score


@lru_cache
def _asker(rm: str, benchmark: str | None, view: str | None, retriever: str, budget: str | None) -> Asker:
    """One for each reward model, however many threads of verl ask it."""
    return Asker(rm, benchmark=benchmark, view=view, retriever=retriever, budget=budget)
