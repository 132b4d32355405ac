"""Forgetting one user: in benchmark folders, runs, trained models and caches, with a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from palate.data import Pseudonyms, load_benchmark
from palate.engine import AnswerCache, cache_folder, forget_vectors, text_hash, texts_with_vectors, vectors_folder
from palate.personal import TUNED, describe_model, erase_user
from palate.privacy._benchmark_folder import check_folder, erase_from_folder
from palate.privacy._person import Person
from palate.privacy._places import Place, Tally
from palate.privacy._receipt import Receipt
from palate.privacy._rewrite_lines import FileChange, read_rows, refuse_read_only, sha256
from palate.privacy._run_folder import (
    erase_from_run,
    is_shown,
    owners,
    remake_reports,
    remove_reports,
    shared_samples,
)
from palate.privacy._traces import TraceSearch, searched_files, traces_of
from palate.records import PalateError
from palate.runs import Progress, open_run

SHARED = (
    "the shared part of {path} was learned from this user's choices too, and a trace of them stays in its numbers "
    "until it is trained again"
)
MARKS = "marks of this user's choices may be left in {path}: without --data it is not known which they are"
ANSWERS = (
    "answers of language models are kept under hashes of their requests, so those about this user cannot be told "
    "from others; they were kept because --keep-answers was given"
)
DISK = "copies elsewhere (backups, snapshots, version control, unused blocks of a disk) are out of reach of palate"


def forget(
    user: str,
    names: Pseudonyms,
    *,
    data: Sequence[Path] = (),
    runs: Sequence[Path] = (),
    models: Sequence[Path] = (),
    keep_answers: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Receipt:
    """Erase one user from these places and from the caches.

    Benchmark folders come last: they tell which texts are the user's, so that a call that was broken off can be
    made again. Nothing is touched before every place has been read.
    """
    report = progress or (lambda what, done, total: None)
    data, runs = [folder.resolve() for folder in data], [folder.resolve() for folder in runs]
    opened = [open_run(folder, check=False) for folder in runs]
    tables = [run for run in opened if run.experiment.parts(run)]
    named = [run for run in opened if run.experiment.kind == "samples"]
    parts = [part for run in tables for part in run.experiment.parts(run)]
    runs = list(dict.fromkeys([*(run.folder for run in opened if run not in (*tables, *named)), *parts]))
    models = [folder.resolve() for folder in models]
    holding = [*runs, *(table.folder for table in tables)]
    models = [*models, *(file.parent for run in holding for file in sorted(run.glob("models/**/model.json")))]
    beside = (folder for run in runs for folder in shared_samples(run))
    samples = list(dict.fromkeys([*(run.folder for run in named), *beside]))
    steps = 3 + len(data) + len(runs) + len(samples) + len(models)
    report("reading what is known of the user", 0, steps)
    person = _gather(user, data, runs, models, (*samples, *(run.folder for run in tables)))
    traces = traces_of(person, names)
    places: list[Place] = []
    profile_texts: list[str] = []
    reports = [remove_reports(table, write=not dry_run) for table in tables]
    for run in (*samples, *runs):  # runs tell whose the samples are
        report(f"erasing from {run}", len(places) + 1, steps)
        place, texts = erase_from_run(open_run(run), person, write=not dry_run)
        places.append(place)
        profile_texts += texts
    for table, before in zip(tables, reports, strict=True):  # it is rebuilt from what is left of its parts
        place, _ = erase_from_run(table, person, write=not dry_run)
        remade = remake_reports(table, before, write=not dry_run)
        own = [file for file in place.files if Path(file.path) not in before]
        places.append(msgspec.structs.replace(place, files=[*own, *remade]))
    retrain: list[str] = []
    for folder in models:
        report(f"erasing from {folder}", len(places) + 1, steps)
        place, command = _erase_from_model(folder, person, data, write=not dry_run)
        places.append(place)
        retrain.append(command)
    report("erasing from the caches", len(places) + 1, steps)
    # A profile is read with and without the words that introduce it, as in `This user values: calm`.
    bare = [text.partition(mark)[2] for text in profile_texts for mark in (":\n", ": ")]
    places.append(_erase_vectors([*person.texts, *profile_texts, *filter(None, bare)], write=not dry_run))
    places.append(_erase_answers(write=not dry_run, keep=keep_answers))
    for folder in data:
        report(f"erasing from {folder}", len(places) + 1, steps)
        places.append(erase_from_folder(folder, person, write=not dry_run))
    report("searching again", steps - 1, steps)
    places = [_searched(place, TraceSearch(user, traces, names), dry_run=dry_run) for place in places]
    return Receipt(
        user=names.user(user),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dry_run=dry_run,
        places=places,
        not_erased=[*(reason for place in places for reason in place.left), DISK],
        retrain=list(dict.fromkeys(retrain)),
        words=traces,
        vectors=sorted(names.digest("vector", text_hash(text).hex()) for text in person.texts),
    )


def _gather(
    user: str, data: Sequence[Path], runs: Sequence[Path], models: Sequence[Path], elsewhere: Sequence[Path]
) -> Person:
    """Read everything first; refuse what is not there, not ours, or not to be written."""
    if not (data or runs or models or elsewhere):
        raise PalateError(
            "name the places to erase from: --data FOLDER, --run RUN, --model MODEL, each as often as needed"
        )
    person = Person(user)
    for folder in data:
        check_folder(folder)
        person.learn(load_benchmark(folder))
    known = person.known
    for folder in (*runs, *elsewhere):
        for file in sorted(folder.glob("*.jsonl")):
            read_rows(file)
    for folder in runs:
        run = open_run(folder)
        if reason := run.experiment.refuse_to_forget(run, user):
            raise PalateError(f"{reason} Nothing was erased anywhere.")
        person.items |= {item for item, owner in owners(run) if owner == user}
        known |= is_shown(run, user)
    known |= bool(person.items)
    for folder in models:
        known |= user in describe_model(folder).users
    for folder in (*data, *runs, *models, *elsewhere):
        refuse_read_only(folder)
    if not known:
        # No name is suggested: it would tell whoever mistypes an id who else is here.
        raise PalateError("no such user in any of these places; nothing was erased. An earlier call may have done it.")
    return person


def _erase_from_model(folder: Path, person: Person, data: Sequence[Path], *, write: bool) -> tuple[Place, str]:
    files = [folder / "model.safetensors", folder / "model.json"]
    before = {file: sha256(file) for file in files}
    erased = erase_user(folder, person.id, person.choices, write=write)
    tally = Tally()
    tally.counts.update({"states": erased.states, "marks of their choices": erased.marks})
    if erased.states or erased.marks:
        tally.files = [FileChange(path=str(file), before=before[file], after=sha256(file)) for file in files]
    left = [SHARED.format(path=folder)]
    if not data:
        left.append(MARKS.format(path=folder))
    return tally.place("model", folder, left), _retrain(folder, data)


def _retrain(folder: Path, data: Sequence[Path]) -> str:
    """The command that trains the model again on what is left."""
    kept = describe_model(folder)
    privacy = kept.about.get("privacy")
    private = f" --epsilon {privacy['epsilon']:.3g} --delta {privacy['delta']:g}" if isinstance(privacy, dict) else ""
    reads = "base" if kept.method in TUNED else "features"
    return f"palate train {data[0] if data else 'BENCHMARK'} --method {kept.method} --{reads} {kept.features}{private}"


def _erase_vectors(texts: Sequence[str], *, write: bool) -> Place:
    root = vectors_folder()
    tally = Tally()
    hashes = {text_hash(text) for text in texts}
    files = sorted(file for name in ("keys", "vectors") for file in root.glob(f"*/{name}"))
    before = {file: sha256(file) for file in files}
    held = len(texts_with_vectors(root) & hashes)
    tally.counts["vectors"] = (forget_vectors(list(texts)) if write else held) if held else 0
    tally.files = [
        FileChange(path=str(file), before=before[file], after=after)
        for file in files
        if (after := sha256(file)) != before[file]
    ]
    return tally.place("vectors", root)


def _erase_answers(*, write: bool, keep: bool) -> Place:
    file = cache_folder() / "answers.sqlite"
    tally = Tally()
    if file.is_file() and not keep:
        before = sha256(file)
        cache = AnswerCache(file)
        tally.counts["answers of language models, all of them"] = cache.erase() if write else len(cache)
        cache.close()
        if write:
            tally.files = [FileChange(path=str(file), before=before, after=sha256(file))]
    return tally.place("answers", file, [ANSWERS] if keep and file.is_file() else [])


def _searched(place: Place, search: TraceSearch, *, dry_run: bool) -> Place:
    """Look once more, also into files that palate did not write: what is still there is said."""
    path = Path(place.path)
    if dry_run or place.kind in ("vectors", "answers") or not path.is_dir():
        return place
    found = [search.file(file) for file in searched_files(path)]
    left = [
        f"{one.path} still holds the id {one.ids} times and words of the user {one.texts} times: palate does not "
        "know this file, or somebody wrote to it meanwhile"
        for one in found
        if one.ids or one.texts
    ]
    return msgspec.structs.replace(place, left=[*place.left, *left])
