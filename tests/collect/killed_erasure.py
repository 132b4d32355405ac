"""Erases a person and kills the process at its N-th step, for every N; a program of its own, started by a test.

A step is a statement that changes the database, a commit, or a change to a file. After each kill the next command runs,
and then every file is searched for what the person wrote. Prints a line of JSON for each kill.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event

from palate.collect._forget import forget
from palate.collect._manage import erase_person
from palate.collect._serve import open_collection

WRITES = os.O_WRONLY | os.O_RDWR
CHANGES = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "os.link")


def kill_at(step: int) -> None:
    """End this process without a word when it comes to that step."""
    left = step

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(name: str, arguments: tuple[object, ...]) -> None:
        if name in CHANGES or (name == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            count()

    sys.addaudithook(audit)

    def statement(connection: object, cursor: object, words: str, *_: object) -> None:
        if not words.startswith(("SELECT", "PRAGMA", "BEGIN")):
            count()

    event.listen(sa.Engine, "before_cursor_execute", statement)
    event.listen(sa.Engine, "commit", lambda *_: count())


def in_child(work: Callable[[], object], words: Path) -> int:
    """The status of a process that does the work: 0, 1 with a traceback in `words`, or minus a signal."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            words.write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(place: Path, study: Path, person: str, canaries: list[bytes]) -> None:
    """Erase the person again and again, one step further each time, until it is done without a kill."""
    pristine = place.with_name("pristine")
    shutil.copytree(place, pristine)
    erase_person(study, person)  # reads every module that is needed, once for all children
    words = place.with_name("words.txt")
    for step in range(1, 10_000):
        shutil.rmtree(place)
        shutil.copytree(pristine, place)

        def erase(step: int = step) -> None:
            opened = open_collection(study)
            kill_at(step)
            forget(opened.project, opened.store, opened.keys, person, reason="asked")

        ended = in_child(erase, words)
        noted = is_noted(study, person)
        words.write_text("")
        following = in_child(lambda: open_collection(study).store.close(), words)
        if not noted:  # it was killed before the erasure was noted, so that it is asked for again
            following = max(following, in_child(lambda: erase_person(study, person), words))
        left = sorted(
            str(file.relative_to(place))
            for file in place.rglob("*")
            if file.is_file() and any(canary in file.read_bytes() for canary in canaries)
        )
        receipts = len(list((study / "receipts").glob("*.json")))
        fault = words.read_text()[-700:]
        print(json.dumps({"step": step, "ended": ended, "following": following, "left": left, "receipts": receipts,
                          "fault": fault}), flush=True)  # fmt: skip
        if ended != -signal.SIGKILL:
            return


def is_noted(study: Path, person: str) -> bool:
    """Whether the erasure was begun, as far as the database knows."""
    engine = sa.create_engine(f"sqlite:///{study / 'collect.sqlite'}")
    try:
        with engine.connect() as connection:
            held = sa.text("SELECT count(*) FROM participants WHERE id = :person")
            begun = sa.text("SELECT count(*) FROM erasures WHERE participant = :person")
            known, noted = (connection.execute(query, {"person": person}).scalar_one() for query in (held, begun))
            return bool(noted) or not known
    finally:
        engine.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], [word.encode() for word in sys.argv[4:]])
