"""A plan is checked whole before anything runs, and all that is wrong with it is told at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import BENCHMARK, VIEW, best_of, guided, model, ppo, predictor, reach, table, trained

import command
from faulty_server import faulty_server
from palate.data import write_benchmark
from palate.engine import _local
from palate.records import Benchmark, Card, Comparison, Completion, Post, User
from palate.study import cells_of, read_plan
from tiny_models import TinyModels

CARD = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")
SOUND = model("longest") + predictor()


def asked(text: str | bytes, folder: Path, *words: str) -> command.Done:
    (folder / "plan.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return command.palate("study", "plan.toml", *words, cwd=folder, PALATE_CACHE=str(folder / "cache"))


def refused(text: str | bytes, folder: Path, *words: str) -> str:
    """What a plan is refused with; nothing may have been written."""
    before = {*folder.iterdir(), folder / "plan.toml"}
    done = asked(text, folder, *words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    assert all(line.isprintable() for line in done.stderr.splitlines())
    assert {*folder.iterdir()} - before <= {folder / "cache"}
    return done.stderr


@pytest.fixture
def policy(tiny_models: TinyModels) -> str:
    return f"{tiny_models.causal()},device=cpu"


def test_all_faults_are_told_at_once(tmp_path: Path, policy: str) -> None:
    text = "".join(
        [
            'sede = 3\nretriever = "bm52"\n',
            model("randm", "judgments:4"),
            model("sim", colour="red"),
            model("longest"),
            trained("t", method="per-usr", users=0),
            trained("u", features="trait"),
            predictor("one", benchmark="simm"),
            predictor("two", limit="ten"),
            predictor("three", view="post:3"),
            best_of(policy, "x", kind="best-of-m"),
            guided(policy, "g", critic="simulated"),
            ppo(policy, "p", training={"step": 1}),
        ]
    )
    told = refused(text, tmp_path)
    assert told.startswith("palate: plan.toml cannot be run; nothing was started.\n  - ")
    for fault in ("Did you mean 'seed'", "models 2: ", "colour", "predictors 2 (two): Expected `int", "best-of-m"):
        assert fault in told, fault
    # What needs the tables is told once they can be read.
    for wrong, right in (("sede = 3", ""), ('"colour" = "red"', ""), ('"ten"', "1"), ("best-of-m", "best-of-n")):
        text = text.replace(wrong, right)
    told = refused(text, tmp_path)
    for fault in (
        "models (randm): ", "Did you mean 'random'", "Did you mean 'judgements'", "train (t): ", "'per-user'",
        "users is a number from 1 to the 6", "train (u): ", "one: ", "Did you mean 'sim'",
        "two: a limit of 1 is too small: twins", "three: ", "Did you mean 'posts'", "bm52", "g: ", "simulated",
        "p: ", "Did you mean 'steps'",
    ):  # fmt: skip
        assert fault in told, fault


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("title = 3\n", "Expected `str`, got `int`"),
        ("seed = 1.5\n", "got `float`"),
        ("seed = -1\n", "seed is a number from 0; -1 was given"),
        ('train = "sim"\n', "train: write each one as [[train]]"),
        ("train = [3]\n", "train 1: write it as [[train]]"),
        (table("models", views=["none"]), "missing required field `rm`"),
        (table("models", rm="sim", views="none"), "Expected `array`, got `str`"),
        (table("models", rm="sim", views=[]), "views is empty"),
        (model("longest"), "'longest' is there twice"),
        (model("longest", name="other"), "'longest' and 'other' are the same: longest seeing none"),
        (model("sim", "user", "user"), "'sim, user' is there twice"),
        (trained("t", views=["none", "none"]), "'t' is there twice"),
        (model("sim", "user") + model("random", name="sim, user"), "'sim, user' is there twice"),
        (model("sim", name="in context"), "'in context' means something else"),
        (model("./nowhere.py:Model"), "models (./nowhere.py:Model): "),
        (trained("A b") + trained("a/B"), "'a/B' would share the folder 'a-b' with another"),
        (trained("t", users=7), "users is a number from 1 to the 6 that"),
        (trained("t", users=-3), "users is a number from 1 to the 6 that"),
        (trained("t", data="simm"), "train (t): "),
        (trained("t", method="lora", base="./nowhere"), "train (t): "),
        (predictor(benchmark="mini"), "'bench' is there twice"),
        (predictor("again"), "'bench' and 'again' measure the same"),
        (predictor("train", benchmark="mini"), "'train' means something else"),
        (predictor("", benchmark="mini"), "a name is empty"),
        (predictor("a | b", benchmark="mini"), "holds ' | '"),
        (predictor("x" * 300, benchmark="mini"), "is longer than 80 characters"),
        (predictor("\x1b[31mred\x07", benchmark="mini"), "cannot be printed"),
        (predictor("\x1b[31mred\x07", benchmark=3), "Expected `str`"),
        (table("predictors", {"\x1b[31m": 1, "name": "b", "benchmark": "mini"}), "unknown key"),
        (model("sim", "user", name="a\nb", family="\u202e"), "cannot be printed"),
        ('title = "\\u001b[2J"\n', "title: "),
        (predictor("zero", limit=0), "zero: the limit is a number of items from 1"),
        (predictor("less", limit=-4), "less: the limit is a number of items from 1"),
        (predictor("of", models=["longst"]), "of: "),
        (predictor("p", benchmark="./nowhere"), "p: "),
        (predictor("p", benchmark="sim,users=-2"), "p: "),
        (model("sim", "posts:3"), "bench: "),  # nobody there has posts
        (best_of("nowhere", "d", kind="dpo"), "downstream 1 (d): unknown kind of use 'dpo'"),
        (best_of("nowhere", "d", kind=["ppo"]), "unknown kind of use"),
        (best_of("./nowhere", "d"), "d: "),
        (best_of("./nowhere", "d", samples=0), "d: "),
        (best_of("./nowhere", "d", temperature=float("nan")), "nan is no number"),
        (reach("./nowhere", "d"), "d: no model sees a profile"),
        (ppo("./nowhere", "d", seeds=[]), "d: seeds are one or more numbers from 0"),
        (ppo("./nowhere", "d", seeds=[-1]), "d: seeds are one or more numbers from 0"),
        (ppo("./nowhere", "d", seeds=[1, 1]), "d: a seed is there twice"),
        (ppo("./nowhere", "d", training={"steps": "2"}), "d: training: Expected `int`, got `str`"),
        (ppo("./nowhere", "d", training={"steps": 0}), "d: --steps is a number from 1; 0 was given"),
        (ppo("./nowhere", "d", training={"lora": [1]}), "downstream 1 (d): "),
        (guided("./nowhere", "d", weight=0.0), "d: weight is a number above 0; 0 was given"),
        (guided("./nowhere", "d", top_k=0), "d: "),
    ],
)
def test_a_fault_is_told(tables: str, message: str, tmp_path: Path) -> None:
    assert message in refused(tables + SOUND, tmp_path)
    assert message in refused(tables + SOUND, tmp_path, "--check")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no reward model: add [[models]]\n  - nothing is measured: add [[predictors]]"),
        (model("longest"), "nothing is measured"),
        (predictor(), "there is no reward model"),
        ("models = 3\n" + predictor(), "models: write each one as [[models]]"),
        ("[[models]\n", "cannot be read as TOML"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "cannot be read as TOML"),
    ],
)
def test_what_is_no_plan_is_refused(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in refused(text, tmp_path)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    done = command.palate("study", "nowhere.toml", cwd=tmp_path)
    assert (
        done.returncode == 2 and "there is no plan nowhere.toml" in done.stderr and "palate study small" in done.stderr
    )
    done = command.palate("study", ".", cwd=tmp_path)
    assert done.returncode == 2 and "cannot be read" in done.stderr and "Traceback" not in done.stderr
    done = command.palate("study", "small", "--at-once", "0", cwd=tmp_path)
    assert done.returncode == 2 and "--at-once" in done.stderr


def test_a_reward_model_that_cannot_be_made_is_a_fault_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("class Broken:\n    def __init__(self):\n        raise ValueError('no luck')\n")
    assert "no luck" in refused(model("./broken.py:Broken") + SOUND, tmp_path)


def letters(*, pairs: bool) -> Benchmark:
    """Everybody answers the same questions in words of their own, or chooses between two answers."""
    users = {f"u{one}": User(id=f"u{one}", posts=(Post(id=f"p{one}", text=f"I am {one}"),)) for one in range(4)}
    if pairs:
        comparisons = tuple(
            Comparison(id=f"c{place}", user_id=user, prompt="What?", responses=("This.", "That."), preferred=0)
            for place, user in enumerate(users)
        )
        return Benchmark(card=CARD, users=users, comparisons=comparisons)
    other = ("Others would say that of u.",)
    completions = tuple(
        Completion(
            id=f"{user}-{n}", user_id=user, prompt=f"On {n}?", text=f"I would say this, {user} {n}.", alternatives=other
        )
        for user in users
        for n in range(2)
    )
    return Benchmark(card=CARD, users=users, completions=completions)


def test_a_benchmark_of_completions_alone_is_scored_as_pairs(tmp_path: Path, policy: str) -> None:
    write_benchmark(letters(pairs=False), tmp_path / "letters")
    here = {"benchmark": "./letters"}
    told = refused(model("longest") + guided(policy, **here), tmp_path)
    assert "has no comparisons for policy accuracy, and there is no critic" in told
    told = refused(trained("t", data="./letters") + predictor(), tmp_path)
    assert "train (t): ./letters has no comparisons to learn from" in told
    done = asked(model("longest") + model("shortest") + predictor(**here), tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert '"bench: accuracy":{"value":' in done.stdout


def test_without_completions_the_critic_reference_compares_with_what_was_preferred(tmp_path: Path, policy: str) -> None:
    pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
    write_benchmark(letters(pairs=True), tmp_path / "letters")
    text = model("longest") + best_of(policy, benchmark="./letters", critic="reference:rouge1,encoder=none")
    assert asked(text, tmp_path, "--check").returncode == 0
    told = refused(text.replace("reference:rouge1,encoder=none", "sim"), tmp_path)
    assert "best of 3: " in told and "sim" in told


def test_a_policy_behind_a_server_cannot_be_guided_or_trained(tmp_path: Path) -> None:
    with faulty_server() as address:
        there = f"m,url={address}/plain/v1"
        told = refused(model("sim", VIEW) + guided(there) + ppo(there) + reach(there), tmp_path)
    for name in ("guided", "ppo", "reach"):
        assert f"{name}: the policy {there} is behind a server" in told


def test_a_policy_that_does_not_fit_into_memory_is_refused(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = 4 * 20_000  # more than the tiny model's weights take, and less than its training
    monkeypatch.setattr(_local, "free_memory", lambda: 8 * parameters)
    told = refused(model("sim", VIEW) + predictor() + best_of(policy) + ppo(policy), tmp_path)
    assert "ppo: " in told and "GiB are free: take a smaller model" in told and "best of 3: " not in told
    lora = ppo(policy, training={"lora": 4, "steps": 1})
    assert asked(model("sim", VIEW) + predictor() + lora, tmp_path, "--check").returncode == 0
    monkeypatch.setattr(_local, "free_memory", lambda: 1000)
    assert "best of 3: " in refused(model("sim", VIEW) + best_of(policy), tmp_path)


def test_check_lists_the_cells_and_runs_nothing(tmp_path: Path, policy: str) -> None:
    text = model("sim", "user", VIEW) + model("longest", name="[/red]") + trained("t") + predictor()
    text += best_of(policy, in_context=["oracle"]) + ppo(policy, seeds=[0, 5], models=["sim"]) + reach(policy)
    done = asked(text, tmp_path, "--check")
    assert done.returncode == 0, done.stderr
    rows = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:-1])
    assert rows == {"train": "1", "bench": "3", "best of 3": "4", "ppo": "4", "reach": "3"}
    assert "The plan is sound: 15 cells" in done.stdout
    assert not (tmp_path / "runs").exists()
    done = asked(text, tmp_path, "--check", "--json")
    names = [cell.name for cell in cells_of(read_plan(tmp_path / "plan.toml"))]
    assert len(set(names)) == 15 and all(name in done.stdout for name in names)
    assert {"train | t", "bench | [/red]", "best of 3 | in context", "ppo | sim | user | seed 5"} <= set(names)
    done = asked(text, tmp_path, "--check", "--only", "ppo", "--only", "reach", "--model", "sim")
    assert "The plan is sound: 6 cells" in done.stdout
    done = asked(text, tmp_path, "--check", "--only", "rech")
    assert done.returncode == 2 and "reach" in done.stderr


def test_names_that_a_terminal_library_reads_as_markup_are_only_names(tmp_path: Path) -> None:
    done = asked(model("longest") + predictor("[/bold] <b>&amp;"), tmp_path, "--check")
    assert done.returncode == 0 and "[/bold] <b>&amp;" in done.stdout


def test_the_plan_that_is_built_in_is_sound(smollm2: Path, minilm: object) -> None:
    done = command.palate("study", "small", "--check")
    assert done.returncode == 0, done.stderr
    assert BENCHMARK.partition(",")[0] in done.stdout


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[2] / "studies").glob("*.toml")), ids=lambda f: f.stem)
def test_plans_of_the_project_can_be_read(file: Path) -> None:
    assert cells_of(read_plan(file))
