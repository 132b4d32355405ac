"""Forgetting a user: nothing of them is left in any byte, others stay whole, and the receipt can be checked."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from palate.cli import main
from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.engine import AnswerCache, forget_vectors, load_encoder
from palate.evaluation import evaluate, summarise
from palate.personal import PersonalModel
from palate.privacy import Receipt, check_receipt, forget
from palate.records import Benchmark, Completion, PalateError
from palate.runs import open_run, write_report

USER, OTHER = "art-01-a", "art-01-b"
NAMES = Pseudonyms(b"a key that only this test knows")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Callable[[int], Path]) -> Path:
    """Ten people of mini with a run, a model and both caches, filled by real use.

    What the first wrote is offered to somebody else, too.
    """
    folder = tmp_path_factory.mktemp("forget")
    mini = load_benchmark("mini")
    users = {id: user for id, user in mini.users.items() if id.startswith("art-0") and id < "art-06"}
    items = tuple(item for item in mini.comparisons if item.user_id in users)
    written = users[USER].posts[0].text
    completions = (
        Completion(id="c1", user_id=USER, prompt="Tell us of your evenings.", text=users[USER].posts[1].text),
        Completion(id="c2", user_id=OTHER, prompt="Tell us.", text="Nothing much.", alternatives=(written, "I sang.")),
    )
    last = msgspec.structs.replace(items[-1], id="quotes", twin=None, responses=(written, "Something else."))
    changed = msgspec.structs.replace(mini, users=users, comparisons=(*items, last), completions=completions)
    write_benchmark(changed, folder / "data")
    benchmark = load_benchmark(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(folder / "cache"))
        views = ["none", "posts:3+values", "swapped", "oracle"]
        run = Path(evaluate(str(folder / "data"), ["overlap"], views, out=folder / "runs").run)
        write_report(open_run(run), summarise(open_run(run)))
        run.rename(folder / "run")
        encoder = str(tiny_encoder(0))
        PersonalModel("per-user", features=encoder).fit(benchmark.comparisons, benchmark.users).save(folder / "model")
        load_encoder(encoder).encode([post.text for post in benchmark.users[USER].posts])
        cache = AnswerCache(folder / "cache" / "answers.sqlite")
        cache.put([(b"hash of a request", json.dumps({"text": f"They wrote: {written}"}))])
        cache.close()
    return folder


@pytest.fixture
def places(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A copy of all of it to erase from."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    return {name: tmp_path / name for name in ("data", "run", "model")}


@pytest.fixture
def benchmark(made: Path) -> Benchmark:
    return load_benchmark(made / "data")


def main_quietly(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 0


def erase(places: dict[str, Path], *, dry_run: bool = False) -> Receipt:
    return forget(USER, NAMES, data=[places["data"]], runs=[places["run"]], models=[places["model"]], dry_run=dry_run)


def everything(tmp_path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}


def own_texts(benchmark: Benchmark) -> list[str]:
    user = benchmark.users[USER]
    items = [item for item in benchmark.comparisons if item.user_id == USER]
    reasons = [one.reason for one in user.judgements if one.reason]
    facts = [item.privileged.narrative for item in items if item.privileged.narrative]
    return [*(post.text for post in user.posts), *reasons, *facts]


def test_no_byte_of_the_user_is_left(tmp_path: Path, benchmark: Benchmark, places: dict[str, Path]) -> None:
    texts = own_texts(benchmark)
    before = b"".join(everything(tmp_path).values())
    lines = [line for text in texts for line in text.splitlines() if len(line) > 20]
    assert USER.encode() in before and all(
        json.dumps(line)[1:-1].encode() in before or line.encode() in before for line in lines
    )
    receipt = erase(places)
    for file, content in everything(tmp_path).items():
        assert USER.encode() not in content, file
        for line in lines:
            assert line.encode() not in content, file
            assert json.dumps(line)[1:-1].encode() not in content, file
    assert USER not in msgspec.json.encode(receipt).decode()
    assert forget_vectors(texts) == 0
    assert check_receipt(receipt, USER, NAMES).clean


def test_others_stay_as_they_were(benchmark: Benchmark, places: dict[str, Path]) -> None:
    erase(places)
    after = load_benchmark(places["data"])
    assert after.users == {id: user for id, user in benchmark.users.items() if id != USER}
    stayed = {item.id: item for item in after.comparisons}
    for item in benchmark.comparisons:
        if item.user_id != USER and item.id != "quotes":
            gone = item.twin is not None and item.twin not in stayed
            assert stayed[item.id] == msgspec.structs.replace(
                item, twin=None if gone else item.twin, group=stayed[item.id].group
            )
    assert "quotes" not in stayed
    assert after.completions[0].alternatives == ("I sang.",)
    model = PersonalModel.load(places["model"])
    assert set(model.users) == set(after.users)
    assert json.loads((places["run"] / "summary.json").read_text())["users"] == len(after.users)


def test_the_receipt_says_what_went_and_what_could_not(places: dict[str, Path]) -> None:
    receipt = erase(places)
    erased = {place.kind: place.erased for place in receipt.places}
    assert erased["benchmark"]["user records"] == 1 and erased["benchmark"]["comparisons"] == 5
    assert erased["model"]["states"] == 1 and erased["run"]["items"] == 6
    assert erased["vectors"]["vectors"] > 0 and erased["answers"] == {"answers of language models, all of them": 1}
    assert any("a trace of them stays" in reason for reason in receipt.not_erased)
    assert receipt.retrain[0].startswith(f"palate train {places['data']} --method per-user")
    changed = [change for place in receipt.places for change in place.files]
    assert all(change.before != change.after for change in changed)


def test_a_model_in_a_run_is_counted_once_and_the_run_is_not_taken_for_erased(places: dict[str, Path]) -> None:
    inside = places["run"] / "models" / "per-user"
    shutil.copytree(places["model"], inside)
    alone = erase({**places, "model": inside}, dry_run=True)
    assert [place.path for place in alone.places if place.kind == "model"] == [str(inside)]
    assert not any("was not searched" in reason for reason in alone.not_erased)
    without = forget(USER, NAMES, data=[places["data"]], models=[inside])
    [reason] = [reason for reason in without.not_erased if "was not searched" in reason]
    assert str(places["run"]) in reason and "--run" in reason
    assert not any("was not searched" in reason for reason in erase(places).not_erased)


def test_runs_beside_and_the_table_that_was_measured_are_named(places: dict[str, Path]) -> None:
    assert not any(
        "--run" in reason or "brings them back" in reason for reason in erase(places, dry_run=True).not_erased
    )
    other = places["run"].with_name("other")
    shutil.copytree(places["run"], other)
    settings = places["run"] / "settings.json"
    table = json.loads(settings.read_text())
    table["settings"]["benchmark"]["source"] = "prefs.csv"
    settings.write_text(json.dumps(table))
    older = places["run"].with_name("older")
    shutil.copytree(places["run"], older)
    of_another_version = json.loads((older / "settings.json").read_text())
    of_another_version["settings"]["format"] = 0
    (older / "settings.json").write_text(json.dumps(of_another_version))
    (places["run"].with_name("torn")).mkdir()
    (places["run"].with_name("torn") / "settings.json").write_text("{")
    told: list[str] = []
    receipt = forget(USER, NAMES, runs=[places["run"]], progress=lambda what, done, total: told.append(what))
    for beside in (other, older):
        assert (
            f"the run {beside} holds items of this user, too, and was not searched: name it with --run"
            in receipt.not_erased
        )
    [source] = [reason for reason in receipt.not_erased if "brings them back" in reason]
    assert source.startswith(f"prefs.csv, which was measured in {places['run']}, was not changed")
    assert not {"uploading", "writing to the bucket"} & set(told)  # nothing leaves this machine
    shutil.rmtree(older)
    both = forget(OTHER, NAMES, runs=[places["run"], other], dry_run=True)
    assert not any("was not searched" in reason for reason in both.not_erased)


def test_a_dry_run_touches_nothing(tmp_path: Path, places: dict[str, Path]) -> None:
    before = everything(tmp_path)
    told = erase(places, dry_run=True)
    files = {file: content for file, content in everything(tmp_path).items() if "answers.sqlite-" not in file.name}
    assert files == before
    done = erase(places)
    assert [place.erased for place in told.places] == [place.erased for place in done.places]


def test_a_second_call_finds_nobody_and_changes_nothing(tmp_path: Path, places: dict[str, Path]) -> None:
    erase(places)
    before = everything(tmp_path)
    with pytest.raises(PalateError, match="no such user") as refused:
        erase(places)
    assert "art-0" not in str(refused.value)
    assert everything(tmp_path) == before


def test_a_call_that_was_broken_off_is_made_again(places: dict[str, Path]) -> None:
    numbers = places["model"] / "model.safetensors"
    description = (places["model"] / "model.json").read_bytes()
    forget(USER, NAMES, models=[places["model"]])
    (places["model"] / "model.json").write_bytes(description)  # as if the second file had not been written
    receipt = erase(places)
    assert numbers.is_file() and USER not in PersonalModel.load(places["model"]).users
    assert check_receipt(receipt, USER, NAMES).clean


def test_a_check_finds_a_user_who_came_back(places: dict[str, Path], benchmark: Benchmark) -> None:
    receipt = erase(places)
    with pytest.raises(PalateError, match="another user"):
        check_receipt(receipt, OTHER, NAMES)
    post = benchmark.users[USER].posts[0].text
    (places["run"] / "notes.txt").write_text(f"somebody wrote: {post.upper()}")
    with gzip.open(places["data"] / "old.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"user_id": USER}) + "\n")
    found = check_receipt(receipt, USER, NAMES).found
    assert [(Path(one.path).name, one.ids > 0, one.texts > 0) for one in found] == [
        ("notes.txt", False, True),
        ("old.jsonl.gz", True, False),
    ]


def test_a_file_that_palate_does_not_know_is_named(places: dict[str, Path]) -> None:
    (places["data"] / "README.md").write_text(f"Thanks to {USER}!")
    assert any("README.md still holds the id 1 times" in reason for reason in erase(places).not_erased)


def test_bad_places_are_refused_before_anything_is_erased(tmp_path: Path, places: dict[str, Path]) -> None:
    before = everything(places["data"])
    for wrong in ({"data": [tmp_path]}, {"runs": [tmp_path]}, {"models": [tmp_path]}, {}):
        with pytest.raises(PalateError):
            forget(USER, NAMES, **({"data": [places["data"]], **wrong} if wrong else {}))
    assert everything(places["data"]) == before


def test_the_command(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALATE_PSEUDONYM_KEY", "a key that only this test knows")
    monkeypatch.chdir(tmp_path)
    where = ["--data", str(places["data"]), "--run", str(places["run"]), "--model", str(places["model"])]
    main_quietly(["forget", USER, *where, "--receipt", "receipt.json"])
    assert "comparisons: 5, " in capsys.readouterr().out
    main_quietly(["forget", "--check", "receipt.json", USER])
    with pytest.raises(SystemExit) as refused:
        main(["forget", "nobody-99", *where])
    assert refused.value.code == 2
    assert OTHER not in capsys.readouterr().err


def test_no_answer_is_left_in_the_database(own_cache: Path) -> None:
    cache = AnswerCache(own_cache / "answers.sqlite")
    cache.put([(bytes([number]) * 32, "a secret answer " * 50) for number in range(100)])
    assert cache.erase() == 100 and len(cache) == 0
    cache.close()
    assert not [file for file in own_cache.iterdir() if b"secret" in file.read_bytes()]
    with sqlite3.connect(own_cache / "answers.sqlite") as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (0,)


def test_several_users_are_erased_in_one_go_as_one_after_the_other(
    tmp_path: Path, made: Path, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [USER, OTHER, "art-03-a"]
    folders = {"data": [places["data"]], "runs": [places["run"]], "models": [places["model"]]}
    receipt = forget(users, NAMES, **folders)
    assert receipt.users == [NAMES.user(user) for user in users]
    for file, content in everything(tmp_path).items():
        assert not any(user.encode() in content for user in users), file
    for user in users:
        assert check_receipt(receipt, user, NAMES).clean
    one_by_one = tmp_path / "one by one"
    shutil.copytree(made, one_by_one)
    monkeypatch.setenv("PALATE_CACHE", str(one_by_one / "cache"))
    for user in users:
        forget(user, NAMES, data=[one_by_one / "data"], runs=[one_by_one / "run"], models=[one_by_one / "model"])
    ledgers = [f"run/{name}.jsonl" for name in ("items", "views", "parts", "ratings")]
    records = [f"data/{name}.jsonl" for name in ("users", "comparisons")]
    for name in (*records, *ledgers, "run/results.csv", "model/model.json"):
        assert (tmp_path / name).read_bytes() == (one_by_one / name).read_bytes(), name


def test_nobody_is_erased_where_one_of_several_is_unknown(tmp_path: Path, places: dict[str, Path]) -> None:
    before = everything(places["data"])
    with pytest.raises(PalateError, match="no user 'nobody-at-all' in any of these places; nothing was erased"):
        forget([USER, "nobody-at-all"], NAMES, data=[places["data"]])
    assert everything(places["data"]) == before
