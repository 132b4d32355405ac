"""The reward models by name."""

from __future__ import annotations

from collections.abc import Callable

from palate.records import Registry, RewardModel

Factory = Callable[..., RewardModel]

REWARD_MODELS: Registry[Factory] = Registry(
    "reward model",
    "palate.reward_models",
    {
        "random": ("Content-blind: a coin, the same for the same text.", "palate.rewards._controls:Random"),
        "longest": ("Content-blind: the longer response.", "palate.rewards._controls:Longest"),
        "shortest": ("Content-blind: the shorter response.", "palate.rewards._controls:Shortest"),
        "first": ("Content-blind: the response that stood first.", "palate.rewards._controls:First"),
        "overlap": (
            "A control without understanding: shared words of response and view.",
            "palate.rewards._controls:Overlap",
        ),
        "embedding": ("Likeness of a response to what the view shows.", "palate.rewards._embedding:EmbeddingReward"),
        "classifier": (
            "A scalar reward model: one logit of a sequence classifier, by hub name or folder.",
            "palate.rewards._classifier:ClassifierReward",
        ),
        "hf": ("The same as classifier.", "palate.rewards._classifier:ClassifierReward"),
        "judge": ("A language model that judges pairs, in both orders.", "palate.rewards._judge:JudgeReward"),
        "grader": ("A language model that grades one response at a time.", "palate.rewards._judge:GraderReward"),
        "aspects": (
            "A language model that grades each aspect of the rubric in the view.",
            "palate.rewards._judge:AspectsReward",
        ),
        "likelihood": (
            "Log-probability of the response given view and prompt, per token.",
            "palate.rewards._likelihood:LikelihoodReward",
        ),
        "pmi": (
            "Likelihood minus the log-probability without the view.",
            "palate.rewards._likelihood:PmiReward",
        ),
        "dpo": (
            "The implicit reward of a tuned model against its reference.",
            "palate.rewards._likelihood:DpoReward",
        ),
        "http": ("A reward server of your own.", "palate.rewards._http:HttpReward"),
        "personal": ("A model that palate train made, by its folder.", "palate.personal:load_personal"),
        "sim": ("A simulated user's own utility: the truth, to check others.", "palate.simulate:SimulatedReward"),
    },
    needs=("name", "rate"),
)
reward_model = REWARD_MODELS.register
"""Register a function or class that makes a reward model."""

CONTROLS = ("random", "longest", "shortest", "first", "overlap")
"""What a personal model has to beat before it counts."""


def make_reward_model(spec: str) -> RewardModel:
    """Make a reward model from `name`, `name:argument,key=value` or `./file.py:Name,key=value`."""
    return REWARD_MODELS.make(spec)


def load_reward_model(spec: str) -> tuple[RewardModel, dict[str, str]]:
    """A reward model with its identity: everything known that could change its scores."""
    model, source = REWARD_MODELS.load(spec)
    identity = {"spec": spec, "source": source}
    fingerprint = getattr(model, "fingerprint", None)
    if fingerprint is not None:
        identity["fingerprint"] = str(fingerprint)
    return model, identity
