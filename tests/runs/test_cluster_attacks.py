"""What others get of a Ray that palate starts, and what we get of a Ray that others started."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from palate.records import PalateError
from palate.runs import _cluster
from palate.runs._cluster import _connected, _require_answer

STRANGER = "import ray, sys; ray.init(address=sys.argv[1]); print(ray.get(ray.remote(lambda: 'ran').remote()))"


def test_ray_on_this_machine_is_for_its_owner_alone_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="clusters need .[cluster]")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    before = set(Path("/tmp").glob("ray-*"))
    with _connected("ray", 1) as (ray, workers, _):
        assert workers == 1
        mine = [folder for folder in set(Path("/tmp").glob("ray-*")) - before if any(folder.glob("ray/session_*"))]
        assert mine and {stat.S_IMODE(folder.stat().st_mode) for folder in mine} == {0o700}
        address = ray.get_runtime_context().gcs_address
        without = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        asked = subprocess.Popen(
            [sys.executable, "-c", STRANGER, address],
            env=without | {"RAY_AUTH_MODE": "disabled"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asked.stderr is not None
        try:  # it would ask for a while
            assert any("Authentication token is missing" in line for line in asked.stderr), "a stranger was let in"
        finally:
            asked.kill()
            asked.communicate()
        with monkeypatch.context() as patch:
            patch.setenv("RAY_ADDRESS", address)
            _require_answer("auto")
            patch.setenv("RAY_AUTH_TOKEN", "0" * 32)
            with pytest.raises(PalateError, match="does not know the token of this machine"):
                _require_answer("auto")
    assert not any(folder.exists() for folder in mine)


def test_an_address_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""
    pytest.importorskip("ray", reason="clusters need .[cluster]")
    monkeypatch.setattr(_cluster, "CONNECT_SECONDS", 4)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(PalateError, match="no answer within 4 seconds"), _connected("auto", 1):
            pass
    with pytest.raises(PalateError, match="write the host and the port"), _connected("ray://head:90000", 1):
        pass


TWO_IN_A_ROW = """
import ray
from palate.records import PalateError
from palate.runs import _cluster

_cluster.CONNECT_SECONDS = 1
try:
    with _cluster._connected("auto", 1):
        pass
except PalateError:
    pass
with _cluster._connected("ray", 1) as (_, workers, _):
    print(workers)
"""


def test_a_cluster_that_was_not_there_spoils_none_that_is_started_after_it(tmp_path: Path) -> None:
    """In a process that had imported Ray before, with a token at hand."""
    pytest.importorskip("ray", reason="clusters need .[cluster]")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", TWO_IN_A_ROW], capture_output=True, text=True, check=False,
            env=here | {"RAY_ADDRESS": address, "RAY_AUTH_TOKEN": "0" * 64},
        )  # fmt: skip
    assert done.stdout == "1\n", done.stderr
