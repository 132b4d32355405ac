"""Does training with a personal reward serve people better? SmolLM2, simulated users, several rewards and seeds.

    python benchmarks/ppo_sim.py --out tuning --tune rates.json --at-once 3       # a learning rate for each reward
    python benchmarks/ppo_sim.py --out ppo-sim --rates rates.json --at-once 3     # train with them, on other users
    python benchmarks/ppo_sim.py --out ppo-sim --report --picture curves.svg      # the table of what is there
    python benchmarks/ppo_sim.py --out ppo-sim --would-pay        # what others would have paid for the texts of `sim`
    python benchmarks/ppo_sim.py --policy FOLDER --seeds 0 --rewards sim --steps 5 --users 24    # a small try

Rewards: `sim`, the user's true utility; `style`, the true utility without the user's topic; `personal`, a model
(per-user weights on countable traits) that was trained on other simulated users and knows these by the judgements it
is shown; `meaning`, the same on a sentence embedding. Controls: `stranger`, the true utility of somebody else;
`impersonal`, Bradley-Terry on the traits; `random`. The critic is the true utility in all cases, on users and prompts
that were held out. Users care for traits of style and for a topic, and the table tells the topics' part of the change.
After training, both policies write once more while they are shown the tastes of a stranger: what is gained then is
not personal.

A rate is chosen by the reward's own rise on held-out users, in deviations of its scores of the untrained policy's
texts for one prompt, and never by the critic. Run the same command again to resume; a finished run is read from its
folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import random
import subprocess
import threading
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
from palate.downstream import PPO, PpoSummary, Training, ppo
from palate.downstream.ppo._run import PpoSettings, held_out_prompts, policy_folder
from palate.engine import Failure, LocalModel, Sampling, WriteRequest
from palate.personal import PersonalModel
from palate.records import Ask, Benchmark, Draft, Grade, Rating, RewardModel, View
from palate.report import percent
from palate.rewards import conversation, load_reward_model, rate
from palate.runs import Run, open_run, write_report
from palate.simulate import SimulatedCritic, SimulatedReward, taste_of, utility
from palate.stats import Estimate, Quantity, Resamples, independent_clusters, intervals, ratio
from palate.views import ViewBuilder, parse_view

OTHERS = 1000
"""The seed of the users that personal models are trained on; none of them is trained or tested on here."""
METHODS = {
    "personal": ("per-user", "traits"),
    "meaning": ("per-user", "minilm"),
    "impersonal": ("bradley-terry", "traits"),
}
REWARDS = ("sim", "style", "personal", "meaning", "stranger", "impersonal", "random")
TUNED = ("personal", "meaning", "style", "sim")
"""Those that can rise, in the order in which they are run, should time run out."""
CONTROLS = {"stranger": "sim", "random": "personal", "impersonal": None}
"""What cannot rise is trained at the rate of another reward; `impersonal` at `--learning-rates`."""
SEEDS, STEPS, RATE = [200, 201, 202], 60, 4e-5
TUNING_SEED, TUNING_STEPS = 100, 30
TUNING_RATES = (8e-5, 1.6e-4, 4e-5, 3.2e-4)
LEAST_RISE = 0.4
"""Deviations by which a reward has to rise in tuning: `sim` was about there after 30 steps at 4e-5."""
MOST_KL = 60.0
"""Nats for each text; beyond it, or with half of the entropy gone, a rate is not stable."""


class Found(NamedTuple):
    """A run that is there."""

    reward: str
    summary: PpoSummary
    run: Run[PpoSettings]

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.run.settings.training.learning_rate or 0.0


class StyleReward:
    """The truth about style alone: a simulated user's utility without what their topic adds."""

    name = "style"
    knows_users = True

    @property
    def fingerprint(self) -> str:
        """Changes with whatever could change a utility."""
        return f"style-{SimulatedReward().fingerprint}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """The utility of each response; unscored wherever the whole utility is."""
        return [_style(ask, whole) for ask, whole in zip(asks, SimulatedReward().rate(asks), strict=True)]


def _style(ask: Ask, whole: Rating) -> Rating:
    if whole.scores is None or ask.view.user_id is None:
        return whole
    taste = {name: weight for name, weight in taste_of(ask.view.user_id).items() if not name.startswith("topic:")}
    return Rating([utility(taste, response) for response in ask.responses])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="smollm2")
    parser.add_argument("--rewards", nargs="+", choices=REWARDS, help="all, or with --tune those that can rise")
    parser.add_argument("--seeds", nargs="+", type=int, help=f"{SEEDS}, or {TUNING_SEED} with --tune")
    parser.add_argument("--users", type=int, default=120)
    parser.add_argument("--judgements", type=int, default=200, help="of each user; another number makes other items")
    parser.add_argument("--known", type=int, default=200, help="how many of them the reward model sees")
    parser.add_argument("--policy-view", default="oracle", help="what the policy sees")
    parser.add_argument("--algorithm", choices=("ppo", "rloo"), default="ppo")
    parser.add_argument("--steps", type=int, help=f"{STEPS}, or {TUNING_STEPS} with --tune")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--learning-rates", nargs="+", type=float, help="a run with each")
    parser.add_argument("--rates", type=Path, help="take each reward's learning rate from this file of --tune")
    parser.add_argument(
        "--tune",
        type=Path,
        metavar="FILE",
        help="train at several rates on a seed of their own, and choose one for each reward",
    )
    parser.add_argument("--kl", type=float, default=0.05)
    parser.add_argument("--batch-tokens", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side, each in a process of its own")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run that would end after this long")
    parser.add_argument("--out", type=Path, default=Path("ppo-sim"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # this process is one run
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--would-pay",
        action="store_true",
        help="rate the texts of runs with `sim` by the other models; no policy is trained",
    )
    parser.add_argument("--picture", type=Path, help="draw the curves of all runs into this SVG file")
    options = parser.parse_args()
    tune = options.tune is not None
    options.rewards = options.rewards or (TUNED if tune else (*TUNED, *CONTROLS))
    options.seeds = options.seeds or ([TUNING_SEED] if tune else SEEDS)
    options.steps = options.steps or (TUNING_STEPS if tune else STEPS)
    options.learning_rates = options.learning_rates or (TUNING_RATES if tune else [RATE])
    return options


SAME = (
    "policy", "users", "judgements", "known", "policy_view", "algorithm", "steps", "prompts", "samples", "tokens",
    "epochs", "minibatches", "kl", "batch_tokens", "out",
)  # fmt: skip
"""Options that every run of a command shares."""


class Job(NamedTuple):
    """A run that is to be made."""

    seed: int
    rate: float
    reward: str


def jobs(options: argparse.Namespace) -> list[Job]:
    """Controls last, and seed by seed, so that whatever is done when time runs out compares the rewards."""
    chosen: dict[str, float] = msgspec.json.decode(options.rates.read_bytes()) if options.rates else {}
    usual = options.learning_rates
    rates = {reward: [chosen[reward]] if reward in chosen else usual for reward in options.rewards}
    wanted = [
        Job(seed, rates[reward][place], reward)
        for seed in options.seeds
        for place in range(len(usual))
        for reward in options.rewards
        if place < len(rates[reward])
    ]
    return sorted(wanted, key=lambda job: job.reward in CONTROLS)


def reward_model(name: str, folder: Path) -> str | RewardModel:
    """What `--rm` calls it; one that is learned is trained once."""
    if name == "style":
        return StyleReward()
    if name not in METHODS:
        return "sim" if name == "stranger" else name
    method, features = METHODS[name]
    target = folder / "models" / name
    if not (target / "model.json").exists():
        others = load_benchmark(f"sim,users=200,seed={OTHERS}")
        print(f"training {method} on {features} of {len(others.users)} other users", flush=True)
        PersonalModel(method, features=features).fit(others.comparisons, others.users).save(target)
    return f"personal:{target}"


def train(options: argparse.Namespace, job: Job) -> Found:
    """One run, and what both policies write when they are shown a stranger's tastes."""
    started = time.monotonic()
    training = Training(
        algorithm=options.algorithm,
        steps=options.steps,
        prompts=options.prompts,
        samples=options.samples,
        tokens=options.tokens,
        epochs=options.epochs,
        minibatches=options.minibatches,
        learning_rate=job.rate,
        kl=options.kl,
        unscored="leave-out",  # an empty text has no utility; it is not paid, and it does not end the run
        batch_tokens=options.batch_tokens,
    )
    benchmark = load_benchmark(f"sim,users={options.users},seed={job.seed},judgements={options.judgements}")
    view = f"judgements:{options.known}"
    summary = ppo(
        benchmark,
        options.policy,
        reward_model(job.reward, options.out),
        "sim",
        view=f"swapped:{view}" if job.reward == "stranger" else view,
        policy_view=options.policy_view,
        training=training,
        checkpoint_every=options.steps,
        seed=job.seed,
        out=options.out,
        on_step=lambda line, steps: print(f"{line.step}/{steps} {line.reward:.3f} {line.kl:.1f} {line.seconds:.1f} s"),
        say=print,
    )
    run = open_run(Path(summary.run), PPO)
    write_report(run, summary)
    write_as_strangers(run, options.policy, benchmark)
    change = summary.score
    told = "no score" if change is None else f"{change.difference:+.3f} ({change.low} to {change.high})"
    print(f"{job.reward}, seed {job.seed}, {job.rate:g}: {told}, {time.monotonic() - started:.0f} s", flush=True)
    return Found(job.reward, summary, run)


