"""An audit of a benchmark finds what was planted in it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from planted_audits import benchmark_of, choice, with_conflicts, written
from rich.console import Console

from palate.audit import BenchmarkAudit, audit_benchmark, audit_document
from palate.audit._amounts import intraclass_correlation, measure_fields, measure_power
from palate.audit._conflicts import find_conflicts
from palate.audit._leaks import find_leaks
from palate.evaluation import Ratings, rated_item
from palate.records import Aspect, Benchmark, Judgement, PalateError, Post, Privileged, User
from palate.report import document_markdown, print_document
from palate.stats import GAIN, Resamples, paired_differences


def ratings_of(benchmark: Benchmark) -> Ratings:
    return Ratings([rated_item(item, benchmark) for item in benchmark.comparisons], {})


def blind_audit(benchmark: Benchmark, folder: Path) -> BenchmarkAudit:
    return audit_benchmark(written(benchmark, folder), impersonal=False)


def test_thirty_per_cent_of_conflicts_are_found_and_what_they_leave_for_an_impersonal_model() -> None:
    found = find_conflicts(ratings_of(with_conflicts(pairs=100, conflicts=30)), seed=0)
    assert (found.pairs, found.shared, found.judgements, found.conflicting) == (100, 100, 200, 30)
    assert found.conflict_share == pytest.approx(0.3)
    assert found.agreement is not None and found.agreement.value == pytest.approx(0.7)
    assert found.agreement.low < 0.7 < found.agreement.high
    assert found.majority == pytest.approx(0.85)
    assert found.left_out_majority is not None and found.left_out_majority.value == pytest.approx(0.7)
    assert found.ceiling == pytest.approx(0.85)
    assert (found.repeated, found.contradicted) == (0, 0)


def test_a_majority_of_others_that_is_tied_counts_half() -> None:
    votes = [choice(f"{number}", f"u{number}", 0, preferred) for number, preferred in enumerate([0, 0, 1])]
    found = find_conflicts(ratings_of(benchmark_of([User(id=f"u{number}") for number in range(3)], votes)), seed=0)
    assert found.majority == pytest.approx(2 / 3)
    # the two who agree see a tie among the others; the third sees two against
    assert found.left_out_majority is not None and found.left_out_majority.value == pytest.approx(1 / 3)


def test_a_user_who_contradicts_themself_is_counted_and_is_no_conflict() -> None:
    votes = [choice("1", "ann", 0, 0), choice("2", "ann", 0, 1), choice("3", "ann", 1, 0), choice("4", "ann", 1, 0)]
    found = find_conflicts(
        ratings_of(benchmark_of([User(id="ann"), User(id="bob")], [*votes, choice("5", "bob", 2, 0)])), 0
    )
    assert (found.repeated, found.contradicted) == (2, 1)
    assert (found.shared, found.conflict_share, found.agreement) == (0, None, None)
    assert found.ceiling == 1.0


def test_twins_are_one_pair_even_when_asked_in_other_words() -> None:
    one = choice("1", "ann", 0, 0, twin="2")
    other = msgspec.structs.replace(choice("2", "bob", 0, 1, twin="1"), prompt="Question nought?")
    found = find_conflicts(ratings_of(benchmark_of([User(id="ann"), User(id="bob")], [one, other])), 0)
    assert (found.pairs, found.shared, found.conflicting) == (1, 1, 1)


def test_the_same_responses_to_another_question_are_another_pair() -> None:
    one, other = choice("1", "ann", 0, 0), msgspec.structs.replace(choice("2", "bob", 0, 1), prompt="Another question?")
    found = find_conflicts(ratings_of(benchmark_of([User(id="ann"), User(id="bob")], [one, other])), 0)
    assert (found.pairs, found.shared) == (2, 0)


def test_a_benchmark_without_shared_pairs_is_told_so(tmp_path: Path) -> None:
    users = [User(id=f"u{number}", posts=(Post(id="p", text="Bread."),)) for number in range(12)]
    items = [choice(f"{number}", f"u{number % 12}", number, number % 2) for number in range(48)]
    audit = blind_audit(benchmark_of(users, items), tmp_path / "b")
    assert audit.findings[0].severity == "warning"
    assert any("No pair has been judged by two users" in one.text for one in audit.findings)
    assert any("no demographics, values or categories" in one.text for one in audit.findings)
    assert audit.fields == [] and audit.impersonal is None


def test_a_length_shortcut_is_found_and_chance_is_not(tmp_path: Path) -> None:
    users = [User(id=f"u{number}") for number in range(30)]
    items = []
    for number in range(240):
        item = choice(f"{number}", f"u{number % 30}", number, 0)
        longer = item.responses[0] + " And more words." * (number % 5 != 0)
        items.append(msgspec.structs.replace(item, responses=(longer, item.responses[1])))
    audit = blind_audit(benchmark_of(users, items), tmp_path / "b")
    by_name = {one.rm: one for one in audit.controls}
    assert by_name["longest"].accuracy >= 0.8
    assert by_name["longest"].q < 0.01 and by_name["random"].q > 0.05
    assert audit.lengths.longest >= 0.8
    assert any("longest response" in one.text and one.severity == "warning" for one in audit.findings)
    assert "overlap" not in by_name, "nobody has a profile"
    assert "shortest" not in by_name, "for pairs it is the mirror of longest"


def test_leaks_are_counted_one_by_one() -> None:
    rubric = Privileged(aspects=(Aspect(aspect="wants the recipe without any sugar at all"),))
    clean = choice("clean", "ann", 9, 0, date="2024-05-01")
    own = choice("own", "ann", 1, 0, date="2024-05-01")
    posted = choice("posted", "bob", 2, 0, date="2024-05-01")
    longer = (posted.responses[0], "Put the dough beside the kettle, and boil it now and then.")
    posted = msgspec.structs.replace(posted, responses=longer)
    private = choice("private", "cat", 3, 0, date="2024-05-01", privileged=rubric)
    later = choice("later", "dan", 4, 0, date="2024-05-01")
    history = Judgement(prompt=own.prompt, responses=own.responses[::-1], preferred=1, date="2024-01-01")
    elsewhere = Judgement(prompt="Else?", responses=(clean.chosen, "Something else."), preferred=0, date="2024-01-01")
    users = [
        User(id="ann", judgements=(history, elsewhere)),
        User(id="bob", posts=(Post(id="1", text=f"I said: {posted.rejected[0]}", date="2024-01-01"),)),
        User(
            id="cat", posts=(Post(id="1", text="Who WANTS the recipe  without any sugar at all?", date="2024-01-01"),)
        ),
        User(id="dan", posts=(Post(id="1", text="New.", date="2024-06-01"),), values=(later.chosen,)),
    ]
    found = find_leaks(benchmark_of(users, [clean, own, posted, private, later]), None)
    assert found.own_choice == 1
    assert found.response_in_judgements == 2, "the very pair, and one of its texts in another pair"
    assert found.response_in_posts == 1
    assert found.response_in_traits == 1
    assert found.withheld == 4
    assert found.privileged_in_history == 1
    assert found.chosen_elsewhere == 1
    assert found.later_history == 1


def test_thin_groups_are_counted_and_those_that_point_at_a_person_are_not_named() -> None:
    sizes = {"Europe": 12, "Asia": 6, "Atlantis": 2}
    users = [
        User(id=f"{r}{n}", demographics={"region": r, "job": f"{r} {n}"}) for r, m in sizes.items() for n in range(m)
    ]
    users.append(User(id="nobody"))
    benchmark = benchmark_of(users, [choice(user.id, user.id, 0, 0) for user in users])
    region = next(field for field in measure_fields(benchmark, least=10) if field.by == "demographics.region")
    assert [(cell.value, cell.users) for cell in region.listed] == [("Europe", 12), ("Asia", 6)]
    assert (region.cells, region.thin, region.without) == (3, 2, 1)


def test_the_smallest_gain_is_found_four_times_in_five() -> None:
    """The formula against the test that palate really makes, on users whose gains differ."""
    users, each, differ = 80, 10, 0.3
    benchmark = benchmark_of(
        [User(id=f"u{n}") for n in range(users)],
        [choice(f"{n}", f"u{n % users}", n, 0) for n in range(users * each)],
    )
    ratings = ratings_of(benchmark)
    random = np.random.default_rng(3)
    habits = random.normal(0, np.sqrt(differ * 0.1), size=users)
    example = habits[ratings.clusters] + random.normal(0, np.sqrt(differ * 0.9), size=len(ratings.items))
    assert intraclass_correlation(example, ratings.clusters) == pytest.approx(0.1, abs=0.06)
    power = measure_power(ratings, [_Fixed("random", 0 * example), _Fixed("other", example)])  # type: ignore[list-item]
    assert power.clusters == users
    found = 0
    for _ in range(150):
        gains = power.smallest_gain + random.normal(0, np.sqrt(differ * power.correlation), size=users)
        chance_up = np.clip((differ + gains[ratings.clusters]) / 2, 0, 1)
        draw = random.random(len(ratings.items))
        differences = np.where(draw < chance_up, 1.0, np.where(draw < differ, -1.0, 0.0))
        quantity = ratings.mean(differences, within=GAIN)
        found += paired_differences([quantity], Resamples(users, n_resamples=500))[0].p < 0.05
    assert 0.68 < found / 150 < 0.9


class _Fixed:
    def __init__(self, rm: str, credits: np.ndarray) -> None:
        self.rm, self.credits = rm, credits


def test_no_clusters_are_alike_when_each_has_one_item() -> None:
    assert intraclass_correlation(np.array([1.0, 0.0, 1.0]), np.array([0, 1, 2])) == 0.0


def test_the_same_call_goes_on_from_kept_runs(tmp_path: Path) -> None:
    folder = written(with_conflicts(), tmp_path / "b")
    first = audit_benchmark(folder, impersonal=False, runs=tmp_path / "runs")
    kept = sorted(path.name for path in (tmp_path / "runs").iterdir())
    asked: list[int] = []
    again = audit_benchmark(
        folder, impersonal=False, runs=tmp_path / "runs", progress=lambda what, done, total: asked.append(done)
    )
    assert again == first
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == kept


def test_an_impersonal_model_gets_no_further_than_the_conflicts_let_it(minilm: object, tmp_path: Path) -> None:
    audit = audit_benchmark(written(with_conflicts(conflicts=100), tmp_path / "b"))
    assert audit.impersonal is not None and audit.impersonal.view == "none"
    assert 0 < audit.impersonal.n <= 200
    assert audit.conflicts.ceiling == 0.5
    assert audit.impersonal.low is not None and audit.impersonal.low < 0.5


def test_mini_can_see_personalisation() -> None:
    audit = audit_benchmark("mini", impersonal=False)
    assert audit.conflicts.conflict_share == 1.0 and audit.conflicts.ceiling == 0.5
    assert any(one.severity == "good" and "opposite labels by construction" in one.text for one in audit.findings)
    severities = [one.severity for one in audit.findings]
    assert severities == sorted(severities, key=["warning", "note", "good"].index)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    print_document(audit_document(audit, whole=False), console)
    printed = console.export_text()
    assert max(map(len, printed.splitlines())) <= 80
    page = document_markdown(audit_document(audit))
    for text in (printed, page):
        assert "70.8%" in text and "How far one gets without knowing the user" in text


@pytest.mark.parametrize(
    ("benchmark", "said"),
    [
        (benchmark_of([User(id="ann")], [choice("1", "ann", 0, 0), choice("2", "ann", 1, 0)]), "one user only"),
        (benchmark_of([User(id="ann"), User(id="bob")], [choice("1", "ann", 0, 0)]), "one user only"),
    ],
)
def test_one_user_is_refused(benchmark: Benchmark, said: str, tmp_path: Path) -> None:
    with pytest.raises(PalateError, match=said):
        audit_benchmark(written(benchmark, tmp_path / "b"))


@pytest.mark.parametrize("least", [0, 1, -3])
def test_a_group_of_one_person_cannot_be_asked_for(least: int) -> None:
    with pytest.raises(PalateError, match="2 or more"):
        audit_benchmark("mini", least=least)
