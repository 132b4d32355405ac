"""Does training with a personal reward serve people better? SmolLM2, simulated users, four rewards, several seeds.

    python benchmarks/ppo_sim.py --out ppo-sim                    # on a GPU; two to four minutes a run, twelve runs
    python benchmarks/ppo_sim.py --out ppo-sim --report           # the table of what is there, without training
    python benchmarks/ppo_sim.py --out ppo-sim --report --picture curves.svg
    python benchmarks/ppo_sim.py --out ppo-sim --would-pay        # what others would have paid for the texts of `sim`
    python benchmarks/ppo_sim.py --policy FOLDER --seeds 0 --rewards sim --steps 5 --users 24    # a small try

Rewards: `sim`, the user's true utility; `personal`, a model (per-user weights on countable traits) that was trained
on other simulated users and knows these by the judgements it is shown; `meaning`, the same on a sentence embedding;
`impersonal`, Bradley-Terry on the traits; `random`. The critic is the true utility in all cases, on users and prompts
that were held out. Users care for traits of style and for a topic, and the table tells the topics' part of the change.
The same command goes on where it stopped; a run that is done is read from its folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from palate.data import load_benchmark
from palate.downstream import Mark, PpoRun, PpoSummary, Training, ppo, write_ppo
from palate.evaluate import Estimate, Quantity, Resamples, independent_clusters, intervals, percent, ratio
from palate.personal import PersonalModel
from palate.records import Ask, Benchmark, RewardModel, View
from palate.rewards import load_reward_model, rate
from palate.views import ViewBuilder, parse_view

OTHERS = 1000
"""The seed of the users that personal models are trained on; none of them is trained or tested on here."""
METHODS = {
    "personal": ("per-user", "traits"),
    "meaning": ("per-user", "minilm"),
    "impersonal": ("bradley-terry", "traits"),
}
REWARDS = ("sim", *METHODS, "random")
USUAL = ("sim", "personal", "impersonal", "random")


class Found(NamedTuple):
    """A run that is there."""

    reward: str
    summary: PpoSummary
    run: PpoRun


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="smollm2")
    parser.add_argument("--rewards", nargs="+", choices=REWARDS, default=USUAL)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--users", type=int, default=120)
    parser.add_argument("--judgements", type=int, default=20, help="of each user; another number makes other items")
    parser.add_argument("--known", type=int, default=12, help="how many of them the reward model sees")
    parser.add_argument("--policy-view", default="oracle", help="what the policy sees")
    parser.add_argument("--algorithm", choices=("ppo", "rloo"), default="ppo")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=4e-5)
    parser.add_argument("--kl", type=float, default=0.05)
    parser.add_argument("--batch-tokens", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after this long")
    parser.add_argument("--out", type=Path, default=Path("ppo-sim"))
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--would-pay",
        action="store_true",
        help="rate the texts of runs with `sim` by the other models; no policy is trained",
    )
    parser.add_argument("--picture", type=Path, help="draw the curves of all runs into this SVG file")
    return parser.parse_args()


def reward_model(name: str, folder: Path) -> str:
    """What `--rm` calls it; one that is learned is trained once."""
    if name not in METHODS:
        return name
    method, features = METHODS[name]
    target = folder / "models" / name
    if not (target / "model.json").exists():
        others = load_benchmark(f"sim,users=200,seed={OTHERS}")
        print(f"training {method} on {features} of {len(others.users)} other users", flush=True)
        PersonalModel(method, features=features).fit(others.comparisons, others.users).save(target)
    return f"personal:{target}"


def runs(options: argparse.Namespace) -> Iterator[Found]:
    models = {reward: reward_model(reward, options.out) for reward in options.rewards}
    training = Training(
        algorithm=options.algorithm,
        steps=options.steps,
        prompts=options.prompts,
        samples=options.samples,
        tokens=options.tokens,
        epochs=options.epochs,
        minibatches=options.minibatches,
        learning_rate=options.learning_rate,
        kl=options.kl,
        unscored="leave-out",  # an empty text has no utility; it is not paid, and it does not end the run
        batch_tokens=options.batch_tokens,
    )
    begun = time.monotonic()
    for seed in options.seeds:
        for reward in options.rewards:
            if time.monotonic() - begun > 60 * options.minutes:
                return
            started = time.monotonic()
            summary = ppo(
                f"sim,users={options.users},seed={seed},judgements={options.judgements}",
                options.policy,
                models[reward],
                "sim",
                view=f"judgements:{options.known}",
                policy_view=options.policy_view,
                training=training,
                checkpoint_every=options.steps,
                seed=seed,
                out=options.out,
                say=print,
            )
            write_ppo(summary)
            change = summary.score
            told = "no score" if change is None else f"{change.difference:+.3f} ({change.low} to {change.high})"
            print(f"{reward}, seed {seed}: {told}, {time.monotonic() - started:.0f} s", flush=True)
            yield Found(reward, summary, PpoRun.open(Path(summary.run)))


def read(folder: Path) -> Iterator[Found]:
    for file in sorted(folder.glob("*/summary.json")):
        summary = msgspec.json.decode(file.read_bytes(), type=PpoSummary)
        run = PpoRun.open(file.parent)
        yield Found(Path(run.settings.reward_model.identity["spec"]).name, summary, run)


def _order(row: Found) -> tuple[int, int, str, int]:
    one = row.summary
    known = one.view.rpartition(":")[2]
    return REWARDS.index(row.reward), int(known) if known.isdigit() else 0, one.policy_view, one.seed


def _halves(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """What is known of the untrained and of the trained policy's texts for one prompt."""
    half = len(values) // 2
    before, after = ([value for value in some if value is not None] for some in (values[:half], values[half:]))
    return before, after


