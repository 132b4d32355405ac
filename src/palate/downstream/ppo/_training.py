"""How a policy is trained and tested. Fields are the options of `palate ppo`, and their docstrings its help."""

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

from palate.records import PalateError

LEARNING_RATE, LORA_LEARNING_RATE = 1e-5, 2e-4
CPU_BATCH, GPU_BATCH = 4_096, 16_384


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the policy is trained and tested."""

    algorithm: Literal["ppo", "rloo"] = "ppo"
    """`ppo` with a value head, or `rloo`: the other samples of the same prompt are the baseline."""
    steps: int = 100
    """Each step draws texts, has them rated, and learns from them."""
    prompts: int = 32
    """Prompts of a step."""
    samples: int = 4
    """Texts for each prompt; `rloo` needs two at least."""
    tokens: int = 128
    """Maximum number of tokens of a text."""
    temperature: float = 1.0
    """Logits are divided by this before the softmax, both in sampling and in training."""
    epochs: int = 2
    """Number of passes over the texts of a step."""
    minibatches: int = 4
    """Number of minibatches that a step's texts are split into; each gives one update of the weights."""
    learning_rate: float | None = None
    """Learning rate of the policy (AdamW without weight decay). By default 1e-5, with LoRA 2e-4."""
    value_learning_rate: float = 1e-3
    """Learning rate of the value head, which has its own optimiser."""
    max_grad_norm: float = 1.0
    """Gradients of the policy with a larger norm are scaled down to it."""
    kl: float = 0.05
    """KL coefficient: what each token pays for a nat of divergence from the reference, in units of advantage, which for
    `ppo` has standard deviation 1. With --kl-target, only the initial value."""
    kl_target: float | None = None
    """Target KL for each text, in nats, to which the coefficient adapts; without it, the coefficient is fixed."""
    kl_horizon: int = 10_000
    """Number of texts over which the KL coefficient adapts to a divergence that is off target."""
    gamma: float = 1.0
    """The discount of later rewards, for each token."""
    gae_lambda: float = 1.0
    """Lambda of generalised advantage estimation. Below 1, the reward at the last token counts less for earlier tokens,
    unless the value head already predicts it."""
    clip_range: float = 0.2
    """Each token's probability ratio is clipped to within this of 1."""
    value_clip_range: float = 0.2
    """Each value is clipped to within this of the value before the step."""
    whiten_rewards: bool = True
    """Subtract the mean reward of each prompt's texts and scale to standard deviation 1 over a step, so that levels of
    prompts and users do not matter and all reward models weigh the same against the KL."""
    truncation_penalty: float = 0.0
    """Taken from the reward (after whitening) of a text that was cut off at the token limit."""
    unscored: Literal["stop", "leave-out"] = "stop"
    """On an unscored text: end the run with the reason, or leave the text out of its step. It never gets a reward."""
    lora: int = 0
    """Rank of LoRA adapters on every linear layer; 0 trains all weights."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass instead of storing them."""
    batch_tokens: int = 0
    """Tokens, padding included, in one forward pass of training; 0 means 4,096 on a CPU and 16,384 on a GPU.
    Halved for the rest of the run whenever the GPU runs out of memory."""
    test_share: float = 0.25
    """The part of the users that is held out."""
    test_samples: int = 4
    """Texts of each policy for each held-out prompt."""

    def check(self) -> None:
        """Refuse what cannot be trained, before anything is loaded."""
        for name in ("steps", "prompts", "samples", "tokens", "epochs", "minibatches", "kl_horizon", "test_samples"):
            if getattr(self, name) < 1:
                raise PalateError(f"--{_option(name)} is a number from 1; {getattr(self, name)} was given")
        for name in (
            "learning_rate",
            "value_learning_rate",
            "temperature",
            "max_grad_norm",
            "clip_range",
            "value_clip_range",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise PalateError(f"--{_option(name)} is more than 0; {value:g} was given")
        for name in ("kl", "truncation_penalty", "lora", "batch_tokens"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PalateError(f"--{_option(name)} is 0 or more; {getattr(self, name):g} was given")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise PalateError(f"--{_option(name)} is from 0 to 1; {getattr(self, name):g} was given")
        if self.kl_target is not None and not (0 < self.kl_target < math.inf and self.kl > 0):
            raise PalateError("--kl-target is a number of nats above 0, and --kl, where it starts, is above 0 too")
        if self.algorithm == "rloo" and self.samples < 2:
            raise PalateError("rloo compares each text with the others of its prompt: --samples must be at least 2")
        usual = Training()
        for name in ("value_learning_rate", "value_clip_range", "gae_lambda", "gamma"):
            if self.algorithm == "rloo" and getattr(self, name) != getattr(usual, name):
                raise PalateError(f"--{_option(name)} is of no use with rloo, which has no value head; leave it out")
        if self.kl_target is None and self.kl_horizon != usual.kl_horizon:
            raise PalateError("--kl-horizon says how soon the coefficient answers to --kl-target; give that, too")
        if self.minibatches > self.prompts * self.samples:
            raise PalateError(f"--minibatches {self.minibatches} is more than the texts of a step")
        if not 0 < self.test_share < 1:
            raise PalateError(
                f"--test-share is the part of the users that is held out, between 0 and 1; not {self.test_share}"
            )

    def resolved(self, device: str) -> Self:
        """With the learning rate, and the batch for this device, where none were given."""
        rate = LORA_LEARNING_RATE if self.lora else LEARNING_RATE
        batch = GPU_BATCH if device.startswith("cuda") else CPU_BATCH
        return replace(
            self,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            batch_tokens=self.batch_tokens or batch,
        )


def _option(name: str) -> str:
    return name.replace("_", "-")
