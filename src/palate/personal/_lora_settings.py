"""What one may set of a language model that is tuned to read users' views."""

from __future__ import annotations

from palate.personal._method import MethodSettings


class LoraSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of `lora`. The first four decide what can be learned, the others how."""

    base: str = "smollm2"
    """The language model that is tuned: a name or a folder. One that is a reward model already keeps its head."""
    rank: int = 16
    """The width of each adapter matrix."""
    alpha: float = 32.0
    """The adapter's product counts by alpha / rank."""
    dropout: float = 0.0
    """The share of an adapter's inputs that is left out in training."""
    learning_rate: float = 2e-4
    """Of AdamW; it rises to this over the first steps and stays."""
    warm_up: int = 20
    """Over how many steps it rises."""
    epochs: int = 4
    """The most passes over the choices; early stopping may make it fewer."""
    patience: int = 1
    """After so many epochs without a gain on held-out users, training stops."""
    choices_per_step: int = 16
    """How many choices' gradients are added up before the weights move."""
    batch_tokens: int = 16_384
    """How many tokens are read at once; decides speed and memory, and nothing else."""
    most_judgements: int = 8
    """How many past choices a view holds at most, in training and in what is remembered of a user."""
    most_posts: int = 4
    """How many posts, likewise."""
    most_tokens: int = 2048
    """The longest conversation in training; a view gives way, and a choice that is too long by itself is left out."""
    impersonal: float = 0.25
    """The share of choices that are read without a view, so that the model also serves nobody in particular."""
    remember: bool = False
    """Whether the model keeps the texts of those it was trained on, so that the view `user` serves them."""
