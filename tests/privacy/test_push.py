"""Pushing benchmarks and runs to a hub that really speaks HTTP: what arrives, what is refused, what is noted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from command import palate
from palate.data import Pseudonyms, load_benchmark, pseudonymise, write_benchmark
from palate.privacy import Push, plan_push, push, pushed_file, read_pushes
from palate.privacy._push_card import benchmark_card
from palate.records import Benchmark, Completion, PalateError
from palate.runs import open_run
from writable_hub import LARGE, Repository, State, writable_hub

KEY = b"a key of the tests only"
TOKEN = "hf_writer"
NAME = "ann/teas"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[State]:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with writable_hub() as (address, state):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        yield state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The built-in benchmark under pseudonyms; one of its files is a large one."""
    place = tmp_path / "mine"
    write_benchmark(pseudonymise(load_benchmark("mini"), Pseudonyms(KEY)), place)
    assert (place / "comparisons.jsonl").stat().st_size > LARGE > (place / "card.json").stat().st_size
    return place


def plan(folder: Path, **how: bool) -> Push:
    return plan_push(str(folder), NAME, **how)  # type: ignore[arg-type]


def requests(hub: State, *kinds: str) -> list[str]:
    return [asked for asked in hub.asked if any(kind in asked for kind in kinds)]


def test_what_was_pushed_loads_back_with_the_same_content_now_and_pinned(hub: State, folder: Path) -> None:
    local = load_benchmark(folder)
    first = push(plan(folder))
    assert first.changed and hub.repositories[NAME].private
    assert len(hub.repositories[NAME].commits) == 2  # the hub's own, and one for everything
    assert set(hub.files(NAME)) - {".gitattributes"} == set(first.files)
    assert load_benchmark(f"hub:{NAME}").content_hash == local.content_hash
    fewer = msgspec.structs.replace(local, comparisons=local.comparisons[:-2])
    write_benchmark(fewer, folder)
    second = push(plan(folder))
    assert second.changed and second.commit != first.commit
    assert load_benchmark(f"hub:{NAME}").content_hash == fewer.content_hash != local.content_hash
    assert load_benchmark(f"hub:{NAME},revision={first.commit}").content_hash == local.content_hash
    assert load_benchmark(f"hub:{NAME}", revision=first.commit).content_hash == local.content_hash
    with pytest.raises(PalateError, match="could not get ann/teas"):
        load_benchmark(f"hub:{NAME},revision={'0' * 40}")


def test_a_file_that_is_no_longer_part_of_it_goes(hub: State, folder: Path) -> None:
    local = load_benchmark(folder)
    write_benchmark(pairs_and_texts(local), folder)
    push(plan(folder))
    assert "completions.jsonl" in hub.files(NAME)
    write_benchmark(local, folder)
    push(plan(folder))
    assert "completions.jsonl" not in hub.files(NAME)
    assert load_benchmark(f"hub:{NAME}").content_hash == local.content_hash


def pairs_and_texts(benchmark: Benchmark) -> Benchmark:
    user = next(iter(benchmark.users))
    text = Completion(id="i-0", user_id=user, prompt="Your morning?", text="The kettle.")
    return msgspec.structs.replace(benchmark, completions=(text,))


def test_the_same_content_is_sent_once(hub: State, folder: Path) -> None:
    words = ("data", "push", folder, NAME)
    first, second = palate(*words), palate(*words)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "Sent 4 files" in first.stdout and "Nothing changed" in second.stdout
    assert len(hub.repositories[NAME].commits) == 2
    assert len(requests(hub, "PUT", "/commit/")) == 3  # two large files, one commit
    told = json.loads(palate(*words, "--json").stdout)
    assert (told["changed"], told["public"], told["commit"]) == (False, False, hub.repositories[NAME].commits[-1][0])


def test_ids_that_are_no_pseudonyms_stay_here_unless_somebody_says_so(hub: State) -> None:
    refused = palate("data", "push", "mini", NAME)
    assert refused.returncode == 2
    assert "60 ids of users are not pseudonyms" in refused.stderr
    assert "palate data convert mini FOLDER --pseudonymise" in refused.stderr
    assert not hub.asked  # before the hub was even looked at
    user = next(iter(load_benchmark("mini").users))
    assert user not in refused.stderr + refused.stdout
    allowed = palate("data", "push", "mini", NAME, "--with-ids")
    assert allowed.returncode == 0, allowed.stderr
    assert "60 users under their ids" in allowed.stdout


