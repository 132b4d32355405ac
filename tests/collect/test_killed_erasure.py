"""An erasure that is killed, wherever it stands, is finished by the next command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import killed_erasure
from collection import make_collection

from palate.collect._export_folder import export_folder
from palate.collect._forget import forget

CANARY = "zebrafinch-4711"


def test_wherever_an_erasure_is_killed_the_next_command_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with make_collection(place / "study", "compare") as made:
        other, ann = made.join(), made.join()
        for person, reason in ((other, "calm"), (ann, CANARY)):
            items = person.items()["items"][:2]
            assert not person.send(*(person.choose(item, reason=reason) for item in items)).json()["refused"]
        person = ann.id
        export_folder(made.project, made.store)
    environment = {**os.environ, "PALATE_CACHE": str(place / "cache")}
    command = [sys.executable, killed_erasure.__file__, str(place), str(place / "study"), person, CANARY, person]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kills) > 30
    assert [kill for kill in kills if kill["following"] or kill["left"] or kill["receipts"] != 1] == []


SLOW = """
import sys, time
from pathlib import Path
import palate.privacy
from palate.collect._manage import erase_person

rewrite = palate.privacy.rewrite

def slow(file, change, **options):
    def slowly(row):
        if file.name == "answers.jsonl":
            print("reading", flush=True)
            time.sleep(0.1)
        return change(row)
    return rewrite(file, slowly, **options)

palate.privacy.rewrite = slow
erase_person(Path(sys.argv[1]), sys.argv[2])
"""


def test_two_processes_that_erase_two_people_do_not_bring_one_of_them_back(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare") as made:
        people = [made.join().answer_all() for _ in range(3)]
        first, second, kept = (person.id for person in people)
        exported, _ = export_folder(made.project, made.store)
        # as where the server runs in a container, or as another user
        environment = {**os.environ, "PALATE_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-c", SLOW, str(made.folder), first]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "reading\n"
            forget(made.project, made.store, made.keys, second, reason="withdrawn")
            other.communicate()
        assert other.returncode == 0
    written = "".join(file.read_text() for file in exported.rglob("*.json*"))
    assert kept in written
    assert first not in written
    assert second not in written
