"""People who are asked what they drink, for tests that need comparisons and completions and nothing of their texts."""

from __future__ import annotations

from palate.downstream import Guiding
from palate.records import Benchmark, Card, Comparison, Completion, User

SMALL = Guiding(top_k=4, tokens=6)
ANSWERS = ("A pot of green tea.", "Coffee", "The kettle sings", "Slowly, in the garden")


def drinks(pairs: int = 4, completions: int = 0) -> Benchmark:
    people = {f"user-{one}": User(id=f"user-{one}") for one in range(max(pairs, completions))}
    asked = tuple(
        Comparison(
            id=f"item-{one}",
            user_id=f"user-{one}",
            prompt=f"What should I drink in the morning? {one}",
            responses=(ANSWERS[one % 4], ANSWERS[(one + 1) % 4]),
            preferred=one % 2,
        )
        for one in range(pairs)
    )
    wrote = tuple(
        Completion(id=f"own-{one}", user_id=f"user-{one}", prompt=f"And you? {one}", text="Green tea.")
        for one in range(completions)
    )
    card = Card(name="drinks", title="Drinks", version="1", licence="none", source="made for the tests")
    return Benchmark(card=card, users=people, comparisons=asked, completions=wrote)