def test_a_sentence_says_what_will_be_visible_to_whom_before_anything_is_sent(hub: State, folder: Path) -> None:
    private = palate("data", "push", folder, NAME, "--dry-run")
    assert "Only ann (all members, where that is an organisation) will see" in private.stdout
    assert "60 users under pseudonyms" in private.stdout and "300 comparisons" in private.stdout
    assert "posts" in private.stdout and "under the licence" in private.stdout
    assert "Anybody will see" in palate("data", "push", folder, NAME, "--dry-run", "--public").stdout
    assert not requests(hub, "POST", "PUT") and not hub.repositories and not read_pushes()


def test_texts_with_addresses_in_them_are_counted(hub: State, folder: Path) -> None:
    local = load_benchmark(folder)
    asked = (msgspec.structs.replace(local.comparisons[0], prompt="Write to ann@example.org?", twin=None),)
    write_benchmark(msgspec.structs.replace(local, comparisons=asked + local.comparisons[2:]), folder)
    assert "direct identifiers: 1 email; palate data convert --scrub" in plan(folder).visible


def test_public_has_to_be_said_and_visibility_is_never_changed_silently(hub: State, folder: Path) -> None:
    push(plan(folder, public=True))
    assert not hub.repositories[NAME].private
    with pytest.raises(PalateError, match="is public, and only --public writes there"):
        plan(folder)
    hub.repositories[NAME].private = True
    with pytest.raises(PalateError, match="is private, and only a push without --public"):
        plan(folder, public=True)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("hf_wrong", "does not accept your token"),
        ("hf_reader", "may not write to ann/teas"),
        ("", "run `hf auth login`"),
    ],
)
def test_a_token_that_may_not_is_told_so_and_never_shown(
    hub: State, folder: Path, tmp_path: Path, token: str, said: str
) -> None:
    home = tmp_path / "no-token"
    done = palate("data", "push", folder, NAME, HF_TOKEN=token, HF_TOKEN_PATH=str(home))
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not hub.repositories
    assert not read_pushes()  # nothing arrived for sure
    if token:
        assert token not in done.stdout + done.stderr


def test_the_token_is_kept_nowhere(hub: State, folder: Path, tmp_path: Path) -> None:
    done = palate("data", "push", folder, NAME)
    assert TOKEN not in done.stdout + done.stderr
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]
    assert not kept and not any(TOKEN.encode() in content for content in hub.files(NAME).values())


def test_a_name_that_is_taken_is_not_written_to_by_mistake(hub: State, folder: Path) -> None:
    other = hub.repositories[NAME] = Repository(private=True)
    other.commit({"README.md": b"# Mine", "train.csv": b"a,b\n", "completions.jsonl": b"{}\n"})
    with pytest.raises(PalateError, match=r"holds something else \(files such as completions.jsonl\)"):
        plan(folder)
    push(plan(folder, force=True))
    assert hub.files(NAME)["train.csv"] == b"a,b\n"
    assert load_benchmark(f"hub:{NAME}").content_hash == load_benchmark(folder).content_hash
    elsewhere = load_benchmark(folder)
    card = msgspec.structs.replace(elsewhere.card, name="another")
    write_benchmark(msgspec.structs.replace(elsewhere, card=card), folder)
    with pytest.raises(PalateError, match=r"holds something else \(benchmark mini\)"):
        plan(folder)


