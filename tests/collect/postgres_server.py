"""A real PostgreSQL server, run by an ordinary user, for as long as it is needed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin"), Path("/usr/bin")]


def _programs() -> Path | None:
    return next((folder for folder in PROGRAMS if (folder / "initdb").exists()), None)


def why_not() -> str:
    """Why no server can be started here; empty where one can."""
    if _programs() is None:
        return "PostgreSQL's programs are not here"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL refuses to run as root, and setpriv is not here"
    return ""


@contextmanager
def postgres_server(*, fsync: bool = False) -> Iterator[str]:
    """The address of an empty server that listens on a socket in a folder of its own."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="palate-pg-", dir="/tmp"))  # a socket's path must be short
    data = folder / "data"
    data.mkdir()
    folder.chmod(0o755)
    become: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        for path in (folder, data):
            os.chown(path, user.pw_uid, user.pw_gid)

    def run(*command: str | Path, check: bool = True) -> None:
        subprocess.run(
            [*become, *map(str, command)], check=check, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync={'on' if fsync else 'off'}"
    run(programs / "initdb", "-D", data, "-U", "palate", "--auth=trust", "-E", "UTF8", "--no-sync")
    run(programs / "pg_ctl", "-D", data, "-w", "-o", settings, "start")
    try:
        yield f"postgresql://palate@/postgres?host={folder}"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)
