"""Everything that decides where a training run ends up, and the hash that names its folder."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from palate import __version__
from palate.records import Card, PalateError
from palate.runs import Fingerprint, HashedSettings, ModelSettings, file_name
from palate.views import Budget, ViewSpec

FORMAT = 2
KIND: Literal["ppo"] = "ppo"


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """How the policy is trained."""

    algorithm: Literal["ppo", "rloo"] = "ppo"
    """`ppo` with a value head, or `rloo`: the other samples of the same prompt are the baseline."""
    steps: int = 100
    """Each step draws texts, has them rated, and learns from them."""
    prompts: int = 32
    """Prompts of a step."""
    samples: int = 4
    """Texts for each prompt; `rloo` needs two at least."""
    tokens: int = 128
    """The most tokens of a text."""
    temperature: float = 1.0
    """The policy is the softmax of logits over this, in drawing and in learning alike."""
    epochs: int = 2
    """How often a step's texts are gone through."""
    minibatches: int = 4
    """Into how many parts a step's texts are divided; each is one update of the weights."""
    learning_rate: float = 1e-5
    """Of the policy, by AdamW without weight decay."""
    value_learning_rate: float = 1e-3
    """Of the value head, which has an optimiser of its own."""
    largest_gradient: float = 1.0
    """Gradients of the policy that are longer are cut to this length."""
    kl: float = 0.05
    """What divergence from the reference costs each token, a nat of it in advantages, which for `ppo` have deviation
    1; where there is a target, only at the start."""
    kl_target: float | None = None
    """Nats for each text that the coefficient is steered to; absent, the coefficient stays as it is."""
    kl_horizon: int = 10_000
    """Over about so many texts the coefficient answers to a divergence that is off target."""
    discount: float = 1.0
    """Of later rewards, for each token."""
    trace: float = 1.0
    """Lambda of the generalised advantage estimate. Below 1 the reward, which comes at the end, fades on its way back
    to the tokens before it, unless the value head already foresees it."""
    clip: float = 0.2
    """A token's probability ratio moves no further than this from one."""
    value_clip: float = 0.2
    """A value moves no further than this from the value before the step."""
    whiten_rewards: bool = True
    """Rewards are measured from the mean of their prompt's texts and given deviation 1 over a step, so that levels
    of prompts and users do not matter and all reward models weigh alike against the KL."""
    cut_off_penalty: float = 0.0
    """Taken from the reward (after whitening) of a text that was cut off at the most tokens."""
    unscored: Literal["stop", "leave-out"] = "stop"
    """What an unscored text does: end the run with the reason, or stay out of its step."""
    lora: int = 0
    """Rank of LoRA adapters on every linear layer; 0 trains all weights."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    batch_tokens: int = 0
    """Tokens, padding included, that are read at once in learning; 0 is 4,096 on a CPU and 16,384 on a GPU.
    Where a GPU's memory ends, half as many are read at once from then on."""

    def check(self) -> None:
        """Refuse what cannot be trained, before anything is loaded."""
        for name in ("steps", "prompts", "samples", "tokens", "epochs", "minibatches", "kl_horizon"):
            if getattr(self, name) < 1:
                raise PalateError(f"--{_option(name)} is a number from 1; {getattr(self, name)} was given")
        for name in ("learning_rate", "value_learning_rate", "temperature", "largest_gradient", "clip", "value_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise PalateError(f"--{_option(name)} is more than 0; {getattr(self, name):g} was given")
        for name in ("kl", "cut_off_penalty", "lora", "batch_tokens"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PalateError(f"--{_option(name)} is 0 or more; {getattr(self, name):g} was given")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise PalateError(f"--{_option(name)} is from 0 to 1; {getattr(self, name):g} was given")
        if self.kl_target is not None and not (0 < self.kl_target < math.inf and self.kl > 0):
            raise PalateError("--kl-target is a number of nats above 0, and --kl, where it starts, is above 0 too")
        if self.algorithm == "rloo" and self.samples < 2:
            raise PalateError("rloo measures each text by the others of its prompt: --samples is 2 at least")
        usual = Training()
        for name in ("value_learning_rate", "value_clip", "trace", "discount"):
            if self.algorithm == "rloo" and getattr(self, name) != getattr(usual, name):
                raise PalateError(f"--{_option(name)} is of no use with rloo, which has no value head; leave it out")
        if self.kl_target is None and self.kl_horizon != usual.kl_horizon:
            raise PalateError("--kl-horizon says how soon the coefficient answers to --kl-target; give that, too")
        if self.minibatches > self.prompts * self.samples:
            raise PalateError(f"--minibatches {self.minibatches} is more than the texts of a step")

    def on(self, device: str) -> Training:
        """With the batch that suits this device, where none was given."""
        usual = 16384 if device.startswith("cuda") else 4096
        return self if self.batch_tokens else msgspec.structs.replace(self, batch_tokens=usual)


def _option(name: str) -> str:
    return name.replace("_", "-")


class PpoSettings(HashedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run. Two runs with the same hash end with the same policy."""

    kind: Literal["ppo"] = KIND
    benchmark: Card
    content_hash: str
    policy: Fingerprint
    policy_view: ViewSpec
    """What the policy sees of the user, in training and in the test."""
    reward_model: ModelSettings
    view: ViewSpec
    """What the reward model sees of the user."""
    critic: Fingerprint
    training: Training
    test_share: float
    """The part of the users that is held out."""
    test_samples: int
    """Texts of each policy for each held-out prompt."""
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    budget: Budget | None
    limit: int | None
    seed: int
    processes: int = 1
    """How many share the work; another number adds up in another order."""
    palate: str = __version__
    format: int = FORMAT

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with the reward model in it and the hash at its end."""
        model = file_name(self.reward_model.label)
        return f"{file_name(self.benchmark.name)}-{self.training.algorithm}-{model}-{self.hash}"
