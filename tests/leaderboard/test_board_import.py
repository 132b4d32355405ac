"""Result files as reward-bench 0.1.4 and inspect_ai 0.3 write them, of the built-in benchmark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from command import palate
from palate.data import load_benchmark
from palate.leaderboard import check_submission, import_results
from palate.records import PalateError

MINI = load_benchmark("mini")


def reward_bench(**more: object) -> list[dict[str, Any]]:
    """Rows whose texts are in a chat template; the longer response gets the higher score."""
    return [
        {
            "prompt": item.prompt,
            "results": int(len(item.chosen) > len(item.rejected[0])),
            "scores_chosen": float(len(item.chosen)),
            "scores_rejected": [float(len(item.rejected[0]))],
            "text_chosen": f"<|user|>{item.prompt}<|assistant|>{item.chosen}",
            "text_rejected": f"<|user|>{item.prompt}<|assistant|>{item.rejected[0]}",
            "id": item.id,
            **more,
        }
        for item in MINI.comparisons
    ]


def write_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def inspect_log(**sample: object) -> dict[str, Any]:
    """A multiple-choice task in which the model answers A throughout."""
    samples = [
        {
            "id": item.id,
            "epoch": 1,
            "input": [{"role": "user", "content": item.prompt}],
            "choices": list(reversed(item.responses)),
            "target": "A" if item.preferred else "B",
            "output": {"choices": [{"message": {"role": "assistant", "content": "ANSWER: A"}}]},
            "scores": {"choice": {"value": "C", "answer": "A"}},
            **sample,
        }
        for item in MINI.comparisons
    ]
    return {"version": 2, "status": "success", "eval": {"task": "mini", "model": "openai/small"}, "samples": samples}


class TestRewardBench:
    def test_scores_become_a_run_that_says_where_they_are_from(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "rm_outputs.jsonl", reward_bench())
        summary = import_results(file, "mini", model="my-rm", out=tmp_path)
        [result] = summary.results
        rows = reward_bench()
        ties = [row for row in rows if row["scores_chosen"] == row["scores_rejected"][0]]
        expected = (sum(row["results"] for row in rows) + len(ties) / 2) / len(rows)
        assert (result.rm, result.view, result.n) == ("my-rm", "none", 300)
        assert result.accuracy == pytest.approx(expected)
        assert summary.complete and check_submission(summary.run).failed == []

    def test_without_ids_prompt_and_responses_tell_the_item(self, tmp_path: Path) -> None:
        rows = [{key: value for key, value in row.items() if key != "id"} for row in reward_bench()]
        file = write_lines(tmp_path / "rm_outputs.jsonl", rows)
        assert import_results(file, "mini", model="rm", out=tmp_path).results[0].n == 300

    def test_a_file_of_scores_alone_says_what_is_missing(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "rm_all.jsonl", [{"chosen": 1.0, "rejected": 0.5}])
        with pytest.raises(PalateError, match="Missing: text_chosen, text_rejected, and id or prompt"):
            import_results(file, "mini", model="rm", out=tmp_path)

    def test_missing_fields_items_and_models_are_named(self, tmp_path: Path) -> None:
        rows = reward_bench()
        cases = {
            "Missing: scores_rejected": [{key: row[key] for key in row if key != "scores_rejected"} for row in rows],
            "no result for 10 of 300 items": rows[10:],
            "the label is another": [
                {**row, "text_chosen": row["text_rejected"], "text_rejected": row["text_chosen"]} for row in rows
            ],
            "they must be numbers": [{**row, "scores_chosen": "high"} for row in rows],
            "is there twice": [*rows, rows[0]],
        }
        for words, spoilt in cases.items():
            with pytest.raises(PalateError, match=words):
                import_results(write_lines(tmp_path / "x_outputs.jsonl", spoilt), "mini", model="rm", out=tmp_path)
        with pytest.raises(PalateError, match="Name it with --model"):
            import_results(write_lines(tmp_path / "x_outputs.jsonl", rows), "mini", out=tmp_path)
        assert not list(tmp_path.glob("mini-*"))


class TestInspect:
    def test_answers_become_a_run(self, tmp_path: Path) -> None:
        file = tmp_path / "log.json"
        file.write_text(json.dumps(inspect_log()))
        summary = import_results(file, "mini", out=tmp_path)
        [result] = summary.results
        second = sum(item.preferred == 1 for item in MINI.comparisons) / 300
        assert result.rm == "openai/small" and result.accuracy == pytest.approx(second)

    def test_the_packed_form_gives_the_same(self, tmp_path: Path) -> None:
        log = inspect_log()
        samples = log.pop("samples")
        with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps(log))
            for sample in samples:
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        summary = import_results(tmp_path / "log.eval", "mini", out=tmp_path)
        assert summary.results[0].n == 300

    @pytest.mark.parametrize(
        ("sample", "words"),
        [
            ({"input": "You are helping a gardener. What now?"}, "what the model saw of the person"),
            ({"choices": None}, "its choices are not the item's responses"),
            ({"scores": {}}, "which answer the model gave"),
            ({"id": "nobody-1"}, "has no item of this id"),
        ],
    )
    def test_what_is_missing_is_named(self, tmp_path: Path, sample: dict[str, object], words: str) -> None:
        file = tmp_path / "log.json"
        file.write_text(json.dumps(inspect_log(**sample)))
        with pytest.raises(PalateError, match=words):
            import_results(file, "mini", out=tmp_path)

    def test_an_answer_that_is_no_letter_is_unscored(self, tmp_path: Path) -> None:
        file = tmp_path / "log.json"
        file.write_text(json.dumps(inspect_log(scores={"choice": {"value": "I", "answer": "neither"}})))
        assert import_results(file, "mini", out=tmp_path).results[0].unscored == 300


def test_the_command(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "rm_outputs.jsonl", reward_bench())
    done = palate("submit", "import", file, "mini", "--model", "my-rm", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "my-rm" in done.stdout
    assert palate("submit", "import", tmp_path / "none.jsonl", "mini").returncode == 2


class TestHostileFiles:
    """A file from a stranger is refused in a sentence, and fills no memory."""

    def test_an_archive_that_unpacks_to_far_more_than_its_size(self, tmp_path: Path) -> None:
        file = tmp_path / "bomb.eval"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
            with archive.open("samples/1.json", "w", force_zip64=True) as member:
                for _ in range(300):
                    member.write(b" " * 10**6)
        assert file.stat().st_size < 10**6
        with pytest.raises(PalateError, match="unpacks to more than"):
            import_results(file, MINI, out=tmp_path)

    @pytest.mark.parametrize(
        "change",
        [
            {"id": {"a": 1}}, {"scores": [1]}, {"scores": {"choice": {"answer": ["A"]}}}, {"output": [1]},
            {"output": {"choices": [1]}}, {"choices": {"a": 1}}, {"input": 3}, {"output": {"choices": {"a": 1}}},
        ],
        ids=str,
    )  # fmt: skip
    def test_samples_of_another_shape(self, tmp_path: Path, change: dict[str, object]) -> None:
        file = tmp_path / "log.json"
        file.write_text(json.dumps(inspect_log(**change)))
        with pytest.raises(PalateError, match="does not fit the benchmark"):
            import_results(file, MINI, out=tmp_path)

    @pytest.mark.parametrize(
        "text",
        ['{"eval": 1, "samples": [1]}', '{"eval": {}, "samples": 1}', "[" * 100_000, '{"eval": ' * 100_000, "3"],
        ids=lambda text: text[:24],
    )
    def test_logs_of_another_shape(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "log.json").write_text(text)
        (tmp_path / "rows.jsonl").write_text(text + "\n")
        for name in ("log.json", "rows.jsonl"):
            with pytest.raises(PalateError):
                import_results(tmp_path / name, MINI, out=tmp_path, model="m")

    @pytest.mark.parametrize(
        "score", [float("nan"), float("inf"), 10**400, True, "9" * 5_000], ids=lambda s: str(s)[:9]
    )
    def test_scores_that_are_no_numbers(self, tmp_path: Path, score: object) -> None:
        file = write_lines(tmp_path / "model_outputs.jsonl", reward_bench(scores_chosen=score))
        with pytest.raises(PalateError, match="they must be numbers, and finite") as error:
            import_results(file, MINI, out=tmp_path, model="m")
        assert len(str(error.value)) < 1_500

    def test_archives_that_are_damaged_or_locked(self, tmp_path: Path) -> None:
        file = tmp_path / "log.eval"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({"eval": {}, "samples": []}))
        content = bytearray(file.read_bytes())
        locked = bytearray(content)
        for place in (6, content.index(b"PK\x01\x02") + 8):
            locked[place] |= 1  # says that it is encrypted
        content[45:60] = bytes(15)
        for damaged in (content, locked, content[:60]):
            file.write_bytes(bytes(damaged))
            with pytest.raises(PalateError, match="cannot be read as a log"):
                import_results(file, MINI, out=tmp_path, model="m")
