"""Many benchmarks in one table."""

from __future__ import annotations

import json
from pathlib import Path

from planted_audits import with_conflicts, written

import command


def test_a_docket_names_verdict_and_command_of_each(tmp_path: Path) -> None:
    good = written(with_conflicts(), tmp_path / "good")
    nobody = tmp_path / "nobody.jsonl"
    rows = [{"prompt": f"Q{n}?", "chosen": f"A long answer to {n}.", "rejected": f"No {n}."} for n in range(40)]
    nobody.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    absent = tmp_path / "absent"
    out = tmp_path / "docket.md"
    targets = [str(good), f"{nobody},user=none", str(absent)]
    done = command.palate("audit", "--docket", *targets, "--no-impersonal", "--output", str(out))
    assert done.returncode == 0, done.stderr
    page = out.read_text(encoding="utf-8").replace("\\_", "_")
    assert f"palate audit {good} --no-impersonal" in page
    assert "Shows nothing personal: it has no people." in page and "Not audited." in page
    assert "absent: no such file or folder" in page


def test_a_docket_without_benchmarks_says_what_to_name() -> None:
    done = command.palate("audit", "--docket")
    assert done.returncode == 2 and "name the benchmarks" in done.stderr
