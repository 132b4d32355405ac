"""Proximal policy optimisation of a language model against any reward model, from top to bottom in one file.

A step of training:

1. **Rollout.** The policy draws `samples` texts for each of `prompts` prompts with the engine's sampler.
2. **Reward.** The reward model rates all texts of a prompt in one ask. What it cannot rate is never paid.
3. **Experience.** The training weights read every text once: log-probabilities, entropies, values; the reference
   reads the same batches. The ratio of the first update is therefore 1 whatever the sampler rounded.
4. **Advantages.** The last token gets the reward.
   Rewards are measured from the mean of the prompt's texts, so that no prompt pushes all of its texts one way.
   Each token pays for its own divergence from the reference, and for no other's. Taken from the reward, as in Ziegler
   et al. 2019, divergence would be a cost of everything that was said before it, and a policy that the noise of its
   rewards has led away would sooner learn to say nothing than to come back.
   `ppo`: generalised advantage estimates against the value head, whitened. `rloo`: the mean of the other texts of
   the prompt is the baseline of the whole text.
5. **Update.** `epochs` times over the texts in `minibatches` parts, with ratios and values clipped. A prompt's texts
   stay together, so that it is read once for all of them.

Sampling and shuffling are seeded by the number of the step, so a run that resumes from a checkpoint is the run that
was never stopped. Schulman et al. 2017 (PPO), 2016 (GAE); Ziegler et al. 2019 (adaptive KL); Ahmadian et al. 2024
(RLOO).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from palate.downstream.ppo._distributed import ProcessGroup
from palate.downstream.ppo._pieces import Pieces, Some
from palate.downstream.ppo._policy_model import PolicyModel
from palate.downstream.ppo._results import StepLine
from palate.downstream.ppo._split import Prompt, of_step
from palate.downstream.ppo._training import Training
from palate.engine import steady_attention
from palate.records import Ask, PalateError
from palate.rewards import rate
from palate.runs import LoadedModel

ALONE = ProcessGroup()


# ---- The arithmetic. Tensors are (texts, tokens), filled up on the right; the mask says which tokens there are. ----


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """Of each token that was taken."""
    chosen: Tensor = logits.gather(-1, tokens[..., None])[..., 0]
    return chosen - logits.logsumexp(-1)


def entropies(logits: Tensor) -> Tensor:
    """Of what could have been taken at each token, in nats."""
    logs = logits.log_softmax(-1)
    return -(logs.exp() * logs).sum(-1)


def _both(logits: Tensor, tokens: Tensor) -> Tensor:
    return torch.stack([log_probabilities(logits, tokens), entropies(logits)], -1)


def whiten(values: Tensor, mask: Tensor, group: ProcessGroup = ALONE) -> Tensor:
    """Mean 0 and deviation 1 over the mask; values that are all the same become 0, not noise."""
    _, mean, variance = group.moments(values, mask)
    same = variance <= 1e-12 * (1 + mean**2)
    scale = torch.where(same, 0.0, torch.where(same, 1.0, variance).rsqrt())
    return torch.where(mask, (values - mean) * scale, 0.0).to(values.dtype)


def within_prompts(rewards: Tensor, samples: int) -> Tensor:
    """Each text's reward less the mean of its prompt's texts, which stand side by side; alone, it stays as it is."""
    groups = rewards.view(len(rewards) // samples, samples)
    return (groups - groups.mean(1, keepdim=True)).flatten() if samples > 1 else rewards


def token_rewards(mask: Tensor, rewards: Tensor) -> Tensor:
    """The last token gets the text's reward."""
    last = mask & ~torch.nn.functional.pad(mask, (0, 1))[:, 1:]
    return torch.where(last, rewards[:, None], 0.0)


