"""Real answers without a generator: from a dump and from a company's table to a benchmark that audit and eval read."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from dumps import accepted_plan, write_dump, write_plan, write_support

from command import palate
from palate.build import build, example_plan, example_plans, read_plan
from palate.build._answers import balance_lengths
from palate.build._entries import Entry
from palate.build._index import diverges
from palate.build._split import split_items
from palate.build._tables import Table
from palate.data import check_benchmark, load_benchmark
from palate.records import Benchmark, Comparison


def the_run(folder: Path) -> Path:
    [run] = folder.glob("runs/coffee-build-*")
    return run


def test_a_dump_becomes_a_benchmark_that_audit_and_eval_read(built: Path) -> None:
    benchmark = load_benchmark(built / "coffee")
    assert len(benchmark.users) == 12
    assert not [fault for fault in check_benchmark(built / "coffee") if fault.severity == "error"]
    for item in benchmark.comparisons:
        assert len(item.responses) == 2
        assert item.contrast == "accepted"
        posts = benchmark.users[item.user_id].posts
        assert any(post.date < item.date for post in posts)  # type: ignore[operator]
    assert palate("audit", built / "coffee", "--no-impersonal", "--json", cwd=built).returncode == 0
    done = palate("eval", built / "coffee", "--rm", "longest", "--view", "none", "--json", cwd=built)
    assert done.returncode == 0
    assert json.loads(done.stdout)["results"][0]["accuracy"] == 0.5


def test_users_are_pseudonyms_and_the_authors_are_named_apart(built: Path) -> None:
    benchmark = load_benchmark(built / "coffee")
    assert all(re.fullmatch(r"u-[0-9a-f]{20}", user) for user in benchmark.users)
    assert all(re.fullmatch(r"i-[0-9a-f]{20}", item.id) for item in benchmark.comparisons)
    attribution = (built / "coffee" / "ATTRIBUTION.md").read_text()
    assert attribution.count("https://coffee.stackexchange.com/q/") == len(benchmark.comparisons)
    assert not any(user in attribution for user in benchmark.users)
    assert not (the_run(built) / "index.sqlite").exists()  # it held raw ids


def test_the_card_tells_counts_yields_licence_and_gate(built: Path) -> None:
    card = (built / "coffee" / "CARD.md").read_text()
    kept = load_benchmark(built / "coffee")
    assert f"| all | {len(kept.comparisons)} | 12 | 0 | accepted {len(kept.comparisons)} |" in card
    assert "| select | 60 questions | 59 | fewer than 1 earlier posts of the asker: 1 |" in card
    assert "Licence: CC BY-SA 4.0" in card
    assert "| length | longest | 50.0% |" in card
    assert kept.card.description.startswith(card.partition("\n")[0])


def test_the_longer_answer_is_chosen_half_of_the_time_and_so_is_the_first(built: Path) -> None:
    items = load_benchmark(built / "coffee").comparisons
    longer = sum(len(item.chosen) > len(item.rejected[0]) for item in items)
    assert longer == pytest.approx(len(items) / 2, abs=1)
    assert sum(item.preferred for item in items) == pytest.approx(len(items) / 2, abs=1)


def test_all_answers_can_be_kept(tmp_path: Path) -> None:
    write_dump(tmp_path)
    build(accepted_plan(tmp_path, others='"all"', balance="false"), to=tmp_path / "all", out=tmp_path / "runs")
    assert {len(item.responses) for item in load_benchmark(tmp_path / "all").comparisons} == {3}


def test_divergence_keeps_only_choices_against_the_votes(tmp_path: Path) -> None:
    file = write_dump(tmp_path)
    plan = accepted_plan(tmp_path, kind='"divergent"', balance="false", others='"all"')
    build(plan, to=tmp_path / "divergent", out=tmp_path / "runs")
    items = load_benchmark(tmp_path / "divergent").comparisons
    scores = {m[1]: int(m[0]) for m in re.findall(r'Score="(\d)" Body="&lt;p&gt;([^&]+)&lt;', file.read_text())}
    assert 0 < len(items) < 48
    assert all(scores[other] > scores[item.chosen] for item in items for other in item.rejected)


def test_divergence_has_the_known_count_on_real_data(data_dir: Path) -> None:
    with gzip.open(data_dir / "stackexchange" / "accepted.jsonl.gz") as lines:
        questions = [json.loads(line) for line in lines]
    against = [one for one in questions if diverges(one["chosen_score"], [other["score"] for other in one["rejected"]])]
    assert (len(questions), len(against)) == (792, 93)


@pytest.mark.parametrize(("site", "kind", "number"), [("coffee", "accepted", 39), ("coffee", "divergent", 1)])
def test_the_real_dump_gives_the_known_questions(
    data_dir: Path, tmp_path: Path, site: str, kind: str, number: int
) -> None:
    plan = write_plan(
        tmp_path / "plan.toml",
        f"""
