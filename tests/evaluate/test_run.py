"""A run loses nothing and doubles nothing, whatever happens to the process that makes it."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import palate
from command import GUARD
from command import palate as palate_here
from palate import Ask, PalateError, Rating
from palate.evaluation import ITEMS, RatingLine, evaluate, summarise
from palate.runs import open_run
from palate.runs._ledger import Appender, read_lines

SLOW = """
import time
from palate import Rating

class Slow:
    name = "slow"
    batch_size = 8

    def rate(self, asks):
        time.sleep(0.1)
        return [Rating(scores=[hash_of(r) for r in a.responses], raw="words \\u2028 of the model") for a in asks]

def hash_of(text):
    return sum(map(ord, text)) % 101
"""

VIEWS = ["none", "posts:2", "swapped"]


class Vowels:
    """A model that can be told apart from another one only by its fingerprint."""

    name = "vowels"

    def __init__(self, fingerprint: str | None = "1") -> None:
        self.asked: list[str] = []
        if fingerprint:
            self.fingerprint = fingerprint

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        self.asked += [f"{ask.view.name} {ask.view.user_id} {ask.id}" for ask in asks]
        return [Rating(scores=[sum(c in "aeiou" for c in r) for r in ask.responses]) for ask in asks]


def lines(run: str | Path) -> list[bytes]:
    return (Path(run) / "ratings.jsonl").read_bytes().splitlines()


def test_the_same_command_does_nothing_twice(tmp_path: Path) -> None:
    model = Vowels()
    first = evaluate("mini", [model], VIEWS, limit=20, out=tmp_path)
    assert len(model.asked) == len(set(model.asked)) == 100
    again = evaluate("mini", [model], VIEWS, limit=20, out=tmp_path)
    assert len(model.asked) == 100
    assert first == again


def test_a_torn_line_is_dropped_and_done_again(tmp_path: Path) -> None:
    whole = evaluate("mini", [Vowels()], VIEWS, limit=20, out=tmp_path)
    file = Path(whole.run) / "ratings.jsonl"
    content = file.read_bytes()
    for cut in (len(content) - 1, len(content) - 30, len(content) // 2, 5, 0):
        file.write_bytes(content[:cut])
        assert not summarise(open_run(Path(whole.run))).complete or cut == len(content)
        model = Vowels()
        again = evaluate("mini", [model], VIEWS, limit=20, out=tmp_path)
        assert again == whole
        assert sorted(lines(whole.run)) == sorted(content.splitlines())
        assert len(model.asked) == 100 - content[:cut].count(b"\n")


def test_killed_at_any_moment_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "palate", "eval", "mini", "--limit", "40", "--json"]
    command += ["--rm", "./slow.py:Slow", *(word for view in VIEWS for word in ("--view", view))]
    undisturbed = palate_here(*command[3:], "--out", "calm", cwd=tmp_path)
    draw = random.Random(0)
    kills = 0
    for _ in range(4):
        process = subprocess.Popen(
            [*command, "--out", "stormy"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        ratings = list(tmp_path.glob("stormy/*/ratings.jsonl"))
        before = ratings[0].stat().st_size if ratings else 0
        deadline = time.monotonic() + GUARD
        while process.poll() is None and time.monotonic() < deadline:
            found = list(tmp_path.glob("stormy/*/ratings.jsonl"))
            if found and found[0].stat().st_size > before:
                break
            time.sleep(0.005)
        time.sleep(draw.random() * 0.2)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    disturbed = palate_here(*command[3:], "--out", "stormy", cwd=tmp_path)
    one, other = (msgspec.json.decode(done.stdout) for done in (undisturbed, disturbed))
    assert one.pop("run") != other.pop("run")
    quiet, killed = one.pop("spent"), other.pop("spent")  # what it cost is another each time
    assert quiet["times"] == 1 and killed["times"] > 1 and quiet["models"][0]["calls"] == 200
    assert one == other
    [calm], [stormy] = (list(tmp_path.glob(f"{name}/*")) for name in ("calm", "stormy"))
    assert sorted(lines(calm)) == sorted(lines(stormy))
    assert len(lines(stormy)) == 200
    for name in ("items.jsonl", "views.jsonl", "parts.jsonl"):
        rows = [sorted((folder / name).read_bytes().splitlines()) for folder in (calm, stormy)]
        assert rows[0] == rows[1]


def test_two_models_never_share_a_folder(tmp_path: Path) -> None:
    runs = {
        evaluate("mini", [model], ["none"], limit=4, out=tmp_path).run
        for model in (Vowels("1"), Vowels("2"), "longest", "shortest")
    }
    assert len(runs) == 4


def test_an_object_of_unknown_content_starts_a_new_run(tmp_path: Path) -> None:
    runs = {evaluate("mini", [Vowels(None)], ["none"], limit=4, out=tmp_path).run for _ in range(2)}
    assert len(runs) == 2


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"limit": 6}, {"retriever": "recent"}, {"budget": "words:50"}], ids=str
)
def test_every_setting_is_in_the_folders_name(tmp_path: Path, changed: dict[str, object]) -> None:
    settings: dict[str, object] = {"limit": 4, "out": tmp_path}
    one = evaluate("mini", ["longest"], ["posts:2"], **settings)  # type: ignore[arg-type]
    other = evaluate("mini", ["longest"], ["posts:2"], **settings | changed)  # type: ignore[arg-type]
    assert one.run != other.run


def test_settings_changed_by_hand_are_noticed(tmp_path: Path) -> None:
    run = Path(evaluate("mini", ["longest"], ["none"], limit=4, out=tmp_path).run)
    file = run / "settings.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 7'))
    with pytest.raises(PalateError, match="has been changed"):
        evaluate("mini", ["longest"], ["none"], limit=4, out=tmp_path)


def test_a_model_that_fails_half_way_keeps_what_was_rated(tmp_path: Path) -> None:
    class Fails(Vowels):
        batch_size = 5
        broken = True

        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            if self.broken and len(self.asked) >= 10:
                raise RuntimeError("out of patience")
            return super().rate(asks)

    model = Fails()
    with pytest.raises(PalateError, match=r"RuntimeError: out of patience \(test_run.py, line \d+\)"):
        evaluate("mini", [model], ["none"], limit=20, out=tmp_path)
    model.broken = False
    assert evaluate("mini", [model], ["none"], limit=20, out=tmp_path).complete
    assert len(model.asked) == len(set(model.asked)) == 20


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    first = Appender(tmp_path / "lines.jsonl")
    with pytest.raises(PalateError, match="another process"):
        Appender(tmp_path / "lines.jsonl")
    first.close()
    Appender(tmp_path / "lines.jsonl").close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    run = Path(evaluate("mini", [Vowels()], ["none"], limit=4, out=tmp_path).run)
    kept = lines(run)
    appender = Appender(run / "ratings.jsonl")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, appender._descriptor)
    line = RatingLine(rm="vowels", view="none", item="x", rating=Rating(scores=[1.0, 2.0]))
    with pytest.raises(PalateError, match=r"No space left on device\. What was rated before is kept"):
        appender.append([line])
    assert lines(run) == kept


def test_every_raw_rating_stands_in_the_order_of_the_benchmark(tmp_path: Path) -> None:
    run = open_run(Path(evaluate("mini", ["longest"], ["none"], limit=30, out=tmp_path).run))
    items = {item.id: item for item in run.read(ITEMS)}
    for line in read_lines(run.folder / "ratings.jsonl", RatingLine):
        assert line.rating.scores == tuple(len(text) for text in items[line.item].responses)


def test_the_run_says_what_was_measured_and_with_what(tmp_path: Path) -> None:
    run = open_run(Path(evaluate("mini", ["longest"], ["none"], limit=4, out=tmp_path).run))
    assert run.settings.content_hash == palate.load_benchmark("mini").content_hash
    assert run.settings.models[0].identity == {"spec": "longest", "source": f"palate {palate.__version__}"}
    assert run.folder.name.endswith(run.settings.hash)
    environment = msgspec.json.decode((run.folder / "settings.json").read_bytes())["environment"]
    assert {"python", "numpy"} <= set(environment)