def train_all(options: argparse.Namespace) -> None:
    """Every run in a process of its own; what it prints is kept in `logs`."""
    for reward in options.rewards:
        reward_model(reward, options.out)  # before several processes would train the same one
    waiting, lock, begun, longest = jobs(options), threading.Lock(), time.monotonic(), 0.0
    logs = options.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    same = [argument for name in SAME for argument in (f"--{name.replace('_', '-')}", str(getattr(options, name)))]

    def work() -> None:
        nonlocal longest
        while True:
            with lock:
                if not waiting or time.monotonic() - begun + longest > 60 * options.minutes:
                    return
                job = waiting.pop(0)
            own = ["--seeds", str(job.seed), "--learning-rates", repr(job.rate), "--rewards", job.reward]
            log, started = logs / f"{job.reward}-{job.seed}-{job.rate:g}.txt", time.monotonic()
            with log.open("w") as printed:
                command = [sys.executable, "-u", __file__, "--one", *own, *same]
                failed = subprocess.run(command, stdout=printed, stderr=subprocess.STDOUT).returncode
            longest = max(longest, time.monotonic() - started)
            last = log.read_text().strip().rpartition("\n")[2]
            print(f"{time.monotonic() - begun:.0f} s: {'FAILED: ' if failed else ''}{last}", flush=True)

    workers = [threading.Thread(target=work) for _ in range(options.at_once)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if waiting:
        print(f"out of time, not begun: {', '.join(f'{job.reward} {job.seed} {job.rate:g}' for job in waiting)}")


class StrangerLine(msgspec.Struct, frozen=True):
    """What both policies wrote for a held-out prompt when they were shown somebody else's tastes."""

    item: str
    stranger: str
    grades: tuple[Grade, ...]
    """Of the user whose prompt it is: of the untrained policy's texts, then of as many of the trained one's."""


def _strangers_file(run: Run[PpoSettings]) -> Path:
    return run.folder.parent / "strangers" / f"{run.folder.name}.jsonl"


def _couple(user: str) -> int:
    return int(user.rpartition("-")[2]) // 2


def write_as_strangers(run: Run[PpoSettings], policy: str, benchmark: Benchmark) -> None:
    """Let both policies write for held-out prompts once more, with the tastes of another held-out user before them."""
    file = _strangers_file(run)
    if file.exists():
        return
    prompts, lines = held_out_prompts(run)
    users = sorted({prompt.user_id for prompt in prompts})
    items = {item.id: item for item in benchmark.comparisons}
    anyone = {item.user_id: item for item in benchmark.comparisons}
    strangers = [
        random.Random(prompt.id).choice([user for user in users if _couple(user) != _couple(prompt.user_id)])
        for prompt in prompts
    ]
    views = ViewBuilder(benchmark).build(run.settings.policy_view, [anyone[user] for user in strangers])
    training, requests = run.settings.training, []
    for prompt, view in zip(prompts, views, strict=True):
        assert isinstance(view, View)
        ask = Ask(id=prompt.id, prompt=prompt.prompt, responses=(), view=view)
        sampling = Sampling(
            most_tokens=training.tokens,
            temperature=training.temperature,
            top_p=1.0,
            seed=random.Random(f"{run.settings.seed} {prompt.id}").getrandbits(31),
        )
        turns = conversation(ask)
        requests.append(WriteRequest(turns=turns, sampling=sampling, samples=training.test_samples))
    written = [LocalModel(name).write(requests) for name in (policy, str(policy_folder(run)))]
    told = []
    for line, stranger, *answers in zip(lines, strangers, *written, strict=True):
        texts = [text.text for answer in answers if not isinstance(answer, Failure) for text in answer]
        grades = SimulatedCritic().judge([Draft(item=items[line.item], text=text) for text in texts])
        told.append(StrangerLine(line.item, stranger, tuple(grades)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in told))


def as_strangers(run: Run[PpoSettings]) -> Estimate | None:
    """The critic's change from the untrained to the trained policy when both are shown a stranger's tastes."""
    file = _strangers_file(run)
    if not file.exists():
        return None
    prompts, _ = held_out_prompts(run)
    clusters = dict(zip((prompt.id for prompt in prompts), independent_clusters(prompts), strict=True))
    totals = np.zeros((max(clusters.values()) + 1, 2))
    for line in msgspec.json.Decoder(StrangerLine).decode_lines(file.read_bytes()):
        before, after = _halves([grade.score for grade in line.grades])
        if before and after:
            totals[clusters[line.item]] += np.mean(after) - np.mean(before), 1
    [estimate] = intervals([Quantity(totals, ratio)], Resamples(len(totals)))
    return estimate


def own_reward(run: Run[PpoSettings]) -> Paid:
    """What the run's own reward model says of the texts of held-out users."""
    return paid(run, [line.rating.scores or [None] * len(line.texts) for line in held_out_prompts(run)[1]])


def choose(found: Sequence[Found]) -> dict[str, float]:
    """For each reward the lowest stable rate at which it rose enough; else the stable one at which it rose most."""
    rates: dict[str, float] = {}
    for reward in REWARDS:
        rises = {}
        for row in sorted((row for row in found if row.reward == reward), key=lambda row: row.rate):
            curve, gain = row.summary.curve, own_reward(row.run).gain if row.summary.complete else None
            divergence, entropy = (
                float(np.mean([getattr(line, name) for line in curve[-5:]])) for name in ("kl", "entropy")
            )
            stable = gain is not None and divergence <= MOST_KL and entropy >= curve[0].entropy / 2
            print(
                f"{reward} at {row.rate:g}: {_told(gain)} deviations, KL {divergence:.1f}, "
                f"entropy {curve[0].entropy:.2f} to {entropy:.2f}{'' if stable else ', not stable'}"
            )
            if stable and gain is not None:
                rises[row.rate] = gain.value
        if rises:
            enough = [rate for rate, rise in rises.items() if rise >= LEAST_RISE]
            rates[reward] = min(enough) if enough else max(rises, key=rises.__getitem__)
            print(f"{reward}: {rates[reward]:g}{'' if enough else f', where it rose most; at none by {LEAST_RISE}'}")
    for control, other in CONTROLS.items():
        if other in rates:
            rates[control] = rates[other]
    return rates


def read(folder: Path) -> Iterator[Found]:
    for file in sorted(folder.glob("*/summary.json")):
        summary = msgspec.json.decode(file.read_bytes(), type=PpoSummary)
        run = open_run(file.parent, PPO)
        model = run.settings.reward_model
        name = Path(model.identity.get("spec", model.label)).name
        yield Found("stranger" if run.settings.view.whose != "own" else name, summary, run)


def _order(row: Found) -> tuple[int, int, str, float, int]:
    one = row.summary
    known = one.view.rpartition(":")[2]
    return REWARDS.index(row.reward), int(known) if known.isdigit() else 0, one.policy_view, row.rate, one.seed


def _halves(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """What is known of the untrained and of the trained policy's texts for one prompt."""
    half = len(values) // 2
    before, after = ([value for value in some if value is not None] for some in (values[:half], values[half:]))
    return before, after


def _topic(grade: Grade) -> float:
    """What the topic that a user loves or hates adds to a grade."""
    return sum(value for name, value in grade.parts.items() if name.startswith("topic:"))


def _where_graded(grades: Sequence[Grade], values: Sequence[float | None]) -> list[float | None]:
    return [None if grade.score is None else value for grade, value in zip(grades, values, strict=True)]


def of_topics(run: Run[PpoSettings]) -> float:
    """How much of the critic's change is of topics."""
    changes = []
    for line in held_out_prompts(run)[1]:
        before, after = _halves(_where_graded(line.grades, [_topic(grade) for grade in line.grades]))
        if before and after:
            changes.append(np.mean(after) - np.mean(before))
    return float(np.mean(changes))


def _told(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:+.2f} ({estimate.low:+.2f} to {estimate.high:+.2f})"


def table(found: list[Found]) -> Table:
    made = Table(box=MARKDOWN)
    for title in ("reward", "sees", "rate", "seed"):
        made.add_column(title)
    numbers = ("critic's score", "95%", "p", "topics", "shown a stranger's tastes", "own reward, deviations")
    for title in (*numbers, "agree", "KL", "entropy", "tokens", "training, s"):
        made.add_column(title, justify="right")
    for row in sorted(found, key=_order):
        one, run = row.summary, row.run
        if one.score is None or one.before is None or one.after is None or not one.complete:
            continue
        low, high = one.score.low, one.score.high
        made.add_row(
            row.reward,
            one.view,
            f"{row.rate:g}",
            str(one.seed),
            f"{one.before.score:.3f} to {one.after.score:.3f} ({one.score.difference:+.3f})",
            "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}",
            f"{one.score.p:.3f}",
            f"{of_topics(run):+.3f}",
            _told(as_strangers(run)),
            _told(own_reward(run).gain),
            " to ".join(percent(side.agreement) for side in (one.before, one.after)),
            f"{one.curve[-1].kl:.1f}",
            f"{one.curve[0].entropy:.2f} to {one.curve[-1].entropy:.2f}",
            f"{one.before.tokens:.0f} to {one.after.tokens:.0f}",
            f"{sum(line.seconds for line in one.curve):.0f}",
        )
    return made


PANELS = {"reward paid": "reward", "KL, nats a text": "kl", "entropy, nats a token": "entropy", "tokens": "length"}
COLOURS = ("#4f772d", "#0b6e99", "#b3541e", "#777777", "#7b2d8b", "#b8860b", "#d1495b")
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
    groups: dict[str, list[float]] = {}
    for row in sorted(found, key=_order):
        summary = row.summary
        if summary.score is not None and summary.complete:
            told = f"{row.reward} seeing {summary.view}, policy seeing {summary.policy_view}, rate {row.rate:g}"
            groups.setdefault(told, []).append(summary.score.difference)
    for told, changes in groups.items():
        spread = f"{min(changes):+.3f} to {max(changes):+.3f}"
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


def paid(run: Run[PpoSettings], scores: Sequence[Sequence[float | None]]) -> Paid:
    """From the scores of each held-out prompt's texts; those that the critic did not mark are left out."""
    prompts, lines = held_out_prompts(run)
    clusters = independent_clusters(prompts)
    totals = np.zeros((int(clusters.max()) + 1, 2))
    agreed, spread, changes = [], [], []
    for line, own, cluster in zip(lines, scores, clusters, strict=True):
        before, after = _halves(_where_graded(line.grades, own))
        graded, _ = _halves([grade.score for grade in line.grades])
        topics = _halves(_where_graded(line.grades, [_topic(grade) for grade in line.grades]))
        if len(before) < 2 or not after:
            continue
        change = np.mean(after) - np.mean(before)
        totals[cluster] += change, 1
        changes.append((change, np.mean(topics[1]) - np.mean(topics[0])))
        spread.append(np.var(before, ddof=1))
        for a, b in combinations(range(len(graded)), 2):
            if graded[a] != graded[b]:
                agreed.append((1 + np.sign((graded[a] - graded[b]) * (before[a] - before[b]))) / 2)
    totals[:, 0] /= np.sqrt(np.mean(spread))
    [gain] = intervals([Quantity(totals, ratio)], Resamples(len(totals)))
    return Paid(float(np.mean(agreed)), gain, float(np.corrcoef(np.transpose(changes))[0, 1]))


def scores_of(name: str, model: RewardModel, run: Run[PpoSettings], views: Sequence[View]) -> list[Sequence[float]]:
    """How a model that is shown these views rates the texts for each held-out prompt."""
    asks = [
        Ask(id=prompt.id, prompt=prompt.prompt, responses=line.texts, view=view)
        for prompt, line, view in zip(*held_out_prompts(run), views, strict=True)
    ]
    ratings = rate(model, asks)
    if missing := [rating.unscored for rating in ratings if rating.scores is None]:
        sys.exit(f"{name} left {len(missing)} prompts unscored: {missing[0]}")
    return [rating.scores or () for rating in ratings]


def views_of(benchmark: Benchmark, known: int, run: Run[PpoSettings], shift: int = 0) -> list[View]:
    """What a model is shown of the user of each held-out prompt, or of the one `shift` couples further on. Where the
    benchmark has other items than the run, as one with more judgements has, for another item of theirs."""
    prompts, _ = held_out_prompts(run)
    # Couples stay together, so that an even shift leads to a stranger.
    users = sorted({prompt.user_id for prompt in prompts})
    whom = {user: users[(place + 2 * shift) % len(users)] for place, user in enumerate(users)}
    items = {item.id: item for item in benchmark.comparisons} if not shift else {}
    anyone = {item.user_id: item for item in benchmark.comparisons}
    own = [items.get(prompt.id, anyone[whom[prompt.user_id]]) for prompt in prompts]
    built = ViewBuilder(benchmark).build(parse_view(f"judgements:{known}"), own)
    return [view for view in built if isinstance(view, View)]


def would_pay(options: argparse.Namespace) -> Table:
    """Of runs that were paid with the true utility: how other models rate what the policy wrote before and after."""
    done = [row for row in sorted(read(options.out), key=_order) if row.reward == "sim" and row.summary.before]
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
        scores = [[grade.score for grade in line.grades] for line in held_out_prompts(run)[1]]
        add("sim", "all", one.seed, paid(run, scores))
    for name, (method, _) in METHODS.items():
        model, _ = load_reward_model(str(reward_model(name, options.out)))
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
    console = Console(width=250)
    if options.one:
        train(options, *jobs(options))
        return
    if options.would_pay:
        console.print(would_pay(options))
        return
    if not options.report:
        train_all(options)
    found = list(read(options.out))
    if not found:
        sys.exit(f"there is no run in {options.out}")
    console.print(table(found))
    if unfinished := [row.run.folder.name for row in found if not row.summary.complete]:
        console.print(f"not finished, and left out: {', '.join(unfinished)}")
    for line in over_seeds(found):
        console.print(line)
    if options.tune:
        options.tune.write_bytes(msgspec.json.format(msgspec.json.encode(choose(found))) + b"\n")
        console.print(f"learning rates: {options.tune}")
    if options.picture and any(row.summary.curve for row in found):
        options.picture.write_text(picture(found))
        console.print(f"curves: {options.picture}")


if __name__ == "__main__":
    main()
