"""General quality before and after personalising."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from planted_audits import benchmark_of, choice, written

import command
from palate.audit import general_pairs, measure_general
from palate.records import Ask, Comparison, PalateError, Post, Rating, User

GENERAL = benchmark_of(
    [User(id="g")],
    [
        Comparison(
            id=f"g{number}",
            user_id="g",
            prompt=f"Fact {number}?",
            responses=(f"right {number}", f"wrong {number}"),
            preferred=0,
        )
        for number in range(200)
    ],
)
PEOPLE = benchmark_of(
    [User(id=f"u{number}", posts=(Post(id="p", text="I wrote this."),)) for number in range(60)],
    [choice(f"c{number}", f"u{number}", number, 0) for number in range(60)],
)


class Forgets:
    """Right about everything; with a profile it forgets some, for some users all."""

    name = "forgets"

    def __init__(self, share: float) -> None:
        self.share = share
        self.fingerprint = f"forgets {share}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([self._score(ask, text) for text in ask.responses]) for ask in asks]

    def _score(self, ask: Ask, text: str) -> float:
        number = ask.id.partition(":g")[2]
        forgets = bool(ask.view.parts) and int(number or 0) % 100 < 100 * self.share
        return float(text.startswith("wrong") if forgets else text.startswith("right"))


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "kept"), (0.2, "lost")])
def test_what_is_forgotten_is_found(share: float, verdict: str, tmp_path: Path) -> None:
    found = measure_general(PEOPLE, GENERAL, [Forgets(share)], ["posts:1"], out=tmp_path)
    [kept] = found.kept
    assert kept.verdict == verdict and kept.before == 1.0
    assert kept.after == pytest.approx(1 - share, abs=0.04)
    assert kept.worst_after is not None and kept.worst_after.accuracy <= kept.after + 0.05
    assert kept.better == 0 and (kept.worse > 50) == (share > 0)


def test_few_users_cannot_show_that_nothing_is_lost(tmp_path: Path) -> None:
    found = measure_general(PEOPLE, GENERAL, [Forgets(0.03)], ["posts:1"], users=5, pairs=10, out=tmp_path)
    assert found.kept[0].verdict in ("not known", "lost") and found.kept[0].worst_after is None


def test_what_most_people_chose_is_general() -> None:
    items = [choice(f"{user}-{pair}", f"u{user}", pair, int(user < pair)) for pair in range(4) for user in range(3)]
    majority = general_pairs(benchmark_of([User(id=f"u{user}") for user in range(3)], items))
    assert [item.preferred for item in majority] == [0, 0, 1, 1]
    tied = [choice("a", "u0", 0, 0), choice("b", "u1", 0, 1)]
    assert general_pairs(benchmark_of([User(id="u0"), User(id="u1")], tied)) == []


def test_a_margin_and_a_profile_are_needed(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="a margin is a share"):
        measure_general(PEOPLE, GENERAL, [Forgets(0)], ["posts:1"], margin=2.0, out=tmp_path)
    with pytest.raises(PalateError, match="no view shows one"):
        measure_general(PEOPLE, GENERAL, [Forgets(0)], ["none"], out=tmp_path)


def test_the_commands_say_it_and_keep_it(tmp_path: Path) -> None:
    people, general = written(PEOPLE, tmp_path / "people"), written(GENERAL, tmp_path / "general")
    done = command.palate(
        *("eval", people, "--rm", "overlap", "--view", "none", "--view", "posts:1"),
        *("--general", general, "--margin", "0.05", "--out", tmp_path / "runs"),
        *("--general-users", "7", "--general-pairs", "3"),
    )
    assert done.returncode == 0, done.stderr
    assert "Is what everybody wants still known?" in done.stdout
    [kept] = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("*/general.json")]
    assert kept["margin"] == 0.05 and kept["kept"][0]["rm"] == "overlap"
    assert kept["users"] == 7 and kept["pairs"] <= 21