name = "{site}"
[source]
kind = "stackexchange"
path = "{data_dir}/stackexchange/dumps/{site}"
[select]
earlier_posts = 0
[candidates]
kind = "{kind}"
""",
    )
    done = palate("build", plan, "--dry-run", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["questions"] == number


def test_a_companys_table_becomes_twins(tmp_path: Path) -> None:
    write_support(tmp_path / "support.csv")
    plan = write_plan(tmp_path / "plan.toml", example_plan("table") + "\n[gate]\nmodels = []\n")
    done = palate("build", plan, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    benchmark = load_benchmark(tmp_path / "support")
    assert len(benchmark.comparisons) == 32
    assert all(item.twin and item.contrast == "twins" for item in benchmark.comparisons)
    assert not [fault for fault in check_benchmark(tmp_path / "support") if fault.field == "twin"]
    audit = json.loads(palate("audit", "./support", "--no-impersonal", "--json", cwd=tmp_path).stdout)
    assert audit["conflicts"]["conflict_share"] == 1.0


def test_rows_of_a_table_that_contradict_each_other_do_not_become_a_choice(tmp_path: Path) -> None:
    file = write_support(tmp_path / "support.csv")
    rows = file.read_text().splitlines()
    taken = next(row for row in rows if row.startswith("c0,2024-01") and row.endswith("True"))
    file.write_text("\n".join([*rows, taken.replace("True", "False"), taken.replace("True", "False")]) + "\n")
    plan = write_plan(tmp_path / "plan.toml", example_plan("table") + "\n[gate]\nmodels = []\n")
    done = palate("build", plan, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "an answer is marked both as accepted and as not: 1" in (tmp_path / "support" / "CARD.md").read_text()
    assert len(load_benchmark(tmp_path / "support").comparisons) == 30  # without its twin


def test_ids_of_questions_that_are_used_again_do_not_mix_their_answers(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(
        "user,date,question_id,question,answer\nann,2024-01-01,1,Tea?,Green.\nann,2024-01-01,1,Bread?,Brown.\n"
        "ann,2024-01-01,1,tea,Black.\n"
    )
    entries: list[Entry] = []
    Table(file, columns={}).read(entries.append, Counter(), lambda done, total: None)
    questions = {entry.id: entry.title for entry in entries if entry.parent is None}
    assert [(questions[entry.parent].lower()[:3], entry.body) for entry in entries if entry.parent] == [
        ("tea", "Green."), ("bre", "Brown."), ("tea", "Black."),
    ]  # fmt: skip


def test_a_forum_export_has_threads_and_replies(tmp_path: Path) -> None:
    rows = []
    for thread in range(6):
        asker = f"user{thread % 3}"
        day = f"2024-01-{thread + 1:02d}"
        rows.append(
            {"id": f"{thread}", "user": asker, "date": f"{day}T08:00:00", "text": f"How about number {thread}?"}
        )
        for reply in range(2):
            text = f"Reply {reply} to {thread}, with some more words in it {'and more' * reply}"
            rows.append(
                {"id": f"{thread}-{reply}", "user": f"helper{reply}", "date": f"{day}T09:00:00", "text": text,
                 "reply_to": f"{thread}", "accepted": reply == thread % 2, "score": 1}
            )  # fmt: skip
    (tmp_path / "forum.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plan = write_plan(
        tmp_path / "plan.toml",
        'name = "forum"\n[source]\nkind = "forum"\npath = "forum.jsonl"\n'
        "[candidates]\nbalance = false\n[gate]\nmodels = []\n",
    )
    build(plan, to=tmp_path / "forum", out=tmp_path / "runs")
    items = load_benchmark(tmp_path / "forum").comparisons
    assert len(items) == 3  # the first question of each user has nothing before it
    assert {item.prompt for item in items} == {"How about number 3?", "How about number 4?", "How about number 5?"}


def test_parts_share_no_user_and_no_question() -> None:
    items = [
        Comparison(
            id=f"{user}-{n}", user_id=f"u{user}", prompt="?", responses=("a", "b"), preferred=0, group=f"g{user}"
        )
        for user in range(40)
        for n in range(1 + user % 3)
    ]
    items[0] = Comparison(id="x", user_id="u0", prompt="?", responses=("a", "b"), preferred=0, group="g7")
    parts = split_items(items, {"train": 0.75, "test": 0.25}, seed=1)
    assert sorted(item.id for part in parts.values() for item in part) == sorted(item.id for item in items)
    assert not {item.user_id for item in parts["train"]} & {item.user_id for item in parts["test"]}
    assert not {item.group for item in parts["train"]} & {item.group for item in parts["test"]}
    assert len(parts["test"]) == pytest.approx(len(items) / 4, abs=3)


def test_a_split_makes_a_folder_for_each_part(tmp_path: Path) -> None:
    write_dump(tmp_path)
    plan = accepted_plan(tmp_path)
    plan.write_text(plan.read_text() + "[split]\ntrain = 0.75\ntest = 0.25\n")
    build(plan, to=tmp_path / "coffee", out=tmp_path / "runs")
    train, test = (load_benchmark(tmp_path / "coffee" / name) for name in ("train", "test"))
    assert not train.users.keys() & test.users.keys()
    assert len(train.comparisons) > len(test.comparisons) > 0
    (tmp_path / "coffee" / "mine.txt").write_text("keep")
    assert palate("build", plan, "--to", "coffee", cwd=tmp_path).returncode == 2


def test_balancing_drops_what_tells_and_keeps_twins() -> None:
    def pair(n: int, chosen: str, twin: str | None = None) -> Comparison:
        return Comparison(id=f"{n}", user_id="u", prompt="?", responses=(chosen, "four"), preferred=0, twin=twin)

    items = [pair(n, "a longer one") for n in range(30)] + [pair(30 + n, "x") for n in range(10)]
    kept = balance_lengths([*items, pair(99, "a longer one", twin="100")], seed=0)
    assert sum(len(item.chosen) > 4 and item.twin is None for item in kept) == 10
    assert kept[-1].id == "99"
    assert balance_lengths([], seed=0) == []


def test_a_person_can_be_exported_and_erased_and_stays_erased(built: Path) -> None:
    benchmark = load_benchmark(built / "coffee")
    user = min(benchmark.users)
    run = the_run(built)
    done = palate("data", "export-user", built / "coffee", user, "--run", run, "--output", "u.json", cwd=built)
    assert done.returncode == 0, done.stderr
    assert user in (built / "u.json").read_text()
    done = palate("forget", user, "--data", built / "coffee", "--run", run, cwd=built)
    assert done.returncode == 0, done.stderr
    assert palate("build", built / "plan.toml", "--to", "coffee", cwd=built).returncode == 0
    left = load_benchmark(built / "coffee")
    assert user not in left.users
    gone = {post.text for post in benchmark.users[user].posts}
    assert not gone & {text for item in left.comparisons for text in item.responses}  # also as answers to others
    for file in [*run.glob("*.json*"), *(built / "coffee").iterdir()]:
        assert user not in file.read_text()


def test_damaged_lines_are_repaired_like_those_of_any_run(built: Path) -> None:
    run = the_run(built)
    items = (run / "items.jsonl").read_text().splitlines(keepends=True)
    (run / "items.jsonl").write_text("".join([items[0], "{broken\n", *items[2:]]))
    assert palate("report", run, cwd=built).returncode == 2
    assert palate("report", run, "--repair", cwd=built).returncode == 0


def test_the_same_plan_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    write_dump(tmp_path)
    plan = accepted_plan(tmp_path)
    for name in ("one", "two"):
        build(plan, to=tmp_path / name, out=tmp_path / f"runs-{name}")
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert files == ["ATTRIBUTION.md", "CARD.md", "card.json", "comparisons.jsonl", "users.jsonl"]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    plan.write_text(plan.read_text().replace('name = "coffee"', 'name = "coffee"\nseed = 1', 1))
    build(plan, to=tmp_path / "three", out=tmp_path / "runs-three")
    assert load_benchmark(tmp_path / "three").content_hash != load_benchmark(tmp_path / "one").content_hash


def test_items_are_drawn_by_the_seed_and_by_user(tmp_path: Path) -> None:
    write_dump(tmp_path)
    plan = accepted_plan(tmp_path, balance="false")
    plan.write_text(plan.read_text() + "[select]\nitems = 10\nitems_per_user = 1\n")
    build(plan, to=tmp_path / "few", out=tmp_path / "runs")
    few: Benchmark = load_benchmark(tmp_path / "few")
    assert (len(few.comparisons), len(few.users)) == (10, 10)


def test_every_example_is_a_sound_plan_but_for_its_data(tmp_path: Path) -> None:
    for name in example_plans():
        text = palate("build", "--example", name).stdout
        (tmp_path / f"{name}.toml").write_text(text)
        for file in ("coffee.stackexchange.com.7z", "support.csv"):
            (tmp_path / file).touch()
        assert read_plan(tmp_path / f"{name}.toml").name
    assert palate("build", tmp_path / "new.toml", "--example", "table").returncode == 0
    assert (tmp_path / "new.toml").read_text() == example_plan("table")
    done = palate("build", tmp_path / "new.toml", "--example", "table")
    assert "is there already" in done.stderr
    assert "Did you mean 'table'?" in palate("build", "--example", "tabel").stderr
