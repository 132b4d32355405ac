"""The reward models that come with palate. Imports are inside, so that naming one costs nothing."""

from __future__ import annotations

from palate.records import RewardModel
from palate.rewards._registry import reward_model


@reward_model("random")
def random(seed: str = "0") -> RewardModel:
    """Content-blind: a coin, the same for the same text."""
    from palate.rewards._controls import Random

    return Random(seed)


@reward_model("longest")
def longest() -> RewardModel:
    """Content-blind: the longer response."""
    from palate.rewards._controls import Longest

    return Longest()


@reward_model("shortest")
def shortest() -> RewardModel:
    """Content-blind: the shorter response."""
    from palate.rewards._controls import Shortest

    return Shortest()


@reward_model("first")
def first() -> RewardModel:
    """Content-blind: the response that stood first."""
    from palate.rewards._controls import First

    return First()


@reward_model("overlap")
def overlap() -> RewardModel:
    """A control without understanding: shared words of response and view."""
    from palate.rewards._controls import Overlap

    return Overlap()


@reward_model("embedding")
def embedding(to: str = "all", encoder: str = "minilm") -> RewardModel:
    """Likeness of a response to what the view shows."""
    from palate.rewards._embedding import EmbeddingReward

    return EmbeddingReward(to=to, encoder=encoder)


@reward_model("classifier")
def classifier(
    model: str,
    index: str | None = None,
    view: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: str = "false",
) -> RewardModel:
    """A scalar reward model: one logit of a sequence classifier, by hub name or folder."""
    from palate.rewards._classifier import ClassifierReward

    return ClassifierReward(
        model, index=index, view=view, device=device, dtype=dtype, trust_remote_code=trust_remote_code
    )


reward_model("hf")(classifier)


@reward_model("judge")
def judge(model: str, verdict: str = "auto", tokens: str = "512", **engine: str) -> RewardModel:
    """A language model that judges pairs, in both orders."""
    from palate.rewards._judge import JudgeReward

    return JudgeReward(model, verdict=verdict, tokens=tokens, **engine)


@reward_model("grader")
def grader(model: str, grade: str = "auto", tokens: str = "256", **engine: str) -> RewardModel:
    """A language model that grades one response at a time."""
    from palate.rewards._grader import GraderReward

    return GraderReward(model, grade=grade, tokens=tokens, **engine)


@reward_model("aspects")
def aspects(model: str, **engine: str) -> RewardModel:
    """A language model that grades each aspect of the rubric in the view."""
    from palate.rewards._grader import AspectsReward

    return AspectsReward(model, **engine)


@reward_model("likelihood")
def likelihood(model: str, **engine: str) -> RewardModel:
    """Log-probability of the response given view and prompt, per token."""
    from palate.rewards._likelihood import LikelihoodReward

    return LikelihoodReward(model, "likelihood", **engine)


@reward_model("pmi")
def pmi(model: str, **engine: str) -> RewardModel:
    """The same minus the log-probability without the view."""
    from palate.rewards._likelihood import LikelihoodReward

    return LikelihoodReward(model, "pmi", **engine)


@reward_model("dpo")
def dpo(model: str, reference: str, beta: str = "1", **engine: str) -> RewardModel:
    """The implicit reward of a tuned model against its reference."""
    from palate.rewards._likelihood import DpoReward

    return DpoReward(model, reference=reference, beta=beta, **engine)


@reward_model("http")
def http(url: str, **options: str) -> RewardModel:
    """A reward server of one's own."""
    from palate.rewards._http import HttpReward

    return HttpReward(url, **options)  # type: ignore[arg-type]


@reward_model("personal")
def personal(folder: str) -> RewardModel:
    """A model that `palate train` made, by its folder."""
    import importlib

    # By name and not by an import statement: the models live on a floor above this one.
    model: RewardModel = importlib.import_module("palate.personal").load_personal(folder)
    return model


@reward_model("sim")
def sim() -> RewardModel:
    """The simulated user's own utility: the truth, to check others against; it knows no real user."""
    import importlib

    # By name, as above.
    model: RewardModel = importlib.import_module("palate.simulate").SimulatedReward()
    return model


CONTROLS = ("random", "longest", "shortest", "first", "overlap")
"""What a personal model has to beat before it counts."""