def test_a_connection_that_breaks_is_taken_up_again(hub: State, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the hub's client waits before it tries again
    hub.drop = "/commit/"
    broken = palate("data", "push", folder, NAME)
    assert broken.returncode == 2 and "Run the same command again" in broken.stderr
    assert set(hub.files(NAME)) == {".gitattributes"}  # nothing half sent can be seen
    assert "may have arrived" in read_pushes()[0].sentence
    assert palate("data", "push", folder, NAME).returncode == 0
    assert len(requests(hub, "PUT")) == 2  # the large files were there already
    assert len(hub.repositories[NAME].commits) == 2
    assert "was pushed to" in read_pushes()[0].sentence


def test_an_answer_that_is_lost_makes_no_second_commit(hub: State, folder: Path) -> None:
    hub.lose_answer = True
    assert palate("data", "push", folder, NAME).returncode == 2
    again = palate("data", "push", folder, NAME)
    assert "Nothing changed" in again.stdout and len(hub.repositories[NAME].commits) == 2


def test_somebody_who_wrote_meanwhile_is_not_overwritten(hub: State, folder: Path) -> None:
    push(plan(folder))
    local = load_benchmark(folder)
    write_benchmark(msgspec.structs.replace(local, comparisons=local.comparisons[:-2]), folder)
    planned = plan(folder)
    hub.repositories[NAME].commit({**hub.files(NAME), "theirs.txt": b"new"})
    with pytest.raises(PalateError, match="somebody else changed ann/teas meanwhile"):
        push(planned)
    assert "theirs.txt" in hub.files(NAME)
    assert "was pushed to" in read_pushes()[0].sentence  # the first one did arrive


def test_the_card_says_what_the_hub_needs_and_its_viewer_finds_the_tables(
    hub: State, folder: Path, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    done = palate("data", "push", folder, NAME, "--language", "en")
    assert done.returncode == 0, done.stderr
    page = hub.files(NAME)["README.md"].decode()
    head = yaml.safe_load(page.split("---\n")[1])
    assert (head["license"], head["language"]) == ("apache-2.0", ["en"])
    assert head["configs"][0] == {"config_name": "comparisons", "data_files": "comparisons.jsonl", "default": True}
    local = load_benchmark(folder)
    assert head["palate"]["content_hash"] == local.content_hash and local.content_hash in page
    for needed in (local.card.title, local.card.version, *local.card.notes, f"hub:{NAME}", "60 users under pseudonyms"):
        assert needed in page
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in hub.files(NAME).items():
        (copy / name).write_bytes(content)
    for name, rows in (("comparisons", len(local.comparisons)), ("users", len(local.users))):
        table = datasets.load_dataset(str(copy), name, cache_dir=str(tmp_path / "datasets"))
        assert table["train"].num_rows == rows


def test_a_licence_that_the_hub_has_no_name_for_is_written_out() -> None:
    local = load_benchmark("mini")
    card = msgspec.structs.replace(local.card, licence="CC BY 4.0", title='Teas: "hot"\n---')
    head = yaml.safe_load(benchmark_card(msgspec.structs.replace(local, card=card), [], [], NAME).split(b"---\n")[1])
    assert (head["license"], head["pretty_name"]) == ("cc-by-4.0", 'Teas: "hot"\n---')
    odd = msgspec.structs.replace(card, licence="see: the source")
    head = yaml.safe_load(benchmark_card(msgspec.structs.replace(local, card=odd), [], [], NAME).split(b"---\n")[1])
    assert (head["license"], head["license_name"]) == ("other", "see: the source")


def evaluated(benchmark: Path | str, runs: Path) -> Path:
    from palate.evaluation import evaluate

    return Path(evaluate(str(benchmark), ["overlap"], ["none", "posts:2"], limit=20, out=runs).run)


def test_a_run_comes_back_as_a_folder_that_reports_the_same(hub: State, folder: Path, tmp_path: Path) -> None:
    run = evaluated(folder, tmp_path / "runs")
    (run / "models").mkdir()
    (run / "models" / "weights.bin").write_bytes(b"learned from people")
    done = palate("data", "push", run, "ann/run")
    assert done.returncode == 0, done.stderr
    assert "20 users" in done.stdout or "users with what models saw of them" in done.stdout
    files = hub.files("ann/run")
    assert {"items.jsonl", "ratings.jsonl", "settings.json", "report.html", "README.md"} <= set(files)
    assert not any("models" in name or "command" in name for name in files)
    assert str(tmp_path).encode() not in b"".join(files.values())
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in files.items():
        (copy / name).write_bytes(content)
    here, there = (open_run(place) for place in (run, copy))
    ours, theirs = (one.experiment.summarise(one) for one in (here, there))
    assert msgspec.structs.replace(theirs, run=ours.run) == ours
    assert "Nothing changed" in palate("data", "push", run, "ann/run").stdout


def test_a_run_on_named_people_is_refused_or_sends_its_reports_alone(hub: State, tmp_path: Path) -> None:
    run = evaluated("mini", tmp_path / "runs")
    refused = palate("data", "push", run, "ann/run")
    assert refused.returncode == 2 and "ids of users are not pseudonyms" in refused.stderr
    assert "--without-users" in refused.stderr and not hub.asked
    done = palate("data", "push", run, "ann/run", "--without-users")
    assert done.returncode == 0 and "nothing about a single user" in done.stdout, done.stderr
    files = hub.files("ann/run")
    assert set(files) == {".gitattributes", "README.md", "report.html", "report.md", "results.csv", "summary.json"}
    everything = b"".join(files.values()).decode()
    items = {row["id"] for row in map(json.loads, (run / "items.jsonl").read_text().splitlines())}
    assert not [
        name
        for name in (*items, *load_benchmark("mini").users)
        if f'"{name}"' in everything or f">{name}<" in everything
    ]
    assert palate("data", "push", run, "ann/run", "--with-ids", "--force").returncode == 0
    assert "items.jsonl" in hub.files("ann/run")


def test_forgetting_tells_what_it_cannot_reach(hub: State, folder: Path, tmp_path: Path) -> None:
    run = evaluated(folder, tmp_path / "runs")
    push(plan(folder))
    palate("data", "push", run, "ann/run")
    user = next(iter(load_benchmark(folder).users))
    key = {"PALATE_PSEUDONYM_KEY": "a key that is long enough", "PALATE_CACHE": str(tmp_path / "cache")}
    exported = palate("data", "export-user", folder, user, "--run", run, "--output", tmp_path / "own.json", **key)
    assert "mini was pushed to" in exported.stdout and "/datasets/ann/run (private)" in exported.stdout
    assert "pushed" in palate("doctor").stdout and "/datasets/ann/teas" in palate("doctor", COLUMNS="200").stdout
    moved = folder.rename(tmp_path / "moved")  # it is still known by its content
    receipt = tmp_path / "receipt.json"
    done = palate("forget", user, "--data", moved, "--run", run, "--receipt", receipt, **key)
    assert done.returncode == 0, done.stderr
    left = json.loads(receipt.read_text())["not_erased"]
    pushes = [reason for reason in left if "palate cannot erase there" in reason]
    assert len(pushes) == 2 and all(reason in done.stdout for reason in pushes)
    assert any(
        "/datasets/ann/teas" in reason and "delete the data set there and push again" in reason for reason in pushes
    )
    push(plan_push(str(moved), NAME))
    assert user not in load_benchmark(f"hub:{NAME}").users
    assert pushed_file().stat().st_mode & 0o077 == 0
    assert user not in pushed_file().read_text()


def test_any_table_on_the_hub_is_read_by_its_columns(hub: State) -> None:
    hub.repositories["ann/votes"] = Repository(private=False)
    rows = "rater,question,chosen,rejected\nann,Tea?,Green.,Black.\nbob,Tea?,Black.,Green.\n"
    commit = hub.repositories["ann/votes"].commit({"votes.csv": rows.encode(), "README.md": b"# Votes"})
    votes = load_benchmark("hub:ann/votes,user=rater,prompt=question")
    assert [(item.user_id, item.chosen) for item in votes.comparisons] == [("ann", "Green."), ("bob", "Black.")]
    assert (votes.card.name, votes.card.version) == ("votes", commit)
    hub.repositories["ann/empty"] = Repository(private=False)
    hub.repositories["ann/empty"].commit({"README.md": b"# Nothing"})
    for name in ("ann/empty", "ann/nowhere"):
        with pytest.raises(PalateError, match=name):
            load_benchmark(f"hub:{name}")


def test_rows_that_name_nobody_may_go(hub: State, tmp_path: Path) -> None:
    table = tmp_path / "votes.csv"
    table.write_text("question,chosen,rejected\nTea?,Green.,Black.\nMilk?,No.,Yes.\n")
    assert "2 users" in plan_push(f"{table},user=none,prompt=question", NAME).visible


def test_what_cannot_be_pushed_says_why(hub: State, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("teas", "ann/teas/more", "ann/../teas", "ann/ teas"):
        with pytest.raises(PalateError, match="is no name of a data set on the hub"):
            plan_push(str(folder), name)
    with pytest.raises(PalateError, match="--without-users is about the reports of a run"):
        plan(folder, without_users=True)
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PalateError, match="HF_HUB_OFFLINE is set"):
        plan(folder)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(PalateError, match=r"could not reach http://127\.0\.0\.1:9 .*\. Nothing was sent\. "):
        plan(folder)
