"""Results of other evaluation programs as runs of palate, where their files say enough; else, what is missing."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.data import too_large, unpacked_limit
from palate.evaluation import EVALUATION, RATINGS, RatingLine, Settings, Summary, rated_item
from palate.leaderboard._entries import IMPORTED
from palate.records import Benchmark, Comparison, PalateError, Rating
from palate.runs import VIEWS, ModelSettings, ViewLine, as_benchmark, begin_run, json_lines
from palate.views import parse_view

_SHOWN = 5
"""How many faults of a kind are named; the others are counted."""


class _Results(NamedTuple):
    """What a file says: of whom, and of which item."""

    program: str
    model: str | None
    ratings: dict[str, Rating]


def import_results(
    file: str | Path,
    benchmark: str | Path | Benchmark,
    *,
    model: str | None = None,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
) -> Summary:
    """Make a run of a result file of reward-bench (`*_outputs.jsonl`) or inspect_ai (`.eval` or `.json`).

    The model saw nothing of the person, so the view is `none`. Every item of the benchmark has to be in the file.
    """
    path = Path(file)
    loaded = as_benchmark(benchmark, data_dir)
    if not loaded.comparisons:
        raise PalateError(f"{loaded.card.name} has no comparisons that results could be about")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PalateError(f"cannot read {path}: {error.strerror or error}") from error
    if content[:2] == b"PK" or path.suffix == ".json":
        found = _inspect(path, content, loaded)
    else:
        found = _reward_bench(path, content, loaded)
    name = model or found.model
    if not name:
        raise PalateError(f"{path} does not say which model it is about. Name it with --model")
    if lacking := [item.id for item in loaded.comparisons if item.id not in found.ratings]:
        raise PalateError(
            f"{path} has no result for {len(lacking):,} of {len(loaded.comparisons):,} items of {loaded.card.name}, "
            f"such as {lacking[0]!r}. A run rates them all."
        )
    identity = {IMPORTED: found.program, "file": hashlib.sha256(content).hexdigest()}
    return _as_run(loaded, ModelSettings(label=name, identity=identity), found.ratings, Path(out))


def _as_run(benchmark: Benchmark, model: ModelSettings, ratings: dict[str, Rating], out: Path) -> Summary:
    view = parse_view("none")
    settings = Settings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        seed=0,
        retriever="bm25",
        retriever_fingerprint="",
        writer=None,
        budget=None,
        limit=None,
        models=[model],
        views=[view],
    )
    items = [rated_item(item, benchmark) for item in benchmark.comparisons]
    run = begin_run(out, EVALUATION, settings, {"items.jsonl": lambda: json_lines(items)})
    with run.writing() as writer:
        writer.add(VIEWS, [ViewLine(view=view.name, item=item.id) for item in items])
        writer.add(
            RATINGS,
            [RatingLine(rm=model.label, view=view.name, item=item.id, rating=ratings[item.id]) for item in items],
        )
    return EVALUATION.summarise(run)


# reward-bench ---------------------------------------------------------------------------------------------------------

_NEEDED = {
    "scores_chosen": "the score of the chosen response",
    "scores_rejected": "the score of the rejected response",
    "text_chosen": "the chosen response",
    "text_rejected": "the rejected response",
}


def _reward_bench(file: Path, content: bytes, benchmark: Benchmark) -> _Results:
    """Rows of `{model}_outputs.jsonl`. An `id` names the item; without one, prompt and responses have to."""
    rows = list(_json_lines(file, content))
    if rows and set(rows[0][1]) == {"chosen", "rejected"}:
        raise PalateError(
            f"{file} holds scores alone, and not what they are about. Missing: text_chosen, text_rejected, and id or "
            "prompt. reward-bench writes them to the file that ends in _outputs.jsonl"
        )
    lacking = [name for name in _NEEDED if any(name not in row for _, row in rows)]
    if not rows or lacking:
        missing = ", ".join(f"{name} ({_NEEDED[name]})" for name in lacking or _NEEDED)
        raise PalateError(f"{file} does not say enough to make a run of it. Missing: {missing}")
    items = {item.id: item for item in benchmark.comparisons}
    ratings: dict[str, Rating] = {}
    faults: list[str] = []
    for number, row in rows:
        item = items.get(str(row.get("id", "")))
        matches = [item] if item else [one for one in benchmark.comparisons if _is_about(row, one)]
        if len(matches) != 1:
            what = (
                "no item has this prompt and these responses" if not matches else "several people judged this; add id"
            )
            faults.append(f"line {number}: {what}")
        elif not _is_about(row, matches[0]):
            faults.append(
                f"line {number}: the responses are not those of item {matches[0].id!r}, or the label is another"
            )
        elif matches[0].id in ratings:
            faults.append(f"line {number}: item {matches[0].id!r} is there twice")
        elif isinstance(scores := _scores(row, matches[0]), str):
            faults.append(f"line {number}: {scores}")
        else:
            ratings[matches[0].id] = scores
    _refuse(file, faults)
    return _Results("reward-bench", None, ratings)


def _is_about(row: dict[str, Any], item: Comparison) -> bool:
    """Texts may be wrapped in a chat template, so each has to hold its response; nothing else may tell the item."""
    if len(item.responses) != 2:
        return False
    chosen, rejected = _flat(row["text_chosen"]), _flat(row["text_rejected"])
    prompt = _flat(row.get("prompt", ""))
    return item.chosen in chosen and item.rejected[0] in rejected and (not prompt or item.prompt in prompt + chosen)


def _flat(value: object) -> str:
    """A text, or the contents of a conversation."""
    if isinstance(value, list):
        return "\n".join(_flat(one.get("content", "") if isinstance(one, dict) else one) for one in value)
    return value if isinstance(value, str) else ""


def _scores(row: dict[str, Any], item: Comparison) -> Rating | str:
    values = [row["scores_chosen"], row["scores_rejected"]]
    values = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in values]
    if not all(map(_is_score, values)):
        return f"scores are {repr(values[0])[:40]} and {repr(values[1])[:40]}; they must be numbers, and finite"
    return Rating(scores=values if item.preferred == 0 else values[::-1])


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _json_lines(file: Path, content: bytes) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PalateError(
                f"{file}, line {number}: not JSON: {error}. This reads reward-bench's *_outputs.jsonl and inspect_ai's "
                ".eval and .json"
            ) from error
        if not isinstance(row, dict):
            raise PalateError(f"{file}, line {number}: not an object")
        yield number, row


# inspect_ai -----------------------------------------------------------------------------------------------------------


def _inspect(file: Path, content: bytes, benchmark: Benchmark) -> _Results:
    """Samples of a multiple-choice task, whose ids are those of items and whose choices are their responses."""
    log = _inspect_log(file, content)
    samples = log.get("samples")
    if not isinstance(samples, list) or not samples:
        raise PalateError(f"{file} holds no samples, so nothing is known of single items. Keep them with --log-samples")
    items = {item.id: item for item in benchmark.comparisons}
    ratings: dict[str, Rating] = {}
    faults: list[str] = []
    for number, sample in enumerate(samples, start=1):
        name = str(sample.get("id")) if isinstance(sample, dict) else ""
        item = items.get(name)
        if item is None:
            faults.append(f"sample {name!r}: {benchmark.card.name} has no item of this id")
        elif name in ratings:
            faults.append(f"sample {name!r} is there twice; palate rates an item once, so use one epoch")
        else:
            try:
                rating = _choice(sample, item)
            except (AttributeError, LookupError, TypeError, RecursionError):
                rating = f"it is not as inspect_ai writes samples (number {number})"
            if isinstance(rating, str):
                faults.append(f"sample {name!r}: {rating}")
            else:
                ratings[name] = rating
    _refuse(file, faults)
    about = log["eval"]
    model = about.get("model") if isinstance(about, dict) else None
    return _Results("inspect_ai", model if isinstance(model, str) else None, ratings)


def _inspect_log(file: Path, content: bytes) -> dict[str, Any]:
    try:
        if content[:2] != b"PK":
            log = json.loads(content)
        else:
            with zipfile.ZipFile(file) as archive:
                limit = unpacked_limit(len(content))
                if sum(member.file_size for member in archive.infolist()) > limit:  # no more than it says is read
                    raise too_large(file, limit)
                log = json.loads(archive.read("header.json"))
                names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
                log["samples"] = [json.loads(archive.read(name)) for name in names]
    except NotImplementedError as error:
        raise PalateError(
            f"{file} is packed in a way that this Python cannot read. Convert it first: inspect log convert --to json"
        ) from error
    except (
        ValueError,
        LookupError,
        TypeError,
        OSError,
        EOFError,
        RuntimeError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        raise PalateError(f"{file} cannot be read as a log of inspect_ai: {error}") from error
    if not isinstance(log, dict) or "eval" not in log:
        raise PalateError(f"{file} is not a log of inspect_ai: it has no key 'eval'")
    return log


def _choice(sample: dict[str, Any], item: Comparison) -> Rating | str:
    """1 for the response that the model chose; or what is missing."""
    if _flat(sample.get("input")).strip() != item.prompt.strip():
        return "its input is not the item's prompt, so nobody can tell what the model saw of the person"
    choices = sample.get("choices")
    if not isinstance(choices, list) or sorted(map(str, choices)) != sorted(item.responses):
        return "its choices are not the item's responses"
    scores = sample.get("scores") or {}
    answers = {score.get("answer") for score in scores.values() if isinstance(score, dict)} - {None}
    raw = _flat(((sample.get("output") or {}).get("choices") or [{}])[0].get("message", {}).get("content", "")) or None
    if len(answers) != 1:
        return "no scorer says which answer the model gave" if not answers else "its scorers disagree on the answer"
    place = _letter(str(answers.pop()), len(choices))
    if place is None:
        return Rating(unscored="no verdict in the answer", raw=raw)
    return Rating(scores=[float(response == choices[place]) for response in item.responses], raw=raw)


def _letter(answer: str, count: int) -> int | None:
    """The place of a letter among the first `count`.

    >>> _letter(" b ", 2), _letter("C", 2), _letter("AB", 2)
    (1, None, None)
    """
    letter = answer.strip().upper()
    place = ord(letter) - ord("A") if len(letter) == 1 else -1
    return place if 0 <= place < count else None


def _refuse(file: Path, faults: Sequence[str]) -> None:
    if faults:
        more = f"\n  - and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
        lines = "\n".join(f"  - {fault}" for fault in faults[:_SHOWN])
        raise PalateError(f"{file} does not fit the benchmark; no run was made.\n{lines}{more}")
