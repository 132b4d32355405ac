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
