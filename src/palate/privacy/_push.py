"""Pushing a benchmark or a run to a hub: what may go, who will see it, and what is noted of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from palate.data import (
    CARD,
    HubRefusalError,
    Repository,
    direct_identifiers,
    is_nobody,
    is_pseudonym,
    load_benchmark,
    look_up,
    upload,
    write_benchmark,
)
from palate.privacy._push_card import benchmark_card, known_of_people, run_card
from palate.privacy._pushed import REFUSED, Pushed, What, note_push
from palate.privacy._rewrite_lines import read_rows
from palate.privacy._run_folder import named_in
from palate.records import Benchmark, PalateError, without_folders
from palate.report import count
from palate.runs import Item, Run, find_run, open_run, report_files, settings_for_others

FILES = ("users.jsonl", "comparisons.jsonl", "completions.jsonl", "card.json")


class Push(NamedTuple):
    """What would be sent, and to whom it would be visible. Nothing is sent before `push`."""

    what: What
    name: str
    source: str
    content_hash: str
    repository: Repository
    public: bool
    files: dict[str, bytes]
    visible: str
    """In a sentence or two: who will see what."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a push."""

    repository: str
    address: str
    public: bool
    commit: str | None
    """Of the last push that changed anything."""
    changed: bool
    """False where all was there already, and nothing was sent."""
    files: list[str]
    visible: str


def plan_push(
    what: str,
    repository: str,
    *,
    public: bool = False,
    with_ids: bool = False,
    without_users: bool = False,
    languages: Sequence[str] = (),
    force: bool = False,
    data_dir: Path | None = None,
) -> Push:
    """Read a benchmark or a run, and refuse what would name people who are not meant to be named.

    A run is a folder with `settings.json`. `with_ids` lets ids pass that are no pseudonyms; `without_users` sends the
    reports of a run alone, with nothing in them about a single user.
    """
    folder = find_run(what)
    if (folder / "settings.json").is_file():
        plan = _run(folder, with_ids=with_ids, without_users=without_users, languages=languages)
    elif without_users:
        raise PalateError("--without-users is about the reports of a run; a benchmark is nothing but its users")
    else:
        plan = _benchmark(what, with_ids=with_ids, languages=languages, data_dir=data_dir)
    found = look_up(repository)
    _refuse_other_content(found, plan, public=public, force=force)
    card = plan.files[CARD].replace(_HERE, repository.encode())
    visible = f"{_who(found, public)} {plan.visible}"
    return plan._replace(repository=found, public=public, files={**plan.files, CARD: card}, visible=visible)


def push(plan: Push) -> Done:
    """Send it in one commit; noted before and after, so that `palate forget` can tell of it."""
    source = Path(plan.source)
    pushed = Pushed(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        what=plan.what,
        name=plan.name,
        source=str(source.resolve()) if source.exists() else plan.source,
        content_hash=plan.content_hash,
        address=plan.repository.address,
        public=plan.public,
        commit=None,
    )
    note_push(pushed)
    before = plan.repository.sent.get("files")
    gone = [*FILES, *(str(name) for name in (before if isinstance(before, list) else ()))]
    try:
        commit = upload(plan.repository, plan.files, public=plan.public, gone=gone)
    except HubRefusalError:
        note_push(msgspec.structs.replace(pushed, commit=REFUSED))
        raise
    note_push(msgspec.structs.replace(pushed, commit=commit or plan.repository.commit))
    return Done(
        repository=plan.repository.name,
        address=plan.repository.address,
        public=plan.public,
        commit=commit or plan.repository.commit,
        changed=commit is not None,
        files=sorted(plan.files),
        visible=plan.visible,
    )


_HERE = b"OWNER/NAME"
"""Stands in a card for the repository, which is looked up after everything that could refuse."""
_NOWHERE = Repository("", "", public=False, commit=None, hashes={}, sent={})


def _benchmark(what: str, *, with_ids: bool, languages: Sequence[str], data_dir: Path | None) -> Push:
    benchmark = load_benchmark(what, data_dir=data_dir)
    card = msgspec.structs.replace(benchmark.card, source=without_folders(benchmark.card.source))
    benchmark = msgspec.structs.replace(benchmark, card=card)
    if not with_ids:
        _refuse_names(
            benchmark.users,
            f"{card.name}",
            f"Write it under pseudonyms first: palate data convert {what} FOLDER --pseudonymise --scrub",
        )
    with TemporaryDirectory(prefix="palate-push-") as place:
        write_benchmark(benchmark, Path(place))
        files = {file.name: file.read_bytes() for file in sorted(Path(place).iterdir())}
    files[CARD] = benchmark_card(benchmark, sorted(files), languages, _HERE.decode())
    return Push(
        what="benchmark",
        name=card.name,
        source=what,
        content_hash=benchmark.content_hash,
        repository=_NOWHERE,
        public=False,
        files=files,
        visible=_visible_benchmark(benchmark),
    )


