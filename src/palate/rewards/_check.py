"""The contract of a reward model, as a test-suite that anyone can run on their own class."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from palate.records import Ask, Judgement, PalateError, Part, Rating, RewardModel, View
from palate.rewards._rate import rate

TOLERANCE = 1e-4


class Check(msgspec.Struct, frozen=True):
    """One clause of the contract: `fault` says how it was broken, `remark` what was measured."""

    clause: str
    fault: str | None = None
    remark: str | None = None


def check_reward_model(model: RewardModel, asks: Sequence[Ask] | None = None) -> list[Check]:
    """Run the whole contract; raise `PalateError` that lists every broken clause.

    Give `asks` of your own to have it checked on them as well as on the built-in hard cases.
    """
    ordinary = [*_ordinary_asks(), *(asks or ())]

    def difference(again: list[Rating]) -> str | None:
        return _difference(ordinary, rate(model, ordinary), again)

    clauses: list[tuple[str, Callable[[], str | None]]] = [
        ("no asks give no ratings", lambda: "it gave ratings for nothing" if rate(model, []) else None),
        ("the same input twice gives the same score", lambda: difference(rate(model, ordinary))),
        (
            "the score does not depend on the batch size",
            lambda: difference([rating for ask in ordinary for rating in rate(model, [ask])]),
        ),
        ("the score does not depend on the batch order", lambda: difference(rate(model, ordinary[::-1])[::-1])),
        ("hard cases give a rating or a reason", lambda: _rated(model, hard_asks())),
        ("saving and loading change nothing", lambda: _save_and_load(model, ordinary)),
    ]
    checks = [Check(clause, fault=_caught(run)) for clause, run in clauses]
    checks.append(_response_order(model, ordinary))
    faults = [f"- {check.clause}: {check.fault}" for check in checks if check.fault]
    if faults:
        raise PalateError(
            f"the reward model {model.name!r} breaks the contract in {len(faults)} of {len(checks)} clauses:\n"
            + "\n".join(faults)
        )
    return checks


def _caught(run: Callable[[], str | None]) -> str | None:
    try:
        return run()
    except PalateError as error:
        return str(error)


def _rated(model: RewardModel, asks: Sequence[Ask]) -> None:
    rate(model, asks)


def _save_and_load(model: RewardModel, asks: Sequence[Ask]) -> str | None:
    save, load = getattr(model, "save", None), getattr(type(model), "load", None)
    if save is None or load is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "model")
        return _difference(asks, rate(model, asks), rate(load(Path(folder) / "model"), asks))


def _response_order(model: RewardModel, asks: Sequence[Ask]) -> Check:
    """A model of single responses must not care about their order; a judge of pairs may, and says so."""
    clause = "the order of the responses does not matter, or the model says that it does"
    try:
        forward = rate(model, asks)
        backward = rate(model, [_reversed(ask) for ask in asks])
    except PalateError as error:
        return Check(clause, fault=str(error))
    both = [(a, b) for a, b in zip(forward, backward, strict=True) if a.scores and b.scores]
    flips = sum(_favourites(a) != _favourites(b, mirrored=True) for a, b in both)
    remark = f"another favourite in the other order on {flips} of {len(both)} asks"
    if flips and not getattr(model, "order_sensitive", False):
        return Check(clause, fault=f"{remark}; declare it (order_sensitive = True) or rate both orders")
    return Check(clause, remark=remark)


def _reversed(ask: Ask) -> Ask:
    shown = ask.shown[::-1] if ask.shown else None
    return msgspec.structs.replace(ask, responses=ask.responses[::-1], shown=shown)


def _favourites(rating: Rating, *, mirrored: bool = False) -> set[int]:
    scores = list(rating.scores or ())[:: -1 if mirrored else 1]
    return {index for index, score in enumerate(scores) if score >= max(scores) - TOLERANCE}


def _difference(asks: Sequence[Ask], one: Sequence[Rating], other: Sequence[Rating]) -> str | None:
    for ask, a, b in zip(asks, one, other, strict=True):
        if (a.scores is None) != (b.scores is None):
            return f"ask {ask.id!r} was scored once and unscored once ({a.unscored or b.unscored})"
        for x, y in zip(a.scores or (), b.scores or (), strict=True):
            if not math.isclose(x, y, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                return f"ask {ask.id!r} scored {x!r} and then {y!r}"
    return None


def _ordinary_asks() -> list[Ask]:
    tea = Judgement(
        prompt="What should I drink in the morning?",
        responses=("A pot of green tea, slowly.", "A double espresso on the run."),
        preferred=0,
        reason="I like to take my time.",
    )
    parts = (
        Part(kind="post", id="p1", text="I gave up coffee last year and never slept better."),
        Part(kind="judgement", id="j1", text="They preferred tea.", judgement=tea),
        Part(kind="values", text="This user values: calm, health"),
    )
    view = View(name="posts:1+judgements:1+values", parts=parts, user_id="somebody")
    prompts = ("Suggest a drink.", "What is a good use of a free evening?", "How do I learn a language?")
    responses = (
        ("Try a mint infusion.", "Have a strong black coffee."),
        ("Go dancing until late with twenty people you have never met.", "Read by the window.", "Sleep."),
        ("Speak from the first day.", "Start with grammar tables and a good dictionary, an hour a day."),
    )
    return [
        Ask(id=f"{prompt}-{seen.name}", prompt=prompt, responses=offered, view=seen)
        for prompt, offered in zip(prompts, responses, strict=True)
        for seen in (View(name="none"), view)
    ]


def hard_asks() -> list[Ask]:
    """Cases that break careless models: nothing known, nobody known, nothing said, far too much said."""
    odd = "\u202eright to left\u202c \x00 \U0001f9d1\u200d\U0001f680 e\u0301 \ufeff \ud83d"
    stranger = View(name="posts:1", user_id="never seen", parts=(Part(kind="post", text=odd, id="p"),))
    return [
        Ask(id="empty history", prompt="Hello?", responses=("Hi.", "Hey."), view=View(name="posts:5")),
        Ask(id="unknown user", prompt="Hello?", responses=("Hi.", "Hey."), view=stranger),
        Ask(id="empty response", prompt="Hello?", responses=("", "Hey.")),
        Ask(id="only empty responses", prompt="", responses=("", "")),
        Ask(id="one response", prompt="Hello?", responses=("Hi.",)),
        Ask(id="sixteen responses", prompt="Count.", responses=tuple(f"It is {n}." for n in range(16))),
        Ask(id="very long text", prompt="Go on.", responses=("word " * 20_000, "Enough.")),
        Ask(id="odd Unicode", prompt=odd, responses=(odd, odd[::-1])),
    ]