def advantages_and_returns(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates, and what the values should have been. A text ends at its last token."""
    values = torch.where(mask, values, 0.0)
    following = torch.nn.functional.pad(values, (0, 1))[:, 1:]
    td_errors = rewards + gamma * following - values
    advantage = torch.zeros_like(rewards[:, 0])
    found = torch.zeros_like(rewards)
    for token in reversed(range(rewards.shape[1])):
        advantage = torch.where(mask[:, token], td_errors[:, token] + gamma * gae_lambda * advantage, 0.0)
        found[:, token] = advantage
    return found, found + values


def leave_one_out(totals: Tensor, samples: int) -> Tensor:
    """For each text its reward less the mean reward of the other texts of its prompt, which stand side by side."""
    groups = totals.view(len(totals) // samples, samples)
    others = (groups.sum(1, keepdim=True) - groups) / (samples - 1)
    return (groups - others).flatten()


def policy_losses(
    new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, clip_range: float
) -> tuple[Tensor, Tensor]:
    """Each token's loss, and where it was clipped."""
    ratio = torch.where(mask, new - old, 0.0).exp()
    plain, clipped = -advantages * ratio, -advantages * ratio.clamp(1 - clip_range, 1 + clip_range)
    return torch.where(mask, torch.maximum(plain, clipped), 0.0), mask & (clipped > plain)


def value_losses(new: Tensor, old: Tensor, returns: Tensor, mask: Tensor, clip_range: float) -> Tensor:
    """Half the squared error of each value, or of the value held near the old one where that is more."""
    held = old + (new - old).clamp(-clip_range, clip_range)
    worse = torch.maximum((new - returns) ** 2, (held - returns) ** 2)
    return torch.where(mask, 0.5 * worse, 0.0)


class KLController:
    """What a nat of divergence costs: the same throughout, or adapted from step to step towards a target."""

    def __init__(self, training: Training) -> None:
        self.coefficient, self.target = training.kl, training.kl_target
        self.gain = min(1.0, training.prompts * training.samples / training.kl_horizon)

    def update(self, divergence: float) -> None:
        """After a step: up where the policy went further than the target, else down."""
        if self.target is not None:
            self.coefficient *= 1 + min(max(divergence / self.target - 1, -0.2), 0.2) * self.gain


# ---- A step, piece by piece. ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """One thing the policy wrote, and what it is paid."""

    prompt: list[int]
    response: list[int]
    """Its tokens, the end token among them where there was one."""
    finished: bool
    reward: float


@dataclass
class Experience:
    """What was known of a step's texts before the policy moved; all are (texts, tokens)."""

    mask: Tensor
    logs: Tensor
    reference_logs: Tensor
    entropies: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class Trainer:
    """A policy, what it is paid by, and how far it has come."""

    def __init__(
        self,
        policy: PolicyModel,
        prompts: Sequence[Prompt],
        reward_model: LoadedModel,
        training: Training,
        seed: int,
        group: ProcessGroup = ALONE,
    ) -> None:
        training = training.resolved(policy.device)
        self.policy, self.prompts, self.reward_model = policy, prompts, reward_model
        self.training, self.seed, self.group = training, seed, group
        self.step = 0
        self.kl_controller = KLController(training)
        self._pieces = Pieces(training.batch_tokens, self._clear)
        policy.begin(training, seed)
        assert training.learning_rate is not None
        # Adam makes steps of one size out of gradients of any size; those that are only rounding stay below epsilon.
        # Not fused: the sampler knows that weights changed by their version, which fused steps do not raise.
        self._optimiser = torch.optim.AdamW(
            policy.parameters, lr=training.learning_rate, eps=1e-6, weight_decay=0.0, fused=False
        )
        self._value_optimiser: torch.optim.Optimizer | None = None
        if policy.value_head is not None:
            head = policy.value_head.parameters()
            rate_of = training.value_learning_rate
            self._value_optimiser = torch.optim.AdamW(head, lr=rate_of, eps=1e-5, weight_decay=0.0)

    def run(self) -> Iterator[StepLine]:
        """Train to the end, a step at a time; what comes back is the curve."""
        while self.step < self.training.steps:
            started = time.monotonic()
            texts, left_out = self._rollout()
            experience, rewards = self._experience(texts)
            learned = self._update(texts, experience)
            line = self._line(texts, experience, rewards, learned, left_out)
            self.kl_controller.update(line.kl)
            self.step += 1
            yield line.timed(time.monotonic() - started)

    # -- 1 and 2: texts and rewards

    def _rollout(self) -> tuple[list[Text], int]:
        """This process's texts of the step, and how many were left out because they are unscored."""
        count = self.training.prompts
        drawn = list(enumerate(of_step(self.prompts, self.step, count, self.seed), start=self.step * count))
        mine = drawn[self.group.rank :: self.group.world_size]
        # By the number in the whole run, so that a repeated prompt gets new samples.
        seeds = [_seed(self.seed, number) for number, _ in mine]
        written = self.policy.sample([prompt.ids for _, prompt in mine], seeds, self.training) if mine else []
        asks = [
            Ask(
                id=prompt.item.id,
                prompt=prompt.item.prompt,
                responses=tuple(self.policy.decoded(one.ids) for one in some),
                view=prompt.view,
            )
            for (_, prompt), some in zip(mine, written, strict=True)
        ]
        texts: list[Text] = []
        for (_, prompt), some, rewards in zip(mine, written, self._rewards(asks), strict=True):
            for one, reward in zip(some, rewards or (), strict=bool(rewards)):
                response = [*one.ids, one.end] if one.finished else one.ids
                texts.append(Text(prompt.ids, response, one.finished, reward))
        return texts, len(mine) * self.training.samples - len(texts)

    def _rewards(self, asks: Sequence[Ask]) -> list[Sequence[float] | None]:
        """For each ask the rewards of its texts; None for one that is unscored and may be left out."""
        some = max(1, 2 * self.reward_model.batch_size // self.training.samples)
        found: list[Sequence[float] | None] = []
        for start in range(0, len(asks), some):
            batch = asks[start : start + some]
            for ask, rating in zip(batch, rate(self.reward_model.model, batch), strict=True):
                if rating.unscored is not None and self.training.unscored == "stop":
                    raise PalateError(
                        f"step {self.step + 1}: the reward model {self.reward_model.settings.label!r} gave no reward "
                        f"for the texts of item {ask.id!r}: {rating.unscored}. With --unscored leave-out such texts "
                        "stay out of their step; they are never paid a default."
                    )
                found.append(rating.scores)
        return found

    # -- 3 and 4: what the weights say of the texts, and what each token is worth

    def _experience(self, texts: Sequence[Text]) -> tuple[Experience, Tensor]:
        """Read every text with the policy and the reference; the rewards come back as they were given."""
        training, device = self.training, self.policy.torch_device
        shape = (len(texts), max((len(text.response) for text in texts), default=1))
        made = Experience(torch.zeros(shape, dtype=torch.bool, device=device), *torch.zeros(6, *shape, device=device))
        self._in_pieces(texts, range(len(texts)), lambda places: self._look(texts, made, places))
        given = torch.tensor([text.reward for text in texts], dtype=torch.float64, device=device)
        there = torch.ones_like(given, dtype=torch.bool)
        if not int(self.group.sum(there.sum())):
            raise PalateError(f"step {self.step + 1}: every text is unscored, so there is nothing to learn from")
        rewards = given
        if training.whiten_rewards:
            rewards = whiten(within_prompts(given, training.samples), there, self.group)
        truncated = torch.tensor([not text.finished for text in texts], dtype=torch.bool, device=device)
        rewards = (rewards - training.truncation_penalty * truncated).float()
        if training.algorithm == "rloo":
            made.advantages = leave_one_out(rewards, training.samples)[:, None] * made.mask
        else:
            tokens = token_rewards(made.mask, rewards)
            found, made.returns = advantages_and_returns(
                tokens, made.values, made.mask, training.gamma, training.gae_lambda
            )
            made.advantages = whiten(found, made.mask, self.group)
        # The gradient of KL where a token stands is sum_a p(a) (log p(a) - log reference(a)) grad log p(a).
        made.advantages -= self.kl_controller.coefficient * (made.logs - made.reference_logs)
        return made, given

    @torch.no_grad()
    def _look(self, texts: Sequence[Text], made: Experience, places: list[int]) -> None:
        """What policy and reference say of some texts."""
        read = self.policy.texts([(texts[place].prompt, texts[place].response) for place in places])
        states = self.policy.read(read)
        rows, width = torch.tensor(places, device=self.policy.torch_device), slice(read.mask.shape[1])
        made.mask[rows, width] = read.mask
        made.logs[rows, width], made.entropies[rows, width] = self.policy.measure(states, read, _both).unbind(-1)
        if self.policy.value_head is not None:
            made.values[rows, width] = self.policy.value_head(states) * read.mask
        made.reference_logs[rows, width] = self.policy.measure_reference(read, log_probabilities)

    def _in_pieces(self, texts: Sequence[Text], places: Sequence[int], work: Callable[[list[int]], Some]) -> list[Some]:
        """What comes of all these texts, some at once; where memory runs out, all again with half as many at a time."""
        advice = (
            f"step {self.step + 1}: the GPU ran out of memory on one text of {{length}} tokens. Give "
            "--gradient-checkpointing, --lora, a smaller policy or a reward model behind palate serve on another GPU; "
            "the last checkpoint is kept"
        )
        return self._pieces.each(texts, places, lambda place: place // self.training.samples, work, advice)

    def _clear(self) -> None:
        for optimiser in filter(None, (self._optimiser, self._value_optimiser)):
            optimiser.zero_grad(set_to_none=True)

    # -- 5: the policy moves

    def _update(self, texts: Sequence[Text], experience: Experience) -> dict[str, float]:
        """Several epochs of minibatches, each one update of the weights; sums for the curves come back."""
        sums = torch.zeros(4, dtype=torch.float64, device=self.policy.torch_device)  # loss, value loss, clipped, tokens
        norms = 0.0
        for epoch in range(self.training.epochs):
            random = np.random.default_rng([self.seed, self.step, epoch])
            prompts = random.permutation(np.arange(len(texts)).reshape(-1, self.training.samples))
            for part in np.array_split(random.permuted(prompts, axis=1).ravel(), self.training.minibatches):
                count = self.group.sum(experience.mask[torch.from_numpy(part)].sum()).clamp(min=1)
                learn = partial(self._learn, texts, experience, count=count)
                for one in self._in_pieces(texts, part.tolist(), learn):
                    sums += one
                norms += self._move()
        self.policy.refresh()
        loss, value_loss, clipped, tokens = self.group.sum(sums).tolist()
        updates = self.training.epochs * self.training.minibatches
        tokens = max(tokens, 1.0)
        return {
            "loss": loss / tokens,
            "value_loss": value_loss / tokens,
            "clip_fraction": clipped / tokens,
            "grad_norm": norms / updates,
        }

    def _learn(self, texts: Sequence[Text], experience: Experience, places: list[int], *, count: Tensor) -> Tensor:
        """Gradients of some texts of a minibatch, whose losses are divided by all of its tokens."""
        read = self.policy.texts([(texts[place].prompt, texts[place].response) for place in places])
        rows, width = torch.tensor(places, device=self.policy.torch_device), slice(read.mask.shape[1])
        states = self.policy.read(read)
        new = self.policy.measure(states, read, log_probabilities)
        old, advantages = experience.logs[rows, width], experience.advantages[rows, width]
        losses, clipped = policy_losses(new, old, advantages, read.mask, self.training.clip_range)
        total = losses.sum()
        value_total = torch.zeros_like(total)
        if self.policy.value_head is not None:
            values, returns = experience.values[rows, width], experience.returns[rows, width]
            found = self.policy.value_head(states)
            value_total = value_losses(found, values, returns, read.mask, self.training.value_clip_range).sum()
        with steady_attention():  # for what checkpoints compute again
            ((total + value_total) / count.to(total.device)).backward()  # type: ignore[no-untyped-call]
        return torch.stack([total, value_total, clipped.sum(), read.mask.sum()]).detach().double()

    def _move(self) -> float:
        """One update of policy and value head."""
        head = list(self.policy.value_head.parameters()) if self.policy.value_head is not None else []
        self.group.sum_gradients([*self.policy.parameters, *head])
        norm = float(nn.utils.clip_grad_norm_(self.policy.parameters, self.training.max_grad_norm))
        if not math.isfinite(norm):
            raise PalateError(
                f"step {self.step + 1}: training diverged: gradients are not finite. Set a lower "
                "--learning-rate; the last checkpoint is kept."
            )
        for optimiser in filter(None, (self._optimiser, self._value_optimiser)):
            optimiser.step()
        self._clear()
        return norm

    # -- The curves, and where the run stands

    def _line(
        self,
        texts: Sequence[Text],
        experience: Experience,
        rewards: Tensor,
        learned: dict[str, float],
        left_out: int,
    ) -> StepLine:
        """One point of every curve, over the texts of all processes."""
        count, mean, variance = self.group.moments(rewards, torch.ones_like(rewards, dtype=torch.bool))
        _, _, error = self.group.moments(experience.returns - experience.values, experience.mask)
        _, _, spread = self.group.moments(experience.returns, experience.mask)
        sums = torch.stack(
            [
                (experience.logs - experience.reference_logs).sum(),
                experience.entropies.sum(),
                experience.mask.sum(),
                torch.tensor(float(sum(not text.finished for text in texts)), device=rewards.device),
                torch.tensor(float(left_out), device=rewards.device),
            ]
        ).double()
        divergence, entropy, tokens, truncated, unscored = self.group.sum(sums).tolist()
        number = float(count)
        return StepLine(
            step=self.step + 1,
            reward=float(mean),
            reward_std=math.sqrt(float(variance)),
            kl=divergence / number,
            kl_coefficient=self.kl_controller.coefficient,
            entropy=entropy / max(tokens, 1.0),
            length=tokens / number,
            truncated=truncated / number,
            clip_fraction=learned["clip_fraction"],
            explained_variance=1 - float(error / spread) if float(spread) > 0 else None,
            loss=learned["loss"],
            value_loss=learned["value_loss"] if self.policy.value_head is not None else None,
            grad_norm=learned["grad_norm"],
            left_out=int(unscored),
        )

    def state(self) -> dict[str, object]:
        """All that a checkpoint needs; there is no random state but the number of the step."""
        head, descent = self.policy.value_head, self._value_optimiser
        return {
            "step": self.step,
            "kl_coefficient": self.kl_controller.coefficient,
            "policy": self.policy.learned(),
            "optimiser": self._optimiser.state_dict(),
            "value_head": head.state_dict() if head is not None else None,
            "value_optimiser": descent.state_dict() if descent is not None else None,
        }

    def resume(self, state: dict[str, object]) -> None:
        """Stand where a checkpoint stood."""
        self.step, self.kl_controller.coefficient = state["step"], state["kl_coefficient"]  # type: ignore[assignment]
        self.policy.put(state["policy"])  # type: ignore[arg-type]
        self._optimiser.load_state_dict(state["optimiser"])  # type: ignore[arg-type]
        if self.policy.value_head is not None and self._value_optimiser is not None:
            self.policy.value_head.load_state_dict(state["value_head"])  # type: ignore[arg-type]
            self._value_optimiser.load_state_dict(state["value_optimiser"])  # type: ignore[arg-type]


def _seed(seed: int, number: int) -> int:
    """For the texts of one prompt of one step."""
    return int.from_bytes(hashlib.sha256(f"ppo {seed} {number}".encode()).digest()[:4]) >> 1
