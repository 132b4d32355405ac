"""Every loader reads its real data and finds as much of it as its authors say there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from palate.data import check_benchmark, list_benchmarks, load_benchmark, write_benchmark
from palate.records import Benchmark, PalateError

REAL = ["convarg", "convarg-crowdsample", "stackexchange", "coauthor", "squality", "acl-titles"]


def left_out(benchmark: Benchmark) -> int:
    return sum(int(note.rpartition(": ")[2]) for note in benchmark.card.notes if "left out: " in note)


@pytest.mark.parametrize("name", ["mini", *REAL])
def test_the_list_says_what_loads(name: str, data_dir: Path) -> None:
    benchmark = load_benchmark(name, data_dir=data_dir)
    listing = next(one for one in list_benchmarks(data_dir=data_dir) if one.name == name)
    assert listing.available
    assert (listing.people, listing.items) == (
        len(benchmark.users),
        len(benchmark.comparisons) + len(benchmark.completions),
    )
    assert (benchmark.card.name, benchmark.card.title, benchmark.card.licence, benchmark.card.source) == (
        listing.name,
        listing.title,
        listing.licence,
        listing.source,
    )


@pytest.mark.parametrize("name", REAL)
def test_real_data_has_no_errors(name: str, data_dir: Path) -> None:
    faults = check_benchmark(name, data_dir=data_dir)
    assert not [fault for fault in faults if fault.severity == "error"]
    assert name != "coauthor" or any("the first response is chosen in 49%" in fault.message for fault in faults)


@pytest.mark.parametrize("name", ["mini", "stackexchange", "coauthor", "squality", "acl-titles", "convarg,min=800"])
def test_written_and_read_again_it_is_the_same(name: str, data_dir: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark(name, data_dir=data_dir)
    write_benchmark(benchmark, tmp_path / "copy")
    again = load_benchmark(tmp_path / "copy")
    assert again.content_hash == benchmark.content_hash
    assert again.card == benchmark.card


def test_convarg_holds_every_strict_vote(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg", data_dir=data_dir)
    assert len(benchmark.comparisons) + left_out(benchmark) == 84_445
    assert len({item.group for item in benchmark.comparisons}) <= 16_927
    assert all(item.date and not item.date.endswith("UTC") for item in benchmark.comparisons)
    judgements = {one.id: one for user in benchmark.users.values() for one in user.judgements}
    assert len(judgements) == len(benchmark.comparisons)
    item = benchmark.comparisons[0]
    assert judgements[item.id].reason and judgements[item.id].date == item.date
    assert item.prompt.startswith("Which argument is the more convincing?")


def test_convarg_keeps_voters_with_enough_votes(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg,min=50", data_dir=data_dir)
    assert min(len(user.judgements) for user in benchmark.users.values()) >= 50
    with pytest.raises(PalateError, match="min=many: expected a whole number"):
        load_benchmark("convarg,min=many", data_dir=data_dir)


def test_the_crowd_sample_has_one_vote_a_pair(data_dir: Path) -> None:
    benchmark = load_benchmark("convarg-crowdsample", data_dir=data_dir)
    assert len(benchmark.comparisons) + left_out(benchmark) == 16_927
    assert len({item.group for item in benchmark.comparisons}) == len(benchmark.comparisons)
    assert all(item.sequence is not None and item.date is None for item in benchmark.comparisons)


def test_stackexchange_by_question_and_by_pair(data_dir: Path) -> None:
    questions = load_benchmark("stackexchange", data_dir=data_dir)
    pairs = load_benchmark("stackexchange,pairs=true", data_dir=data_dir)
    assert (len(questions.users), len(questions.comparisons), len(pairs.comparisons)) == (385, 792, 1_744)
    assert len({item.group for item in pairs.comparisons}) == 792
    assert all(item.privileged.narrative for item in questions.comparisons)


def test_coauthor_keeps_the_order_on_the_screen(data_dir: Path) -> None:
    benchmark = load_benchmark("coauthor", data_dir=data_dir)
    assert len(benchmark.users) == 61
    assert len(benchmark.comparisons) + left_out(benchmark) == 12_293
    first = sum(item.shown is not None and item.shown[item.preferred] == 0 for item in benchmark.comparisons)
    assert round(first / len(benchmark.comparisons), 2) == 0.49


def test_coauthor_can_leave_out_what_was_recorded_in_another_way(data_dir: Path) -> None:
    late = load_benchmark("coauthor,since=2021-08-23", data_dir=data_dir)
    firsts = [item.shown is not None and item.shown[item.preferred] == 0 for item in late.comparisons]
    assert len(firsts) == 8_502 and round(sum(firsts) / len(firsts), 2) == 0.29
    assert all(judgement.date >= "2021-08-23" for user in late.users.values() for judgement in user.judgements)
    with pytest.raises(PalateError, match="expected a day"):
        load_benchmark("coauthor,since=monday", data_dir=data_dir)


def test_squality_has_four_answers_to_each_question(data_dir: Path) -> None:
    benchmark = load_benchmark("squality", data_dir=data_dir)
    assert (len(benchmark.users), len(benchmark.completions)) == (24, 2_540)
    assert len({item.id.rpartition(":")[0] for item in benchmark.completions}) == 635
    assert {len(item.alternatives) for item in benchmark.completions} == {3}


def test_acl_titles_are_dated_by_year(data_dir: Path) -> None:
    benchmark = load_benchmark("acl-titles", data_dir=data_dir)
    assert (len(benchmark.users), len(benchmark.completions)) == (525, 5_294)
    assert {len(item.date or "") for item in benchmark.completions} == {4}


def test_data_that_is_not_here_names_the_variable_and_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALATE_DATA", raising=False)
    with pytest.raises(PalateError, match=r"PALATE_DATA is not set.*ACL 2016"):
        load_benchmark("convarg")
    with pytest.raises(PalateError, match=f"looked in {tmp_path / 'coauthor'}"):
        load_benchmark("coauthor", data_dir=tmp_path)


def test_a_damaged_copy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "coauthor").mkdir()
    (tmp_path / "coauthor" / "choices.jsonl.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(PalateError, match=r"choices\.jsonl\.gz: not a whole gzip file"):
        load_benchmark("coauthor", data_dir=tmp_path)


def test_what_readers_voted_up_names_nobody(data_dir: Path) -> None:
    votes = load_benchmark("stackexchange,by=votes", data_dir=data_dir)
    asked = {item.id: item for item in load_benchmark("stackexchange", data_dir=data_dir).comparisons}
    assert len(votes.comparisons) + left_out(votes) == len(asked)
    assert all(item.user_id.startswith("nobody-") for item in votes.comparisons)
    assert all(set(item.responses) == set(asked[item.id].responses) for item in votes.comparisons)
    same = sum(item.chosen == asked[item.id].chosen for item in votes.comparisons)
    assert 0 < same < len(votes.comparisons)
    assert not [
        fault for fault in check_benchmark("stackexchange,by=votes", data_dir=data_dir) if fault.severity == "error"
    ]
    with pytest.raises(PalateError, match="expected asker"):
        load_benchmark("stackexchange,by=answerer", data_dir=data_dir)