def _run(folder: Path, *, with_ids: bool, without_users: bool, languages: Sequence[str]) -> Push:
    run = open_run(folder)
    experiment, card = run.experiment, run.settings.benchmark
    if not experiment.has_report:
        raise PalateError(f"{folder} holds samples that runs share: push a run that used them")
    if experiment.parts(run) and not without_users:
        raise PalateError(
            f"{folder} is made of other runs. Push its reports alone with --without-users, and each of those by itself"
        )
    if not (with_ids or without_users):
        _refuse_names(
            _people(run),
            f"{folder}",
            "Push its reports alone with --without-users, or run it on a benchmark under pseudonyms (palate data "
            "convert --pseudonymise)",
        )
    summary = msgspec.structs.replace(experiment.summarise(run), run=folder.resolve().name)
    _, files = report_files(run, summary, users=not without_users)
    lines = {}
    if not without_users:
        files["settings.json"] = _settings_to_send((folder / "settings.json").read_bytes())
        for ledger in run.ledgers:
            if (folder / ledger.name).is_file():
                files[ledger.name] = _whole_lines((folder / ledger.name).read_bytes())
                lines[ledger.name] = files[ledger.name].count(b"\n")
    files[CARD] = run_card(run, summary, files, languages, _HERE.decode(), users=not without_users)
    return Push(
        what="run",
        name=folder.resolve().name,
        source=str(folder),
        content_hash=run.settings.content_hash,
        repository=_NOWHERE,
        public=False,
        files=files,
        visible=_visible_run(summary.users, lines, card.licence),
    )


def _refuse_names(users: Iterable[str], of: str, advice: str) -> None:
    """The rule is about ids alone: what people wrote may name them all the same, and is said in the sentence."""
    if named := sum(not (is_pseudonym(user) or is_nobody([user])) for user in users):
        raise PalateError(
            f"{of}: {count(named, 'id')} of users are not pseudonyms. {advice}. If these ids name nobody, or everybody "
            "agreed to be named, say --with-ids. Nothing was sent."
        )


def _people(run: Run[Any]) -> set[str]:
    """Everybody whom a line of the run names."""
    files = [run.folder / ledger.name for ledger in run.ledgers if ledger.about != "nobody"]
    return {str(user) for file in files for row in read_rows(file) for user in named_in(row) if user is not None}


def _settings_to_send(content: bytes) -> bytes:
    """`settings.json` without folders of this machine."""
    read = msgspec.json.decode(content)
    new = settings_for_others(read["settings"])
    if new == read["settings"]:
        return content
    return msgspec.json.format(msgspec.json.encode(read | {"settings": new}), indent=2) + b"\n"


def _whole_lines(content: bytes) -> bytes:
    """Without a last line that a crash tore, or that is being written."""
    return content[: content.rfind(b"\n") + 1]


def _refuse_other_content(found: Repository, plan: Push, *, public: bool, force: bool) -> None:
    """A name that is taken, by somebody's data or with another visibility, is not written to by mistake."""
    if found.commit is None:
        return
    if found.public != public:
        is_, asked = ("public", "--public") if found.public else ("private", "a push without --public")
        raise PalateError(
            f"{found.address} is {is_}, and only {asked} writes there. Change that in its settings on the hub if it "
            "should be otherwise. Nothing was sent."
        )
    others = sorted(path for path in found.hashes if path not in (".gitattributes", CARD))
    ours = (found.sent.get("kind"), found.sent.get("name")) == (plan.what, plan.name)
    if force or ours or not (others or found.sent):
        return
    holds = f"{found.sent['kind']} {found.sent.get('name')}" if "kind" in found.sent else f"files such as {others[0]}"
    raise PalateError(
        f"{found.address} holds something else ({holds}). Name another data set, or write beside it with --force. "
        "Nothing was sent."
    )


def _who(found: Repository, public: bool) -> str:
    if public:
        return f"Anybody will see at {found.address}:"
    owner = found.name.partition("/")[0]
    return f"Only {owner} (all members, where that is an organisation) will see at {found.address}:"


def _visible_benchmark(benchmark: Benchmark) -> str:
    items: list[Item] = [*benchmark.comparisons, *benchmark.completions]
    pseudonyms = all(map(is_pseudonym, benchmark.users))
    privileged = any(item.privileged.narrative or item.privileged.aspects for item in items)
    parts = [
        count(len(benchmark.users), "user") + (" under pseudonyms" if pseudonyms else " under their ids"),
        *known_of_people(benchmark),
        count(len(benchmark.comparisons), "comparison"),
        count(len(benchmark.completions), "completion"),
        *(["private narratives or rubrics"] if privileged else []),
    ]
    found = ", ".join(f"{number} {kind}" for kind, number in direct_identifiers(benchmark).items())
    marks = f" Texts hold what looks like direct identifiers: {found}; palate data convert --scrub replaces these."
    return f"{_listed(parts)}, under the licence {benchmark.card.licence}.{marks if found else ''}"


def _visible_run(users: int, lines: dict[str, int], licence: str) -> str:
    if not lines:
        return f"the reports over {count(users, 'user')}, with nothing about a single user."
    listed = _listed([f"{name} ({count(number, 'line')})" for name, number in lines.items()])
    return (
        f"{count(users, 'user')} with what models saw of them, their items and all scores: {listed}, and the reports; "
        f"the benchmark's licence is {licence}."
    )


def _listed(parts: Sequence[str]) -> str:
    kept = [part for part in parts if not part.startswith("0 ")]
    return " and ".join(filter(None, (", ".join(kept[:-1]), kept[-1])))
