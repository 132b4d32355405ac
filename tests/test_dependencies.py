"""What palate needs has an upper bound, and `make` installs versions that were tried together."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
YEARLY_MAJORS = {"pyarrow", "fsspec", "s3fs"}  # their major version says nothing about what breaks
TRIED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
}


def needed(*groups: str) -> list[Requirement]:
    words = [*PROJECT["dependencies"], *(word for group in groups for word in EXTRAS[group])]
    return [one for one in map(Requirement, words) if one.name != "palate"]


def test_runtime_dependencies_have_upper_bounds() -> None:
    runtime = needed(*(EXTRAS.keys() - {"dev", "docs"}))
    open_ended = {one.name for one in runtime if not any(spec.operator == "<" for spec in one.specifier)}
    assert open_ended == YEARLY_MAJORS


def test_every_dependency_has_a_version_that_its_bounds_allow() -> None:
    for one in needed(*EXTRAS):
        if one.name != "torch":
            assert canonicalize_name(one.name) in TRIED, one.name
            assert one.specifier.contains(TRIED[canonicalize_name(one.name)]), one.name


def test_the_file_names_no_host_no_folder_and_no_torch() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)]
    assert "torch" not in TRIED


def test_make_uses_it_for_everything() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = re.findall(r"^\t.*pip install.*$", makefile, re.M)
    assert not installs, "install with $(INSTALL)"
    assert "--constraint constraints.txt" in makefile and makefile.count("$(INSTALL)") == 3
