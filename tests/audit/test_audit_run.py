"""An audit of a run finds who is served worse, and never shows a group that is too small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_audits import run_of
from rich.console import Console

import palate.audit
from palate.audit import RunAudit, audit_document, audit_run
from palate.audit._fairness import group_test
from palate.audit._run_document import _no_gap
from palate.audit._run_results import Gap
from palate.evaluation import Grouping, RatedItem, Ratings, Slice, groupings, shown_groups, summarise
from palate.evaluation._slices import NOT_GIVEN, OTHER
from palate.records import PalateError
from palate.report import document_markdown, print_document
from palate.runs import open_run

EVEN = {"north": (0.7, 0.8), "south": (0.7, 0.8)}


def forms(audit: RunAudit) -> list[str]:
    """The audit as terminal text, as JSON and as Markdown."""
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    print_document(audit_document(audit, whole=False), console)
    return [console.export_text(), msgspec.json.encode(audit).decode(), document_markdown(audit_document(audit))]


def test_a_group_served_twenty_points_worse_is_found(tmp_path: Path) -> None:
    run = run_of({"north": 40, "south": 30}, {"north": (0.8, 0.8), "south": (0.6, 0.6)}, tmp_path)
    audit = audit_run(run)
    gaps = {gap.view: gap for gap in audit.gaps if gap.by == "demographics.region"}
    for gap in gaps.values():
        assert (gap.best, gap.worst) == ("north", "south")
        assert gap.q < 0.05
        assert gap.low is not None and gap.high is not None and 0 < gap.low < 0.2 < gap.high
    assert len(gaps) == 2
    cells = {cell.value: cell for cell in audit.slices if cell.view == "none"}
    assert (cells["north"].users, cells["south"].users, cells["south"].n) == (40, 30, 360)
    assert audit.findings[0].severity == "warning" and "south is served" in audit.findings[0].text
    for text in forms(audit):
        assert "south" in text


def test_no_difference_is_not_found(tmp_path: Path) -> None:
    audit = audit_run(run_of({"north": 40, "south": 30}, EVEN, tmp_path))
    assert audit.gaps and all(gap.q > 0.05 for gap in audit.gaps)
    assert all(gap.low is not None and gap.low < 0.05 for gap in audit.gaps)
    [said] = [one for one in audit.findings if "none is more than chance" in one.text]
    widest = max(gap.high for gap in audit.gaps if gap.high is not None)
    assert widest > 0.1 and said.severity == "note" and "so few users leave room for gaps of up to" in said.text
    assert not any(one.severity == "warning" for one in audit.findings)


def test_only_narrow_intervals_make_it_good_that_none_was_found() -> None:
    gap = Gap(rm="m", view="none", by="region", best="a", worst="b", gap=0.01, low=-0.02, high=0.04, p=0.6, q=0.6)
    wider = msgspec.structs.replace(gap, high=0.3)
    assert _no_gap([gap]).severity == "good"
    assert "of up to 30.0 points" in _no_gap([gap, wider]).text
    assert "of any size" in _no_gap([gap, msgspec.structs.replace(gap, high=None)]).text


def shown(cells: Sequence[Slice]) -> set[tuple[object, ...]]:
    return {(one.rm, one.view, one.by, one.value, one.n, one.users, one.accuracy) for one in cells}


def test_large_groups_are_tested_whatever_small_ones_there_are(tmp_path: Path) -> None:
    sizes = {"north": 40, "south": 30, "erewhon": 4, "atlantis": 3}
    shares = {"north": (0.9, 0.9), "south": (0.6, 0.6), "erewhon": (0.75, 0.75), "atlantis": (0.75, 0.75)}
    run = run_of(sizes, shares, tmp_path)
    audit = audit_run(run)
    assert {(cell.value, cell.users) for cell in audit.slices} == {("north", 40), ("south", 30), (OTHER, 7)}
    assert {gain.value for gain in audit.gains} == {"north", "south", OTHER}
    assert all((gap.best, gap.worst) == ("north", "south") and gap.q < 0.05 for gap in audit.gaps)
    (hidden,) = audit.hidden
    assert (hidden.cells, hidden.users) == (2, 7)
    assert "2 groups with 7 users counted as (other)" in " ".join(forms(audit)[0].split())
    assert shown(audit.slices) == shown(summarise(open_run(run)).slices), "one rule for every output"
    for text in forms(audit):
        assert "atlantis" not in text and "erewhon" not in text


def test_a_single_small_group_takes_the_next_smallest_for_company(tmp_path: Path) -> None:
    sizes = {"north": 40, "south": 30, "atlantis": 3}
    shares = {"north": (0.9, 0.9), "south": (0.6, 0.6), "atlantis": (0.75, 0.75)}
    run = run_of(sizes, shares, tmp_path)
    audit = audit_run(run)
    assert {(cell.value, cell.users) for cell in audit.slices} == {("north", 40), ("south and others", 33)}
    assert audit.findings[0].severity == "warning" and "south and others is served" in audit.findings[0].text
    assert shown(audit.slices) == shown(summarise(open_run(run)).slices)


def test_all_groups_small(tmp_path: Path) -> None:
    audit = audit_run(run_of({"lilliput": 8, "atlantis": 4}, {"lilliput": (1, 1), "atlantis": (0, 0)}, tmp_path))
    assert audit.slices == audit.gaps == audit.gains == []
    assert any("No group can be shown" in one.text for one in audit.findings)
    for text in forms(audit):
        assert "atlantis" not in text and "lilliput" not in text


def test_a_smaller_least_shows_more(tmp_path: Path) -> None:
    run = run_of({"lilliput": 8, "atlantis": 7}, {"lilliput": (1, 1), "atlantis": (0, 0)}, tmp_path)
    audit = audit_run(run, least=5)
    assert audit_run(run, least=8).slices == []
    assert {cell.value for cell in audit.slices} == {"lilliput", "atlantis"}
    assert audit.gaps[0].gap == 1.0


@given(
    held=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.booleans()), min_size=2, max_size=80),
    least=st.integers(2, 12),
)
def test_shown_groups_make_up_the_whole_and_are_never_a_few_people(
    held: list[tuple[int, int, bool]], least: int
) -> None:
    """Whatever the sizes, who has items in several groups, and what was scored."""
    items = [rated(f"u{user}", number) for number, (user, _, _) in enumerate(held)]
    ratings, codes = Ratings(items, {}), np.array([code for _, code, _ in held])
    where = np.array([scored for _, _, scored in held])
    grouping = Grouping("region", [str(code) for code in range(7)], codes, False)
    found = shown_groups(ratings, grouping, least, where)
    assert ((found.codes >= 0) == where).all()
    users = [
        {user for (user, _, _), code in zip(held, found.codes, strict=True) if code == c}
        for c in range(len(found.values))
    ]
    assert all(users)
    if len(found.values) > 1:
        assert min(map(len, users)) >= least
    by_code = {code: {u for u, c, s in held if s and c == code} for _, code, s in held if s}
    if all(len(members) >= least for members in by_code.values()):
        assert found.values == [str(code) for code in sorted(by_code)]
    large = [str(code) for code, members in by_code.items() if len(members) >= least]
    small = set().union(*(members for members in by_code.values() if len(members) < least))
    if len(small) >= least:
        assert set(found.values) == {*large, OTHER}, "no large group is hidden without need"


def rated(user: str, number: int, **more: object) -> RatedItem:
    id = f"{user}-{number}"
    return RatedItem(id=id, user_id=user, prompt="", responses=("a", "b"), preferred=0, **more)  # type: ignore[arg-type]


def test_users_without_a_value_are_a_group_like_any_other() -> None:
    items = [rated("a", 0, traits={"region": "x"}), rated("b", 0, traits={"region": "y"}), rated("c", 0)]
    (found,) = groupings(Ratings(items, {}))
    assert NOT_GIVEN in found.values and found.of_users


def test_known_judgements_are_few_or_many() -> None:
    items = [rated("a", number, known=known) for number, known in enumerate([0, 3, 10, 11, 100])]
    (found,) = groupings(Ratings(items, {}))
    assert found.by == "known" and not found.of_users
    assert [found.values[code] for code in found.codes] == ["0", "1 to 10", "1 to 10", "11 to 50", "over 50"]


@pytest.mark.parametrize("kind", ["users", "couples", "items"])
def test_the_group_test_seldom_finds_what_is_not_there(kind: str) -> None:
    """Users differ strongly, groups do not: p below 0.05 about one time in twenty."""
    random = np.random.default_rng(5)
    users, each = 40, 6
    items = []
    for user in range(users):
        for number in range(each):
            twin = f"u{user ^ 1}-{number}" if kind == "couples" else None
            items.append(rated(f"u{user:02}" if kind != "couples" else f"u{user}", number, twin=twin))
    ratings = Ratings(items, {})
    low, rounds = 0, 60
    for round_ in range(rounds):
        skill = np.clip(random.normal(0.6, 0.25, size=users), 0, 1)
        if kind == "couples":
            skill = np.repeat(skill[::2], 2)
        of_user = random.integers(3, size=users)
        codes = random.integers(3, size=len(items)) if kind == "items" else of_user[ratings.users]
        credits = (random.random(len(items)) < skill[ratings.users]).astype(float)
        grouping = Grouping("g", ["0", "1", "2"], codes.astype(np.intp), kind != "items")
        low += group_test(ratings, credits, grouping, np.ones(len(items), dtype=bool), round_) < 0.05
    assert low / rounds < 0.13


def test_users_whom_the_profile_harms_are_counted_beside_chance_and_named_only_when_asked(tmp_path: Path) -> None:
    sizes = {"north": 30, "south": 15}
    run = run_of(sizes, {"north": (0.5, 0.8), "south": (0.9, 0.2)}, tmp_path, items=20)
    audit = audit_run(run)
    (harm,) = audit.harms
    assert harm.users == 45
    assert 12 <= harm.worse <= 20 and harm.clearly_worse > 4 * harm.clearly_worse_by_chance
    assert harm.q < 0.05
    south = next(gain for gain in audit.gains if gain.value == "south")
    assert south.difference < -0.5 and south.q < 0.05
    assert any("makes it worse for south" in one.text for one in audit.findings)
    assert audit.harmed_users is None
    for text in forms(audit):
        assert "south-1" not in text
    named = audit_run(run, users=True)
    assert named.harmed_users and all(one.user_id.startswith("south") for one in named.harmed_users)
    assert named.harmed_users[0].user_id in forms(named)[0]


def test_losses_by_chance_are_not_called_harm(tmp_path: Path) -> None:
    audit = audit_run(run_of({"north": 40, "south": 40}, {"north": (0.6, 0.6), "south": (0.6, 0.6)}, tmp_path))
    (harm,) = audit.harms
    assert harm.q > 0.05
    assert abs(harm.worse - harm.worse_by_chance) < 15
    assert any("than chance would give" in one.text for one in audit.findings)


def test_an_unfinished_run_is_told_so(tmp_path: Path) -> None:
    run = run_of({"north": 12, "south": 12}, EVEN, tmp_path, items=3)
    lines = (run / "ratings.jsonl").read_text().splitlines(keepends=True)
    (run / "ratings.jsonl").write_text("".join(lines[: len(lines) // 2]))
    audit = audit_run(run)
    assert not audit.complete
    assert audit.findings[0].severity == "warning" and "Not every item is rated" in audit.findings[0].text


def test_a_run_without_groups_is_told_so(tmp_path: Path) -> None:
    run = run_of({"north": 12}, EVEN, tmp_path, items=3)
    audit = audit_run(run)
    assert audit.slices == audit.hidden == []
    assert any("no groups" in one.text for one in audit.findings)


def test_a_run_without_items_is_refused(tmp_path: Path) -> None:
    run = run_of({"north": 12}, EVEN, tmp_path, items=2)
    (run / "items.jsonl").unlink()
    with pytest.raises(PalateError, match="holds no items"):
        audit_run(run)


def test_every_key_of_the_json_is_documented() -> None:
    structs = [one for one in vars(palate.audit).values() if hasattr(one, "__struct_fields__")]
    keys = {key for struct in structs for key in struct.__struct_fields__}
    assert len(keys) > 60
    page = (Path(__file__).parents[2] / "docs/audit.md").read_text(encoding="utf-8")
    assert not {key for key in keys if f"`{key}`" not in page}


def test_a_gap_between_kinds_of_items_is_found_although_nobody_can_change_group() -> None:
    random = np.random.default_rng(7)
    ratings = Ratings([rated(f"u{user:02}", number) for user in range(40) for number in range(12)], {})
    codes = np.arange(len(ratings.items)) % 2
    credits = (random.random(len(codes)) < np.where(codes, 0.6, 0.8)).astype(float)
    everything = np.ones(len(codes), dtype=bool)
    assert group_test(ratings, credits, Grouping("g", ["0", "1"], codes, False), everything, 0) < 0.01
