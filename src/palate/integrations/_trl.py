"""A reward function for TRL's GRPO and RLOO trainers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from palate.integrations._asker import Asker
from palate.records import PalateError, RewardModel
from palate.serve import trainer_ask

Text = str | Sequence[Mapping[str, object]]
"""A text, or the messages of a conversation."""


class TrlReward:
    """Called by the trainer with prompts, completions and the columns of the data set; gives one reward for each."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.__name__ = f"palate {asker.model.name}"

    def __call__(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: object) -> list[float]:
        """The reward of each completion. Completions for the same user and question are rated as one ask."""
        count = len(prompts)
        users = [None if user is None else str(user) for user in _column("user_id", columns, count)]
        views = [None if view is None else str(view) for view in _column("view", columns, count)]
        asked = _column("question", columns, count)
        questions = [
            _question(prompt) if question is None else str(question)
            for prompt, question in zip(prompts, asked, strict=True)
        ]
        groups: dict[tuple[str, str | None, str | None], list[int]] = {}
        for index, key in enumerate(zip(questions, users, views, strict=True)):
            groups.setdefault(key, []).append(index)
        asks = [
            trainer_ask(
                str(number),
                question,
                [_response(completions[index]) for index in group],
                user_id=user,
                view=view,
            )
            for number, ((question, user, view), group) in enumerate(groups.items())
        ]
        rewards: dict[int, float] = {}
        for group, scores in zip(groups.values(), self._asker.scores(asks), strict=True):
            rewards.update(zip(group, scores, strict=True))
        return [rewards[index] for index in range(count)]


def trl_reward(
    rm: str | RewardModel,
    *,
    benchmark: str | Path | None = None,
    view: str | None = None,
    retriever: str = "bm25",
    budget: str | None = None,
) -> TrlReward:
    """A function for `GRPOTrainer(reward_funcs=...)` that asks a reward model, here or at `http:ADDRESS`.

    The data set may have the columns `user_id` (whose taste counts), `view` (what is known of them, as text) and
    `question` (what the user asked, where the policy's prompt holds more). With `benchmark`, the view of a user is
    built here; without it, `user_id` goes to the model or server as it is.

    >>> reward = trl_reward("longest")
    >>> reward(prompts=["Hi?", "Hi?"], completions=["Hello.", "Hello there."])
    [6.0, 12.0]
    """
    return TrlReward(Asker(rm, benchmark=benchmark, view=view, retriever=retriever, budget=budget))


def _column(name: str, columns: Mapping[str, object], count: int) -> list[object]:
    values = columns.get(name)
    if values is None:
        return [None] * count
    if not isinstance(values, Sequence) or len(values) != count:
        raise PalateError(f"the column {name!r} has to have one value for each of {count} prompts")
    return list(values)


def _question(prompt: Text) -> str:
    """What the user asked. Of a conversation with several turns of theirs, that would be a guess."""
    if isinstance(prompt, str):
        return prompt
    asked = [message.get("content") for message in prompt if message.get("role") == "user"]
    if len(asked) != 1 or not isinstance(asked[0], str):
        raise PalateError(
            f"a prompt has {len(asked)} turns of the user where one text is expected; "
            "put what is to be rated as the question into a column named 'question'"
        )
    return asked[0]


def _response(completion: Text) -> str:
    if isinstance(completion, str):
        return completion
    said = [message.get("content") for message in completion]
    if len(said) != 1 or not isinstance(said[0], str):
        raise PalateError(f"a completion has {len(said)} messages where one text is expected")
    return said[0]
