"""Runs of five models on one benchmark, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from boards import HOSTILE, Knows, people, run_of

from palate.leaderboard import Site, leaderboard

ABOUT = """
[[models]]
name = "sharp"
parameters = 7_000_000_000
licence = "Apache-2.0"
variants = 3
link = "https://example.org/sharp"

[[models]]
name = "middling"
parameters = 135_000_000
licence = "MIT"
variants = 1
"""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three runs; do not change it."""
    folder = tmp_path_factory.mktemp("board") / "runs"
    benchmark = people()
    run_of(benchmark, [Knows("sharp", 0.1), Knows("sharper", 0.08)], folder)
    run_of(benchmark, [Knows("northblind", 0.1, north=0.5)], folder)
    run_of(benchmark, [Knows(HOSTILE, 0.4), Knows("middling", 0.25)], folder)
    return folder


@pytest.fixture(scope="session")
def about(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("about") / "models.toml"
    file.write_text(ABOUT)
    return file


@pytest.fixture(scope="session")
def site(runs: Path, about: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The board of these runs; do not change it."""
    return leaderboard([runs], tmp_path_factory.mktemp("site"), about=about, title="Who knows what you drink?")
