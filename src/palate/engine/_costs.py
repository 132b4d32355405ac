"""What remote requests cost, and the cap that they must not pass."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from palate.records import PalateError

Prices = tuple[float, float]
"""For a million prompt tokens and for a million completion tokens, in any currency."""


class Usage(msgspec.Struct, kw_only=True):
    """What was asked and answered so far, as the server counts it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0
    """Everything that was sent, tries that failed included."""
    retries: int = 0
    cost: float = 0.0


class Bound(msgspec.Struct, frozen=True):
    """The most tokens that one request can take."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class CostTracker:
    """Counts tokens and money. A request is sent only if its worst case still fits under the cap.

    What a server bills for an answer that never arrived is not known here and not counted.
    """

    def __init__(self, usage: Usage, prices: Prices | None = None, most_spent: float | None = None) -> None:
        if most_spent is not None and prices is None:
            raise PalateError("most_spent needs prices: (per million prompt tokens, per million completion tokens)")
        self.usage = usage
        self._prices = prices
        self._most_spent = most_spent
        self._reserved: list[float] = []

    def reserve(self, bound: Bound) -> bool:
        """Set money aside for one request; False while what is in flight may need it."""
        price = self._price(bound.prompt_tokens, bound.completion_tokens)
        needed = self.usage.cost + sum(self._reserved) + price
        if self._most_spent is not None and needed > self._most_spent:
            if self._reserved:
                return False
            raise PalateError(
                f"spent {money(self.usage.cost)} of {money(self._most_spent)}, and the next request could cost "
                f"{money(price)}; what was answered is kept. Raise most_spent to continue; the same command again "
                "may spend as much once more."
            )
        self._reserved.append(price)
        return True

    def release(self, bound: Bound) -> None:
        """The request is over."""
        self._reserved.remove(self._price(bound.prompt_tokens, bound.completion_tokens))

    def pay(self, bound: Bound, usage: object) -> None:
        """Count what the server says it used; where it says nothing, the worst case is what it cost."""
        told = usage if isinstance(usage, Mapping) else {}
        prompt, completion = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
        self.usage.prompt_tokens += prompt or 0
        self.usage.completion_tokens += completion or 0
        self.usage.cost += self._price(
            bound.prompt_tokens if prompt is None else prompt,
            bound.completion_tokens if completion is None else completion,
        )

    @property
    def priced(self) -> bool:
        """Whether it is known what tokens cost."""
        return self._prices is not None

    def expect(self, prompt: int, completion: int) -> None:
        """Count a request that is not sent, as in a rehearsal."""
        self.usage.requests += 1
        self.usage.prompt_tokens += prompt
        self.usage.completion_tokens += completion
        self.usage.cost += self._price(prompt, completion)

    def status(self) -> str:
        """One short line for a progress bar."""
        usage = self.usage
        line = f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out"
        if self._prices is not None:
            line += f", {money(usage.cost)} spent"
        if usage.retries:
            line += f", {usage.retries:,} {'retry' if usage.retries == 1 else 'retries'}"
        return line

    def _price(self, prompt: int, completion: int) -> float:
        for_prompt, for_completion = self._prices or (0.0, 0.0)
        return (prompt * for_prompt + completion * for_completion) / 1_000_000


def money(amount: float) -> str:
    """Two decimals, or as many as it takes to see anything.

    >>> money(12.5), money(0.0123), money(0.00004)
    ('12.50', '0.01', '0.00004')
    """
    return f"{amount:,.2f}" if amount >= 0.01 or amount == 0 else f"{amount:.8f}".rstrip("0")


def _count(number: object) -> int | None:
    return number if isinstance(number, int) and number >= 0 else None