def _topic(mark: Mark) -> float:
    """What the topic that a user loves or hates adds to a mark."""
    return sum(value for name, value in mark.parts.items() if name.startswith("topic:"))


def _where_marked(marks: Sequence[Mark], values: Sequence[float | None]) -> list[float | None]:
    return [None if mark.score is None else value for mark, value in zip(marks, values, strict=True)]


def of_topics(run: PpoRun) -> float:
    """How much of the critic's change is of topics."""
    changes = []
    for line in run.held_out().values():
        before, after = _halves(_where_marked(line.marks, [_topic(mark) for mark in line.marks]))
        if before and after:
            changes.append(np.mean(after) - np.mean(before))
    return float(np.mean(changes))


def table(found: list[Found]) -> Table:
    made = Table(box=MARKDOWN)
    for title in ("reward", "reward sees", "seed", "policy sees"):
        made.add_column(title)
    numbers = ("critic's score", "95%", "p", "topics", "own reward", "agree", "KL", "entropy", "tokens", "training, s")
    for title in numbers:
        made.add_column(title, justify="right")
    for reward, one, run in sorted(found, key=_order):
        if one.score is None or one.before is None or one.after is None or not one.complete:
            continue
        low, high = one.score.low, one.score.high
        made.add_row(
            reward,
            one.view,
            str(one.seed),
            one.policy_view,
            f"{one.before.score:.3f} to {one.after.score:.3f} ({one.score.difference:+.3f})",
            "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}",
            f"{one.score.p:.3f}",
            f"{of_topics(run):+.3f}",
            "" if one.reward is None else f"{one.reward.difference:+.3f}",
            " to ".join(percent(side.agreement) for side in (one.before, one.after)),
            f"{one.curve[-1].kl:.1f}",
            f"{one.curve[0].entropy:.2f} to {one.curve[-1].entropy:.2f}",
            f"{one.before.tokens:.0f} to {one.after.tokens:.0f}",
            f"{sum(line.seconds for line in one.curve):.0f}",
        )
    return made


PANELS = {"reward paid": "reward", "KL, nats a text": "kl", "entropy, nats a token": "entropy", "tokens": "length"}
COLOURS = ("#4f772d", "#0b6e99", "#b3541e", "#777777", "#7b2d8b", "#b8860b")
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 200, 46, 56, 52


