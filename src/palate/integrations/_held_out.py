"""What a policy is worth to held-out users while TRL trains it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palate.downstream import Drawing, HeldOutUsers
from palate.records import Benchmark, Critic, RewardModel

if TYPE_CHECKING:
    from transformers import Trainer

    from palate.downstream._trainer_callback import HeldOutCallback


def held_out_callback(
    trainer: Trainer,
    benchmark: str | Path | Benchmark,
    critic: str | Critic,
    *,
    every: int = 100,
    users: Collection[str] | None = None,
    reward_model: str | RewardModel | None = None,
    view: str = "none",
    policy_view: str = "none",
    samples: int = 4,
    tokens: int = 256,
    temperature: float = 1.0,
    top_p: float = 0.9,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> HeldOutCallback:
    """A callback for `trainer.add_callback(...)`: grades of held-out users before, during and after training.

    Held out are the users of the benchmark whose ids are not in the column `user_id` of the training data, or those
    of `users`. A prompt that is trained on as somebody else's is left out. `reward_model` under `view` is compared
    with the critic. Each state of the policy becomes a best-of-N run in `out` [default: beside the trainer's output
    folder, with `-held-out` after its name].
    """
    from palate.downstream._trainer_callback import HeldOutCallback

    rows: Any = trainer.train_dataset
    columns = (getattr(rows, "column_names", None) or ()) if hasattr(rows, "__getitem__") else ()
    held_out = HeldOutUsers(
        benchmark,
        critic,
        users=users,
        trained_users={str(user) for user in rows["user_id"]} if "user_id" in columns else (),
        trained_prompts=(text for name in ("prompt", "question") if name in columns for text in _asked(rows[name])),
        reward_model=reward_model,
        view=view,
        policy_view=policy_view,
        drawing=Drawing(samples=samples, tokens=tokens, temperature=temperature, top_p=top_p),
        limit=limit,
        seed=seed,
    )
    return HeldOutCallback(trainer, held_out, every=every, out=None if out is None else Path(out))


def _asked(prompts: Sequence[str | Sequence[Mapping[str, object]]]) -> Iterator[str]:
    """What the users of the training data ask: a prompt, or every turn of theirs."""
    for prompt in prompts:
        if isinstance(prompt, str):
            yield prompt
        elif prompt:
            yield from (str(turn.get("content")) for turn in prompt if turn.get("role") == "user")
