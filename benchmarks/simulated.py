"""How well can the tastes of simulated users be found again from their choices, and how was their scale made?

    python benchmarks/simulated.py               # recovery, trait by trait, for several numbers of judgements
    python benchmarks/simulated.py --standard    # centre and scale of every trait over the texts of sim, seed 0
    python benchmarks/simulated.py --people 6    # who some of the users are
    python benchmarks/simulated.py --policy smollm2    # what a language model varies by itself; about a minute

A direct fit: for each user a logistic regression of the choices on the differences of all eighteen standardised
traits and topics, with a normal prior on the weights, and no knowledge of which of them the user cares for.
`correlation` is that of found and true weights over users; `sign` is the share of the users who care for a
trait whose weight was found with the right sign.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

from palate.engine import TRAITS, Failure, Sampling, Turn, WriteRequest, open_language_model
from palate.records import Judgement
from palate.simulate import ceiling, simulate, taste_of, utility
from palate.simulate._pool import pool
from palate.simulate._taste import STANDARD, measure_standard, private_truth, standardised

Floats = NDArray[np.float64]
PRECISION = 0.5
"""Of the prior on weights in units of utility over noise; the fit hardly depends on it."""


def differences(judgements: Sequence[Judgement]) -> Floats:
    """Chosen minus left, in every trait and topic."""
    return np.array(
        [
            [standardised(one.chosen, name) - standardised(one.rejected[0], name) for name in STANDARD]
            for one in judgements
        ]
    )


def fit(rows: Floats) -> Floats:
    """The weights that make the choices likeliest, under the prior."""

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = rows @ weights
        gradient = -(rows.T @ (1 / (1 + np.exp(margins)))) + PRECISION * weights
        return float(np.logaddexp(0, -margins).sum() + PRECISION * weights @ weights / 2), gradient

    return np.asarray(minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x)


def recovery(seed: int, users: int, counts: list[int]) -> tuple[Table, list[str]]:
    """The table, and how often choices are predicted, beside the ceiling."""
    benchmark = simulate(seed, users, judgements=max(counts), items=30)
    names = list(STANDARD)
    truth = np.array([[taste_of(user).get(name, 0.0) for name in names] for user in benchmark.users])
    rows = [differences(user.judgements) for user in benchmark.users.values()]
    table = Table(box=MARKDOWN)
    for column in ("", "users who care", *(f"{count}: {what}" for count in counts for what in ("correlation", "sign"))):
        table.add_column(column, justify="left" if not column else "right")
    found = {count: np.array([fit(own[:count]) for own in rows]) for count in counts}
    for place, name in enumerate(names):
        cares = truth[:, place] != 0
        cells = []
        for count in counts:
            correlation = np.corrcoef(found[count][:, place], truth[:, place])[0, 1]
            right = (np.sign(found[count][cares, place]) == np.sign(truth[cares, place])).mean()
            cells += [f"{correlation:.2f}", f"{right:.0%}"]
        table.add_row(name, str(cares.sum()), *cells)
    places = {id: place for place, id in enumerate(benchmark.users)}
    said = [f"a model that knows every taste: {ceiling(benchmark.comparisons):.1%} expected"]
    without = [{name: weight for name, weight in taste_of(id).items() if name in TRAITS} for id in benchmark.users]
    signs = [
        np.sign(
            utility(without[places[item.user_id]], item.chosen)
            - utility(without[places[item.user_id]], item.rejected[0])
        )
        for item in benchmark.comparisons
    ]
    said.append(f"one that knows every taste but the topics: {(1 + np.mean(signs)) / 2:.1%} of {len(signs):,} items")
    for count in counts:
        right = [
            found[count][places[item.user_id]]
            @ [standardised(item.chosen, name) - standardised(item.rejected[0], name) for name in names]
            > 0
            for item in benchmark.comparisons
        ]
        said.append(f"fit to {count} judgements of each user: {np.mean(right):.1%} of {len(right):,} items")
    return table, said


def spread(policy: str, seed: int) -> Table:
    """How far apart a language model's own texts for one prompt are in each trait, in scales."""
    prompts = sorted({offer.prompt for offer in pool(seed) if offer.category != "posts"})[::60]
    sampling = Sampling(most_tokens=96, temperature=1.0, top_p=0.9, seed=seed)
    requests = [WriteRequest(turns=(Turn("user", prompt),), samples=8, sampling=sampling) for prompt in prompts]
    written = [answer for answer in open_language_model(policy).write(requests) if not isinstance(answer, Failure)]
    table = Table(box=MARKDOWN)
    for column in ("", "mean", "standard deviation within a prompt"):
        table.add_column(column, justify="left" if not column else "right")
    for name in STANDARD:
        values = np.array([[standardised(one.text, name) for one in texts] for texts in written])
        table.add_row(name, f"{values.mean():+.2f}", f"{values.std(axis=1).mean():.2f}")
    table.caption = f"{len(written)} prompts, {requests[0].samples} texts each"
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--standard", action="store_true")
    parser.add_argument("--people", type=int, default=0)
    parser.add_argument("--policy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--judgements", default="20,60,200,600")
    arguments = parser.parse_args()
    console = Console(width=160, highlight=False)
    if arguments.standard:
        for name, (centre, scale) in measure_standard([t for offer in pool(0) for t in offer.responses]).items():
            console.print(f'    "{name}": ({centre!r}, {scale!r}),', markup=False)
        return
    if arguments.policy:
        console.print(spread(arguments.policy, arguments.seed))
        return
    if arguments.people:
        for user in simulate(arguments.seed, arguments.people).users.values():
            taste = ", ".join(f"{name} {weight:+.2f}" for name, weight in taste_of(user.id).items())
            console.print(f"| {user.id} | {taste} | {private_truth(taste_of(user.id)).narrative} |", soft_wrap=True)
        return
    table, said = recovery(arguments.seed, arguments.users, [int(n) for n in arguments.judgements.split(",")])
    console.print(table)
    for line in said:
        console.print(line)


if __name__ == "__main__":
    main()