def picture(found: list[Found]) -> str:
    """A panel for each curve; a thin line for each run, and a thick one for the mean over seeds."""
    found = [row for row in found if row.summary.curve]
    steps = max(len(row.summary.curve) for row in found)
    runs_of: dict[str, list[PpoSummary]] = {}
    for reward, one, _ in sorted(found, key=_order):
        views = {row.summary.view for row in found if row.reward == reward}
        runs_of.setdefault(reward if len(views) == 1 else f"{reward}, {one.view}", []).append(one)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(runs_of)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (WIDTH + LEFT) + 24} {TOP + 2 * (HEIGHT + GAP)}" '
        'role="img" font-family="sans-serif" font-size="13"><title>Curves of training by reward</title>'
        '<rect width="100%" height="100%" fill="#fff"/>'
    ]
    x = LEFT
    for name, colour in colours.items():
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="18" y2="18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 30}" y="22">{name}</text>')
        x += 54 + 7 * len(name)
    for place, (title, field) in enumerate(PANELS.items()):
        left = LEFT + (place % 2) * (WIDTH + LEFT)
        top = TOP + (place // 2) * (HEIGHT + GAP)
        groups = {
            name: [[getattr(line, field) for line in one.curve] for one in some] for name, some in runs_of.items()
        }
        values = [value for group in groups.values() for curve in group for value in curve]
        low, high = min(0.0, *values), max(0.001, *values)
        parts.append(f'<text x="{left}" y="{top - 8}" font-weight="bold">{title}</text>')
        for tick in np.linspace(low, high, 4):
            y = top + (high - tick) / (high - low) * HEIGHT
            parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            told = f"{tick:.{0 if high >= 20 else 1 if high >= 2 else 2}f}"
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="11">{told}</text>')
        for step in (1, steps // 2, steps):
            at = left + step / steps * WIDTH
            parts.append(
                f'<text x="{at:.0f}" y="{top + HEIGHT + 16}" text-anchor="middle" font-size="11">step {step}</text>'
            )
        for name, group in groups.items():
            shortest = min(map(len, group))
            for curve, wide in [*((one, 0.6) for one in group), (np.mean([one[:shortest] for one in group], 0), 2.4)]:
                points = " ".join(
                    f"{left + (step + 1) / steps * WIDTH:.1f},{top + (high - value) / (high - low) * HEIGHT:.1f}"
                    for step, value in enumerate(curve)
                )
                parts.append(
                    f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="{wide}"/>'
                )
    return "\n".join([*parts, "</svg>\n"])


def over_seeds(found: list[Found]) -> Iterator[str]:
    """The mean change over seeds, and how far seeds are apart."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for reward, one, _ in sorted(found, key=_order):
        if one.score is not None and one.complete:
            groups.setdefault((reward, one.view, one.policy_view), []).append(one.score.difference)
    for (reward, view, seen), changes in groups.items():
        spread = f"{min(changes):+.3f} to {max(changes):+.3f}"
        told = f"{reward} seeing {view}, policy seeing {seen}"
        yield f"{told}: {np.mean(changes):+.3f} over {len(changes)} seeds ({spread})"


KNOWN = ((20, 12), (200, 200))
"""How many judgements each user of the benchmark has, and how many of them a model is shown."""
STRANGERS = 5
"""How many others' judgements a model is shown instead, one after another."""


class Paid(NamedTuple):
    """What one reward model says of a run's texts."""

    agreement: float
    """How often it orders two texts of the untrained policy as the critic does."""
    gain: Estimate | None
    """What it would pay for the trained policy's texts above the untrained one's, in deviations of the latter's
    scores for one prompt."""
    topics: float
    """The correlation, over prompts, of that with what the user's topic adds to the critic's score."""


def paid(run: PpoRun, scores: Sequence[Sequence[float | None]]) -> Paid:
    """From the scores of each held-out prompt's texts; those that the critic did not mark are left out."""
    lines = list(run.held_out().values())
    clusters = independent_clusters(lines)
    totals = np.zeros((int(clusters.max()) + 1, 2))
    agreed, spread, changes = [], [], []
    for line, own, cluster in zip(lines, scores, clusters, strict=True):
        before, after = _halves(_where_marked(line.marks, own))
        marks, _ = _halves([mark.score for mark in line.marks])
        topics = _halves(_where_marked(line.marks, [_topic(mark) for mark in line.marks]))
        if len(before) < 2 or not after:
            continue
        change = np.mean(after) - np.mean(before)
        totals[cluster] += change, 1
        changes.append((change, np.mean(topics[1]) - np.mean(topics[0])))
        spread.append(np.var(before, ddof=1))
        for a, b in combinations(range(len(marks)), 2):
            if marks[a] != marks[b]:
                agreed.append((1 + np.sign((marks[a] - marks[b]) * (before[a] - before[b]))) / 2)
    totals[:, 0] /= np.sqrt(np.mean(spread))
    [gain] = intervals([Quantity(totals, ratio)], Resamples(len(totals)))
    return Paid(float(np.mean(agreed)), gain, float(np.corrcoef(np.transpose(changes))[0, 1]))


def scores_of(name: str, model: RewardModel, run: PpoRun, views: Sequence[View]) -> list[Sequence[float]]:
    """How a model that is shown these views rates the texts for each held-out prompt."""
    asks = [
        Ask(id=line.item, prompt=line.prompt, responses=line.texts, view=view)
        for line, view in zip(run.held_out().values(), views, strict=True)
    ]
    ratings = rate(model, asks)
    if missing := [rating.unscored for rating in ratings if rating.scores is None]:
        sys.exit(f"{name} left {len(missing)} prompts unscored: {missing[0]}")
    return [rating.scores or () for rating in ratings]


def views_of(benchmark: Benchmark, known: int, run: PpoRun, shift: int = 0) -> list[View]:
    """What a model is shown of the user of each held-out prompt, or of the one so many couples further on. Where the
    benchmark has other items than the run, as one with more judgements has, for another item of theirs."""
    users = sorted(run.split().test_users)  # couples stay together, so that an even shift leads to a stranger
    whom = {user: users[(place + 2 * shift) % len(users)] for place, user in enumerate(users)}
    items = {item.id: item for item in benchmark.comparisons} if not shift else {}
    anyone = {item.user_id: item for item in benchmark.comparisons}
    own = [items.get(line.item, anyone[whom[line.user_id]]) for line in run.held_out().values()]
    built = ViewBuilder(benchmark).build(parse_view(f"judgements:{known}"), own)
    return [view for view in built if isinstance(view, View)]


def would_pay(options: argparse.Namespace) -> Table:
    """Of runs that were paid with the true utility: how other models rate what the policy wrote before and after."""
    done = [row for row in sorted(read(options.out), key=_order) if row.reward == "sim" and row.run.held_out()]
    if not done:
        sys.exit(
            f"{options.out} holds no run with the reward `sim` that has been judged; train one without --would-pay"
        )
    made = Table("model", "knows", "seed", box=MARKDOWN)
    for title in (
        "agrees with the critic",
        "pays for trained texts",
        "95%",
        "correlation with topics",
        "as a stranger",
    ):
        made.add_column(title, justify="right")

    def add(name: str, knows: str, seed: int, told: Paid, strangers: Sequence[Paid] = ()) -> None:
        gains = [one.gain.value for one in strangers if one.gain]
        made.add_row(
            name,
            knows,
            str(seed),
            percent(told.agreement),
            f"{told.gain.value:+.2f}" if told.gain else "",
            f"{told.gain.low:+.2f} to {told.gain.high:+.2f}" if told.gain else "",
            f"{told.topics:+.2f}",
            f"{np.mean(gains):+.2f}" if gains else "",
        )

    for _, one, run in done:
        marks = [[mark.score for mark in line.marks] for line in run.held_out().values()]
        add("sim", "all", one.seed, paid(run, marks))
    for name, (method, _) in METHODS.items():
        model, _ = load_reward_model(reward_model(name, options.out))
        for judgements, known in KNOWN if method == "per-user" else KNOWN[:1]:
            for _, one, run in done:
                users = one.train_users + one.test_users
                benchmark = load_benchmark(f"sim,users={users},seed={one.seed},judgements={judgements}")
                print(f"{name}, seed {one.seed}: {STRANGERS + 1} times", file=sys.stderr, flush=True)
                own, *others = (
                    paid(run, scores_of(name, model, run, views_of(benchmark, known, run, shift)))
                    for shift in range(STRANGERS + 1)
                )
                add(name, f"judgements:{known}", one.seed, own, others)
    return made


def main() -> None:
    options = arguments()
    console = Console(width=210)
    if options.would_pay:
        console.print(would_pay(options))
        return
    found = list(read(options.out) if options.report else runs(options))
    if options.report and not found:
        sys.exit(f"there is no run in {options.out}")
    console.print(table(found))
    if unfinished := [row.run.folder.name for row in found if not row.summary.complete]:
        console.print(f"not finished, and left out: {', '.join(unfinished)}")
    for line in over_seeds(found):
        console.print(line)
    if options.picture and any(row.summary.curve for row in found):
        options.picture.write_text(picture(found))
        console.print(f"curves: {options.picture}")


if __name__ == "__main__":
    main()
