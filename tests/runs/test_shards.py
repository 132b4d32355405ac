"""Shards of a run, merged: the folder that one process makes, byte for byte, and a refusal of everything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from command import palate
from palate.data import write_benchmark
from palate.records import Benchmark, Card, Comparison, Completion, PalateError, Post, User
from palate.runs import FINISHED, REPORTS, SPENT, Shard, merge_runs, open_run, parse_shard, read_spent, shard_items
from palate.runs._merge import DRAFT, _alone
from tiny_models import TinyModels

CARD = Card(name="letters", title="Letters", version="1", licence="none", source="made for the tests")
WORDS = ("tea", "kettle", "garden", "rain", "a slow morning", "the night train", "bread", "an open window")
MODELS = """
from palate import Rating


class Length:
    name = "length"
    batch_size = 3
    fingerprint = "1"

    def rate(self, asks):
        return [
            Rating(unscored="too long") if "rain" in ask.responses[0]
            else Rating([len(text) + len(ask.view.text) for text in ask.responses])
            for ask in asks
        ]


class Vowels(Length):
    name = "vowels"
    batch_size = 2

    def rate(self, asks):
        return [Rating([sum(map(text.count, "aeiou")) / (1 + len(text)) for text in ask.responses]) for ask in asks]
"""
RM = ("--rm", "./mine.py:Length", "--rm", "./mine.py:Vowels")
VIEWS = ("--view", "none", "--view", "posts:2", "--view", "swapped")
CRITIC = ("--critic", "reference:rouge1,encoder=none")


def letters() -> Benchmark:
    """Users with one to four items each, comparisons and completions."""
    people, pairs, texts = {}, [], []
    for one in range(6):
        name = f"writer-{one}"
        own = [f"I like {WORDS[one]} and {WORDS[(one + place) % 8]} most of all." for place in range(4)]
        posts = tuple(Post(id=f"{one}-{place}", text=text, sequence=place) for place, text in enumerate(own))
        people[name] = User(id=name, posts=posts)
        for place in range(4 - one % 3):
            prompt, other = f"What do you like, {place}?", f"You see {WORDS[place]} quite often."
            if place < 3:
                pair = (own[place], other) if (one + place) % 2 else (other, own[place])
                pairs.append(
                    Comparison(
                        id=f"{one}-{place}",
                        user_id=name,
                        prompt=prompt,
                        responses=pair,
                        preferred=pair.index(own[place]),
                        sequence=4 + place,
                    )
                )
            else:
                texts.append(
                    Completion(id=f"{one}-{place}", user_id=name, prompt=prompt, text=own[place], sequence=4 + place)
                )
    return Benchmark(card=CARD, users=people, comparisons=tuple(pairs), completions=tuple(texts))


def place(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "mine.py").write_text(MODELS)
    write_benchmark(letters(), folder / "letters")
    return folder


def run(folder: Path, *words: str | Path) -> str:
    done = palate(*words, cwd=folder, PALATE_CACHE=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    return done.stderr


def files(runs: Path) -> dict[str, bytes]:
    """All files of a folder of runs but the shards, `finished.json`, which only saves time, and what it cost."""
    costs = (FINISHED, SPENT, *REPORTS)
    return {
        str(file.relative_to(runs)): file.read_bytes()
        for file in sorted(runs.rglob("*"))
        if file.is_file() and file.name not in costs and not file.relative_to(runs).parts[0].startswith("shard-")
    }


def reports(runs: Path) -> dict[str, bytes]:
    """The reports of a folder of runs as they are without a record of what the runs cost; the records are gone then."""
    reported = sorted(file.parent for file in runs.glob("*/report.html"))
    for file in runs.glob("*/spent.json"):
        file.unlink()
    for folder in reported:
        run(runs.parent, "report", Path("runs") / folder.name)
    return {f"{folder.name}/{name}": (folder / name).read_bytes() for folder in reported for name in REPORTS}


def command(kind: str, policy: Path) -> list[str | Path]:
    if kind == "eval":
        return ["eval", "letters", *RM, *VIEWS]
    with_policy = [kind, "letters", *RM, *VIEWS, *CRITIC, "--policy", policy]
    if kind == "guide":
        return [*with_policy, "--policy-view", "none", "--policy-view", "posts:1", "--weight", "2", "--tokens", "3"]
    own = [*with_policy, "-n", "2", "--tokens", "3"]
    return [*own, "--policy-view", "posts:1", "--policy-view", "none"] if kind == "bon" else own


@pytest.mark.parametrize("kind", ["eval", "bon", "guide", "steer"])
def test_a_merged_run_is_that_of_one_process(kind: str, tmp_path: Path, tiny_models: TinyModels) -> None:
    if kind != "eval":
        pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
    words = command(kind, tiny_models.causal())
    one, many = place(tmp_path, "one"), place(tmp_path, "many")
    run(one, *words)
    said = [run(many, *words, "--shard", f"{number}/3") for number in (2, 3, 1)]
    assert "palate merge runs/shard-*-of-3/letters-" in said[0]
    assert not files(many / "runs")
    run(many, "merge", *sorted((many / "runs").iterdir()))
    expected, found = files(one / "runs"), files(many / "runs")
    assert list(found) == list(expected)
    for name, content in expected.items():
        assert found[name] == content, name
    assert any(name.endswith("ratings.jsonl") and content for name, content in found.items())
    run(many, "merge", *sorted((many / "runs").glob("shard-*")))  # again changes nothing
    assert files(many / "runs") == expected
    if kind == "eval":
        cost, costs = (read_spent(next((folder / "runs").glob("letters-*"))) for folder in (one, many))
        assert cost is not None and costs is not None and (cost.times, costs.times) == (1, 3)
        assert {own.model: own.calls for own in costs.models} == {own.model: own.calls for own in cost.models}
    run(many, *words)  # and there is nothing left to measure
    assert files(many / "runs") == expected
    same = reports(one / "runs")
    assert same and reports(many / "runs") == same


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = place(tmp_path_factory.mktemp("shards"), "three")
    for number in (1, 2, 3):
        run(folder, *command("eval", folder), "--shard", f"{number}/3")
    return folder


@pytest.fixture
def three(shards: Path, tmp_path: Path) -> list[Path]:
    """Finished shards that a test may damage."""
    shutil.copytree(shards, tmp_path / "three")
    return sorted((tmp_path / "three" / "runs").glob("shard-*/letters-*"))


def test_all_items_of_a_user_are_in_one_shard_and_shards_are_of_like_size() -> None:
    items = letters().comparisons
    dealt = [shard_items(items, Shard(number, 4)) for number in range(1, 5)]
    users = [{item.user_id for item in own} for own in dealt]
    assert sorted(item.id for own in dealt for item in own) == sorted(item.id for item in items)
    assert sum(map(len, users)) == len(set().union(*users)) == 6
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 3


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_a_shard_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(PalateError, match="--shard is a number and how many there are"):
        parse_shard(text)


def test_more_shards_than_users_are_refused() -> None:
    with pytest.raises(PalateError, match=r"of 6 users.*make 6 shards or fewer"):
        shard_items(letters().comparisons, Shard(1, 7))


def refusal(shards: list[Path], out: Path) -> str:
    done = palate("merge", *shards, "--out", out)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert not list(out.glob("letters-*"))
    return " ".join(done.stderr.split())


def test_missing_and_doubled_shards_are_refused(three: list[Path], tmp_path: Path) -> None:
    assert "there is no shard 2/3" in refusal([three[0], three[2]], tmp_path / "out")
    copy = tmp_path / "copy" / three[0].name
    shutil.copytree(three[0], copy)
    assert "shard 1/3 is there twice" in refusal([*three, copy], tmp_path / "out")
    (three[1] / "shard.json").unlink()
    assert "is no finished shard" in refusal(three, tmp_path / "out")
    assert "no such folder" in refusal([tmp_path / "nowhere"], tmp_path / "out")
    assert "name the folders of the shards" in refusal([], tmp_path / "out")


def test_shards_of_different_settings_are_refused(three: list[Path], tmp_path: Path) -> None:
    folder = three[0].parents[2]
    run(folder, *command("eval", folder), "--seed", "5", "--shard", "2/3")
    other = next(one for one in three[1].parent.iterdir() if one != three[1])
    assert "differ in: seed." in refusal([three[0], other, three[2]], tmp_path / "out")
    assert "there is no shard 1/3, 3/3" in refusal([*three, other], tmp_path / "out")


def test_shards_of_another_number_versions_or_items_are_refused(three: list[Path], tmp_path: Path) -> None:
    folder, settings = three[0].parents[2], three[1] / "settings.json"
    run(folder, *command("eval", folder), "--shard", "2/2")
    two = next((folder / "runs" / "shard-2-of-2").iterdir())
    assert "merge shards of one number" in refusal([three[0], two], tmp_path / "out")
    told = msgspec.json.decode(settings.read_bytes())
    told["environment"]["numpy"] = "1.0"
    settings.write_bytes(msgspec.json.encode(told))
    assert "different versions: numpy" in refusal(three, tmp_path / "out")
    shutil.copy(three[0] / "settings.json", settings)
    items = three[1] / "items.jsonl"
    items.write_bytes(b"".join(items.read_bytes().splitlines(keepends=True)[:-1]))
    assert "do not hold the same items.jsonl" in refusal(three, tmp_path / "out")


def test_two_merges_at_once_are_refused_and_a_stopped_one_is_repeated(three: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with _alone(out):
        assert "another process is merging" in refusal(three, out)
    draft = out / (DRAFT + three[0].name)
    draft.mkdir()
    (draft / "ratings.jsonl").write_text('{"torn')
    merged = merge_runs(three, out)
    assert not draft.exists() and open_run(merged.folder).experiment.summarise(merged).complete
    assert (merged.folder / "ratings.jsonl").read_bytes().count(b"\n") == 2 * 5 * len(letters().comparisons)
    (merged.folder / "ratings.jsonl").write_bytes(b"")
    with pytest.raises(PalateError, match="holds something else"):
        merge_runs(three, out)


def test_a_repaired_shard_is_not_finished(three: list[Path], tmp_path: Path) -> None:
    ratings = three[1] / "ratings.jsonl"
    lines = ratings.read_bytes().splitlines(keepends=True)
    ratings.write_bytes(b"".join([lines[0], b"damage\n", *lines[2:]]))
    assert "--repair" in refusal(three, tmp_path / "out")
    palate("report", three[1], "--repair")
    assert "is no finished shard" in refusal(three, tmp_path / "out")


def test_a_user_is_erased_from_a_merged_run_and_its_shards(three: list[Path], tmp_path: Path) -> None:
    folder = three[0].parents[2]
    run(folder, "merge", *three)
    merged = folder / "runs" / three[0].name
    run(folder, "data", "export-user", "letters", "writer-1", "--run", merged, "--output", tmp_path / "mine.json")
    assert b"1-0" in (tmp_path / "mine.json").read_bytes()
    (folder / "runs" / (DRAFT + three[0].name)).mkdir()
    refused = palate("forget", "writer-1", "--run", merged, cwd=folder, PALATE_CACHE=str(folder / "cache"))
    assert refused.returncode == 2 and "left by a merge that was stopped" in " ".join(refused.stderr.split())
    (folder / "runs" / (DRAFT + three[0].name)).rmdir()
    run(folder, "forget", "writer-1", "--run", merged)
    for file in (folder / "runs").rglob("*.jsonl"):
        assert b"writer-1" not in file.read_bytes() and b'"1-0"' not in file.read_bytes(), file
    before = {file.name: sorted(file.read_bytes().splitlines()) for file in merged.glob("*.jsonl")}
    again = merge_runs(three, tmp_path / "again")
    assert {file.name: sorted(file.read_bytes().splitlines()) for file in again.folder.glob("*.jsonl")} == before


def test_general_quality_waits_for_the_whole(three: list[Path]) -> None:
    folder = three[0].parents[2]
    done = palate(*command("eval", folder), "--shard", "1/3", "--general", "convarg", cwd=folder)
    assert done.returncode == 2 and "merge the shards first" in " ".join(done.stderr.split())


def test_a_part_is_not_logged_as_the_run(tmp_path: Path) -> None:
    folder = place(tmp_path, "one")
    done = palate("eval", "letters", *RM, "--shard", "1/3", "--log", "./mine.py:Nothing", cwd=folder)
    assert done.returncode == 2
    assert "without --shard" in done.stderr
