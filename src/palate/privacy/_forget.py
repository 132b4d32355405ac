"""Forgetting users: in benchmark folders, runs, trained models and caches, with a receipt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from palate.data import Pseudonyms, load_benchmark
from palate.engine import AnswerCache, cache_folder, forget_vectors, text_hash, texts_with_vectors, vectors_folder
from palate.personal import TUNED, count_points, describe_model, erase_users
from palate.privacy._benchmark_folder import check_folder, erase_from_folder
from palate.privacy._journal import Journal, erasing, keep, read_journals, sync
from palate.privacy._person import Person
from palate.privacy._places import Place, Tally, linked_files
from palate.privacy._pushed import pushes_of, read_pushes
from palate.privacy._receipt import Receipt, write_receipt
from palate.privacy._rewrite_lines import FileChange, each_row, refuse_read_only, remove_drafts, sha256
from palate.privacy._run_folder import (
    REPORTS,
    erase_from_run,
    owners,
    reports_of,
    shared_samples,
    shown_in_run,
)
from palate.privacy._traces import TraceSearch, packed_files, searched_files, traces_of
from palate.records import PalateError, unfinished_erasures
from palate.runs import Progress, hold_run, open_run, shards_beside
from palate.storage import (
    address_of,
    held_copies,
    is_url,
    kept_copies,
    push_all,
    remove_abandoned,
    remove_drafts_here,
    url_of,
)

SHARED = (
    "the shared part of {path} was learned from this user's choices too, and a trace of them stays in its numbers "
    "until it is trained again"
)
POINTS = (
    "{path} keeps {count:,} inducing points, which are features of training texts, perhaps of this user's, until it is "
    "trained again"
)
MARKS = "marks of this user's choices may be left in {path}: without --data it is not known which they are"
AROUND = "the run {run}, which trained {path}, was not searched: it keeps items and ratings; name it with --run"
BESIDE = "the run {run} holds items of this user, too, and was not searched: name it with --run"
SOURCE = (
    "{source}, which was measured in {run}, was not changed: remove the user's rows there, or the next command that "
    "reads it brings them back"
)
ANSWERS = (
    "answers of language models are kept under hashes of their requests, so those about this user cannot be told "
    "from others; they were kept because --keep-answers was given"
)
DISK = (
    "copies elsewhere (backups, snapshots, version control, unused blocks of a disk, memory of programs that run, such "
    "as `palate serve`: start them again) are out of reach of palate"
)


VERSIONS = {
    True: "{url}: the bucket keeps old versions of objects, and those still hold the user. Delete them with the "
    "store's own tools, or let a lifecycle rule do it",
    None: "{url}: palate cannot tell whether this store keeps old versions of objects; those would still hold the user",
}
KEPT_COPY = (
    "the working copy {path} was left by a process that was stopped. {url} itself was not searched, so name it, too: "
    "{option} {url}"
)

PACKED = "{path} is packed, and palate cannot search it: look whether it holds the user"
TABLES = frozenset([".csv", ".tsv", ".json", ".jsonl", ".parquet"])
PENDING = "The erasure is written down, and the next palate command finishes it."
GONE = "{path} was not there any more when an interrupted erasure was finished"


def forget(
    users: str | Sequence[str],
    names: Pseudonyms,
    *,
    data: Sequence[Path] = (),
    runs: Sequence[Path] = (),
    models: Sequence[Path] = (),
    keep_answers: bool = False,
    dry_run: bool = False,
    receipt: Path | None = None,
    progress: Progress | None = None,
) -> Receipt:
    """Erase one user, or several in one go, from these places and from the caches; write the receipt to a file where
    one is named.

    Nothing is touched before every place has been read and a journal says what goes. An erasure that is interrupted
    is finished from its journal, by the next call or command: the same call again gives the receipt of both.
    """
    users = [users] if isinstance(users, str) else list(dict.fromkeys(users))
    data, runs, models = ([folder.resolve() for folder in folders] for folders in (data, runs, models))
    if dry_run:
        planned = _plan(users, names, data, runs, models, keep_answers, progress)
        return _addressed(planned.receipt, planned.held)
    for done in finish_erasures(names, progress):
        asked_for = {address_of(folder) for folder in (*data, *runs, *models)}
        if done.users == [names.user(user) for user in users] and asked_for <= {place.path for place in done.places}:
            if receipt is not None:
                write_receipt(done, receipt)
            return done
    remove_abandoned()
    remove_drafts_here()
    planned = _plan(users, names, data, runs, models, keep_answers, progress)
    where = str(receipt.resolve()) if receipt is not None else None
    journal = msgspec.structs.replace(planned, receipt_file=where)
    with erasing() as journals:
        file = keep(journal, journals)
        try:
            return _finish(file, journal, names, progress)
        except PalateError as error:
            raise PalateError(f"{error} {PENDING}") from error
        except OSError as error:
            what = error.filename2 or error.filename
            raise PalateError(f"{what} cannot be written: {error.strerror or error}. {PENDING}") from error


def finish_erasures(names: Pseudonyms, progress: Progress | None = None) -> list[Receipt]:
    """Finish what was interrupted."""
    if not unfinished_erasures():
        return []
    with erasing():
        return [_finish(file, journal, names, progress) for file, journal in read_journals(names)]


def _plan(
    users: Sequence[str],
    names: Pseudonyms,
    data: Sequence[Path],
    runs: Sequence[Path],
    models: Sequence[Path],
    keep_answers: bool,
    progress: Progress | None,
) -> Journal:
    """What would be erased, worked out without touching anything."""
    report = progress or (lambda what, done, total: None)
    kept = kept_copies()
    runs = [*runs, *(copy for copy in kept if (copy / "settings.json").is_file())]
    data = [*data, *(copy for copy in kept if (copy / "users.jsonl").is_file())]
    runs = list(dict.fromkeys([*runs, *(shard for folder in runs for shard in shards_beside(folder))]))
    opened = [open_run(folder, check=False) for folder in runs]
    tables = [run for run in opened if run.experiment.parts(run)]
    named = [run for run in opened if run.experiment.kind == "samples"]
    parts = [part for run in tables for part in run.experiment.parts(run)]
    runs = list(dict.fromkeys([*(run.folder for run in opened if run not in (*tables, *named)), *parts]))
    holding = [*runs, *(table.folder for table in tables)]
    within = (file.parent for run in holding for file in sorted(run.glob("models/**/model.json")))
    models = list(dict.fromkeys([*models, *within]))
    beside = (folder for run in runs for folder in shared_samples(run))
    samples = list(dict.fromkeys([*(run.folder for run in named), *beside]))
    steps = 3 + len(data) + len(runs) + len(samples) + len(models)
    report("reading what is known of the user" if len(users) == 1 else "reading what is known of the users", 0, steps)
    person = _gather(users, data, runs, models, (*samples, *(run.folder for run in tables)))
    traces = traces_of(person, names)
    places: list[Place] = []
    profile_texts: list[str] = []
    for folder in (*samples, *runs):
        report(f"reading {folder}", len(places) + 1, steps)
        checked = folder in runs  # when it was gathered from
        place, texts = erase_from_run(open_run(folder, check=not checked), person, write=False)
        places.append(place)
        profile_texts += texts
    for table in tables:  # its reports tell of its parts, too
        place, _ = erase_from_run(table, person, write=False)
        own = [file for file in place.files if Path(file.path).name not in REPORTS]
        reports = [FileChange(path=str(file), before=hash, after=hash) for file, hash in reports_of(table).items()]
        places.append(msgspec.structs.replace(place, files=[*own, *reports]))
    places += [_with_run(_erase_from_model(folder, person, data, write=False), holding) for folder in models]
    # A profile is read with and without the words that introduce it, as in `This user values: calm`.
    bare = [text.partition(mark)[2] for text in profile_texts for mark in (":\n", ": ")]
    gone = sorted({*person.texts, *profile_texts, *filter(None, bare)})
    places.append(_erase_vectors(gone, write=False))
    places.append(_erase_answers(write=False, keep=keep_answers))
    places += [erase_from_folder(folder, person, write=False) for folder in data]
    places = _with_neighbours(places, (*holding, *samples), person, kept)
    places = [_with_pushes(_with_links(_with_store(place, kept))) for place in places]
    receipt = Receipt(
        users=[names.user(user) for user in users],
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dry_run=True,
        places=places,
        not_erased=[*dict.fromkeys(reason for place in places for reason in place.left), DISK],
        retrain=list(dict.fromkeys(_retrain(folder, data) for folder in models)),
        words=traces,
        vectors=sorted(names.digest("vector", text_hash(text).hex()) for text in person.texts),
    )
    return Journal(
        users=list(users),
        wrote=sorted(person.wrote),
        met=sorted(person.met),
        choices=sorted(person.choices),
        items=sorted(person.items),
        texts=gone,
        keep_answers=keep_answers,
        receipt=receipt,
        receipt_file=None,
        held=[str(folder) for folder in held_copies()],
    )


def _finish(file: Path, journal: Journal, names: Pseudonyms, progress: Progress | None) -> Receipt:
    """Do what the journal says, however much of it was done before. Each step may be done twice.

    Benchmark folders come last, so that a user whose journal is lost can still be found by their records.
    """
    report = progress or (lambda what, done, total: None)
    planned = journal.receipt.places
    for held in journal.held:
        hold_run(Path(held))
    places = []
    for place in planned:  # tables are built from runs, and no report may tell meanwhile of what is gone
        for stale in _reports(place):
            stale.unlink(missing_ok=True)
    for number, place in enumerate(planned):
        report(f"erasing from {place.path}", number, len(planned) + 1)
        places.append(_carry_out(place, journal))
    report("searching again", len(planned), len(planned) + 1)
    search = TraceSearch(journal.users, journal.receipt.words, names)
    places = [_searched(place, search) for place in places]
    receipt = msgspec.structs.replace(
        journal.receipt,
        dry_run=False,
        places=places,
        not_erased=[*dict.fromkeys(reason for place in places for reason in place.left), DISK],
    )
    if journal.held:
        report("writing to the bucket", len(planned), len(planned) + 1)
    push_all()
    receipt = _addressed(receipt, journal.held)
    if journal.receipt_file is not None:
        write_receipt(receipt, Path(journal.receipt_file))
    file.unlink()
    sync(file.parent)
    return receipt


def _with_run(model: Place, named: Sequence[Path]) -> Place:
    """Whoever names a model that lies in a run may take the run for erased, too."""
    path = Path(model.path)
    run = next((folder for folder in path.resolve().parents if (folder / "settings.json").is_file()), None)
    if run is None or run in [folder.resolve() for folder in named]:
        return model
    return msgspec.structs.replace(model, left=[*model.left, AROUND.format(run=run, path=path)])


def _with_neighbours(
    places: Sequence[Place], named: Sequence[Path], person: Person, kept: Sequence[Path]
) -> list[Place]:
    """With what lies beside the runs that were named and holds the user, and the tables that these runs have read."""
    held = {*kept, *held_copies()}
    seen = {folder.resolve() for folder in named} | {Path(place.path).resolve() for place in places}
    told: set[str] = set()
    found = []
    for place in places:
        path = Path(place.path)
        reasons = []
        if place.kind == "run" and path not in held and not is_url(place.path):
            beside = sorted(file.parent for file in path.parent.glob("*/settings.json"))
            for run in beside:
                if run.resolve() not in seen and _has_items_of(run, person):
                    seen.add(run.resolve())
                    reasons.append(BESIDE.format(run=run))
            source = open_run(path, check=False).settings.benchmark.source
            if Path(source.removesuffix(".gz")).suffix in TABLES and source not in told:
                told.add(source)
                reasons.append(SOURCE.format(source=source, run=path))
        found.append(msgspec.structs.replace(place, left=[*place.left, *reasons]))
    return found


def _has_items_of(folder: Path, person: Person) -> bool:
    with suppress(PalateError):
        return any(owner in person.ids for _, owner in owners(open_run(folder, check=False)))
    with suppress(PalateError):  # a run of another version, which may hold the person all the same
        return any(row.get("user_id") in person.ids for row in each_row(folder / "items.jsonl"))
    return False


def _with_links(place: Place) -> Place:
    path = Path(place.path)
    if not path.is_dir() or place.kind == "vectors":
        return place
    packed = [PACKED.format(path=file) for file in packed_files(path)]
    return msgspec.structs.replace(place, left=[*place.left, *linked_files(path), *packed])


def _with_store(place: Place, kept: Sequence[Path]) -> Place:
    """What a store may keep of the user where palate does not reach."""
    path = Path(place.path)
    if path in kept:
        option = "--data" if place.kind == "benchmark" else "--run"
        reason = KEPT_COPY.format(path=path, url=url_of(path), option=option)
    elif path in (held := held_copies()) and (keeps := held[path].keeps_versions()) is not False:
        reason = VERSIONS[keeps].format(url=url_of(path))
    else:
        return place
    return msgspec.structs.replace(place, left=[*place.left, reason])


def _addressed(receipt: Receipt, held: Sequence[str]) -> Receipt:
    """The receipt as it can be read anywhere: what was erased in a bucket is called by its address."""
    text = msgspec.json.encode(receipt).decode()
    for folder in held:
        text = re.sub(rf"{re.escape(folder)}(?![\w.-])", lambda found: address_of(Path(found[0])), text)
    return msgspec.json.decode(text, type=Receipt)


def _with_pushes(place: Place) -> Place:
    """With what was pushed to a hub from there, or of the benchmark that a run is about."""
    path = Path(place.path)
    if place.kind not in ("benchmark", "run") or not read_pushes():
        return place
    run = open_run(path, check=False).settings if place.kind == "run" else None
    pushed = pushes_of(path, [run.content_hash if run else load_benchmark(path).content_hash])
    return msgspec.structs.replace(place, left=[*place.left, *(one.out_of_reach for one in pushed)])


def _reports(place: Place) -> dict[Path, str | None]:
    if place.kind != "run":
        return {}
    return {Path(file.path): file.before for file in place.files if Path(file.path).name in REPORTS}


def _carry_out(place: Place, journal: Journal) -> Place:
    """Erase from one place. What it held before was counted then; how its files are now is looked up."""
    path, person = Path(place.path), journal.person
    if place.kind not in ("vectors", "answers") and not path.exists():
        return msgspec.structs.replace(place, left=[*place.left, GONE.format(path=path)])
    if place.kind in ("run", "samples"):
        done, _ = erase_from_run(open_run(path, check=False), person, write=True, reports=_reports(place))
    elif place.kind == "model":
        done = _erase_from_model(path, person, (), write=True)
    elif place.kind == "vectors":
        done = _erase_vectors(journal.texts, write=True)
    elif place.kind == "answers":
        done = _erase_answers(write=True, keep=journal.keep_answers)
    else:
        done = erase_from_folder(path, person, write=True)
    erased = max(place.erased, done.erased, key=lambda counts: sum(counts.values()))  # a vector may be kept twice
    before = {change.path: change.before for change in (*done.files, *place.files)}
    changes = [FileChange(path=name, before=hash, after=sha256(Path(name))) for name, hash in before.items()]
    changed = [change for change in changes if change.before != change.after or Path(change.path) in _reports(place)]
    found = done.left if place.kind == "run" else []  # whether its reports could be made again was not known before
    left = list(dict.fromkeys([*place.left, *found]))
    return msgspec.structs.replace(place, erased=erased, files=changed, left=left)


def _gather(
    users: Sequence[str], data: Sequence[Path], runs: Sequence[Path], models: Sequence[Path], elsewhere: Sequence[Path]
) -> Person:
    """Read everything first; refuse what is not there, not ours, or not to be written."""
    if not (data or runs or models or elsewhere):
        raise PalateError(
            "name the places to erase from: --data FOLDER, --run RUN, --model MODEL, each as often as needed"
        )
    if not users:
        raise PalateError("name at least one user to erase")
    person = Person(frozenset(users))
    for folder in data:
        check_folder(folder)
        person.learn(load_benchmark(folder))
    known: set[object] = set(person.known)
    for folder in (*runs, *elsewhere):
        for file in sorted(folder.glob("*.jsonl")):
            for _ in each_row(file):
                pass
    for folder in runs:
        run = open_run(folder)
        for user in users:
            if reason := run.experiment.refuse_to_forget(run, user):
                raise PalateError(f"{reason} Nothing was erased anywhere.")
        owned = [(item, owner) for item, owner in owners(run) if owner in person.ids]
        person.items |= {item for item, _ in owned}
        known |= {owner for _, owner in owned} | shown_in_run(run, users)
    for folder in models:
        known |= person.ids & set(describe_model(folder).users)
    for folder in (*data, *runs, *models, *elsewhere):
        refuse_read_only(folder)
    if unknown := [user for user in users if user not in known]:
        # No name is suggested: it would tell whoever mistypes an id who else is here.
        which = "no such user" if len(users) == 1 else f"no user {unknown[0]!r}"
        raise PalateError(f"{which} in any of these places; nothing was erased. An earlier call may have done it.")
    return person


def _erase_from_model(folder: Path, person: Person, data: Sequence[Path], *, write: bool) -> Place:
    files = [folder / "model.safetensors", folder / "model.json"]
    before = {file: sha256(file) for file in files}
    if write:
        remove_drafts(folder, [file.name for file in files])
    tally = Tally()
    erased = erase_users(folder, person.ids, person.choices, write=write)
    tally.counts.update({"states": erased.states, "marks of their choices": erased.marks})
    if erased.states or erased.marks:
        tally.files = [FileChange(path=str(file), before=before[file], after=sha256(file)) for file in files]
    left = [SHARED.format(path=folder)]
    if points := count_points(folder):
        left.append(POINTS.format(path=folder, count=points))
    if not data:
        left.append(MARKS.format(path=folder))
    return tally.place("model", folder, left)


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


def _searched(place: Place, search: TraceSearch) -> Place:
    """Look once more, also into files that palate did not write: what is still there is said."""
    path = Path(place.path)
    if place.kind in ("vectors", "answers") or not path.is_dir():
        return place
    found = [search.file(file) for file in searched_files(path)]
    left = [
        f"{one.path} still holds the id {one.ids} times and words of the user {one.texts} times: somebody else's "
        "lines quote them, palate does not know this file, or somebody wrote to it meanwhile"
        for one in found
        if one.ids or one.texts
    ]
    return msgspec.structs.replace(place, left=[*place.left, *left])
