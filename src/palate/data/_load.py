"""From what a person writes to a benchmark: names, paths, data sets on the hub, and their options."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path

import msgspec

from palate.data import _lampqa, _tables
from palate.data._acl import read_acl_titles
from palate.data._cards import LISTINGS, Listing, card_of
from palate.data._coauthor import read_coauthor
from palate.data._convarg import Vote, read_convarg, read_votes
from palate.data._draft import BenchmarkDraft, Fault, draft_of, misleading, refuse
from palate.data._exchange import read_exchange
from palate.data._files import NOT_DATA, SUFFIXES, in_order, read_rows, suffix
from palate.data._folder import default_card, is_folder_format, read_folder
from palate.data._hub import HUB, download
from palate.data._lampqa import files_of_split, of_split, read_lampqa
from palate.data._pairs import pairs_from_completions
from palate.data._published import (
    Reader,
    read_align_x,
    read_arena,
    read_collective_alignment,
    read_community_alignment,
    read_lamp,
    read_multipref,
    read_persona_mem,
    read_personal_llm,
    read_pref_eval,
    read_prism,
    read_published,
    read_summaries,
    read_table_row,
)
from palate.data._squality import read_squality
from palate.data._stackexchange import read_stackexchange, read_stackexchange_votes
from palate.data._tables import is_table, read_table
from palate.records import Benchmark, PalateError, Registry, parse_spec, unknown_name
from palate.storage import fetched, is_url, url_in_path

DATA_VARIABLE = "PALATE_DATA"
Options = Mapping[str, str]
_VOTES = {"convarg": "votes.csv.gz", "convarg-crowdsample": "crowdsample.csv.gz"}


def load_benchmark(spec: str | Path, *, data_dir: str | Path | None = None, revision: str | None = None) -> Benchmark:
    """A benchmark by name or path, each with options written `,key=value`.

    `data_dir` (or the environment variable PALATE_DATA) is the folder of data sets that palate does not
    ship; `revision` pins a data set on the hub. What a loader took for granted is said as a Python warning.

    >>> len(load_benchmark("mini").comparisons)
    300
    """
    draft = read_draft(spec, data_dir=data_dir, revision=revision)
    benchmark = draft.benchmark()
    for fault in (*draft.taken, *draft.faults, *misleading(draft)):
        warnings.warn(str(fault), stacklevel=2)
    return benchmark


def load_named(name: str, *, data_dir: str | Path | None = None) -> Benchmark:
    """A benchmark that palate knows by name, whatever files of that name lie in the current folder."""
    loaded = LOADERS.make(name, data_dir=data_dir or _data_dir(), revision=None, extras=False)
    return loaded.benchmark() if isinstance(loaded, BenchmarkDraft) else loaded


def list_benchmarks(*, data_dir: str | Path | None = None) -> list[Listing]:
    """Every benchmark that has a name, and whether it can be loaded here."""
    folder = Path(data_dir) if data_dir else _data_dir()
    return [
        msgspec.structs.replace(
            listing,
            available=listing.origin == "built in" or (folder is not None and (folder / listing.folder).is_dir()),
        )
        for listing in LISTINGS
    ]


def read_draft(
    spec: str | Path, *, data_dir: str | Path | None = None, revision: str | None = None, extras: bool = False
) -> BenchmarkDraft:
    """What `load_benchmark` reads, with its faults instead of an error."""
    text = (isinstance(spec, Path) and url_in_path(spec)) or str(spec)
    if is_url(text):
        url, *own = text.split(",")
        with fetched(url) as copy:
            return _read_path(copy, parse_spec(",".join(["path", *own])).options, text, extras=extras)
    found = _existing_path(text)
    if found and not (found[0].suffix == ".py" and found[0].is_file()):
        path, options = found
        return _read_path(path, options, text, extras=extras)
    if text.startswith(HUB) and not isinstance(spec, Path):
        return _from_hub(text, revision, extras=extras)
    head = text.split(",")[0]
    if isinstance(spec, Path) or (
        not parse_spec(text).name.endswith(".py") and ("/" in text or os.sep in text or Path(head).suffix)
    ):
        raise PalateError(f"{head}: no such file or folder")
    loaded = LOADERS.make(text, data_dir=data_dir or _data_dir(), revision=revision, extras=extras)
    if isinstance(loaded, Benchmark):
        return draft_of(loaded, text)
    if not isinstance(loaded, BenchmarkDraft):
        raise PalateError(f"{text} gave a {type(loaded).__name__} where a palate.Benchmark is needed")
    return loaded


def _from_hub(text: str, revision: str | None, *, extras: bool) -> BenchmarkDraft:
    """`hub:owner/name,revision=COMMIT`: any data set of the hub in a form that could be read from a folder."""
    named = parse_spec(text)
    options = dict(named.options)
    pinned = options.pop("revision", None) or revision
    repository = str(named.argument)

    def wanted(paths: list[Path]) -> list[Path]:
        return [path for path in paths if suffix(path) in SUFFIXES]

    folder, commit = download(repository, revision=pinned, choose=wanted, local="a folder")
    if not wanted(list(folder.rglob("*"))):
        raise PalateError(f"{text}: the data set holds no data file; expected {', '.join(SUFFIXES)} files")
    draft = _read_path(folder, options, text, extras=extras)
    if not (folder / "card.json").is_file():
        name = repository.rpartition("/")[2]
        draft.card = msgspec.structs.replace(draft.card, name=name, title=repository, version=commit)
    return draft


def _data_dir() -> Path | None:
    value = os.environ.get(DATA_VARIABLE)
    return Path(value) if value else None


def _existing_path(text: str) -> tuple[Path, Options] | None:
    """The longest start of the text that is a path, and the options after it."""
    pieces = text.split(",")
    for end in range(len(pieces), 0, -1):
        candidate = ",".join(pieces[:end])
        try:
            exists = bool(candidate.strip()) and Path(candidate).exists()
        except (OSError, ValueError):
            exists = False
        if exists:
            return Path(candidate), parse_spec(",".join(["path", *pieces[end:]])).options
    return None


def _listing(name: str) -> Listing:
    return next(listing for listing in LISTINGS if listing.name == name)


def _folder(name: str, data_dir: str | Path | None) -> Path:
    listing = _listing(name)
    folder = None if data_dir is None else Path(data_dir) / listing.folder
    if folder is None or not folder.is_dir():
        looked = f"looked in {folder}" if folder else f"{DATA_VARIABLE} is not set"
        raise PalateError(
            f"{name}: the data is not here ({looked}). Get it from its source ({listing.source}), "
            f"put it in a folder named {listing.folder}, and set {DATA_VARIABLE} to the folder above that"
        )
    return folder


def load_votes(name: str, *, data_dir: str | Path | None = None) -> list[Vote]:
    """The votes behind `convarg` or `convarg-crowdsample`, with the ties that their comparisons leave out."""
    return read_votes(_folder(name, data_dir or _data_dir()), votes=_VOTES[name])


def _read_copy(name: str, data_dir: Path | None, read: Callable[[Path], BenchmarkDraft]) -> BenchmarkDraft:
    """What a reader makes of a copy in the data folder."""
    folder = _folder(name, data_dir)
    try:
        return read(folder)
    except (LookupError, ValueError, OverflowError) as problem:
        raise PalateError(f"{folder}: the copy is damaged ({problem!r}); copy it again from its source") from problem


def _mini(*, extras: bool) -> BenchmarkDraft:
    return read_folder(Path(__file__).with_name("mini"), "mini", extras=extras)


def _convarg(name: str, *, min: str = "0", data_dir: Path | None) -> BenchmarkDraft:
    least = _whole_number("min", min)
    return _read_copy(name, data_dir, lambda folder: read_convarg(folder, votes=_VOTES[name], name=name, least=least))


def _stackexchange(*, pairs: str = "false", by: str = "asker", data_dir: Path | None) -> BenchmarkDraft:
    wanted = _yes_or_no("pairs", pairs)
    if by not in ("asker", "votes"):
        raise PalateError(f"option by={by}: expected asker (what the asker accepted) or votes (what readers voted up)")
    read = read_stackexchange if by == "asker" else read_stackexchange_votes
    return _read_copy("stackexchange", data_dir, lambda folder: read(folder, pairs=wanted))


def _coauthor(*, since: str | None = None, data_dir: Path | None) -> BenchmarkDraft:
    day = _day("since", since)
    return _read_copy("coauthor", data_dir, lambda folder: read_coauthor(folder, since=day))


def _squality(*, pairs: str = "false", data_dir: Path | None) -> BenchmarkDraft:
    return _read_copy("squality", data_dir, lambda folder: _in_pairs(read_squality(folder), pairs))


def _acl_titles(*, pairs: str = "false", data_dir: Path | None) -> BenchmarkDraft:
    return _read_copy("acl-titles", data_dir, lambda folder: _in_pairs(read_acl_titles(folder), pairs))


def _hub(
    name: str, *, split: str = "test", domain: str | None = None, data_dir: Path | None, revision: str | None
) -> BenchmarkDraft:
    listing = _listing(name)
    local = None if data_dir is None else data_dir / listing.folder
    if local is not None and local.is_dir():
        folder, version = local, "local"
    else:
        repository = listing.source.split("/datasets/")[1].split()[0]
        place = str(local or f"${DATA_VARIABLE}/{listing.folder}")
        # only the split that is asked for: the training split alone is ten times the test
        folder, version = download(
            repository, revision=revision, choose=lambda paths: of_split(paths, split), local=place
        )
    description = "Each row is a user of its own; the rubric and the narrative are privileged."
    card = card_of(name, version, description, f"split {split}")
    return read_lampqa(files_of_split(folder, split), card, name, domain=domain)


class _Published(msgspec.Struct, frozen=True):
    """How a data set that others published is read."""

    reader: Reader
    about: str
    """Who the people are, and what is left out of what they said."""
    split: str = "train"
    """The split that is read where none is asked for."""
    files: str = ""
    """A pattern of the paths that are read, where a data set holds other files too; SPLIT stands for the split."""


_NAMES_NOBODY = "Names nobody: the label is meant for everybody, so nothing here is personal."
_PUBLISHED = {
    "community-alignment": _Published(
        read_community_alignment,
        "A person is an annotator. A talk is read up to its first turn without a choice. Whether a first prompt was "
        "the annotator's own is left out.",
        files="full_community_alignment",
    ),
    "collective-alignment": _Published(
        read_collective_alignment,
        "A person is an annotator, who ranks four responses for themself and for the world. The best is kept where "
        "there is one; the rest of the ranking, ratings of importance and demographics are left out.",
        files=r"(^|/)comparisons\.",
    ),
    "multipref": _Published(
        read_multipref,
        "A person is an evaluator, a crowd worker or an expert. The overall preference is kept; its strength, the "
        "preferences by aspect and the time spent are left out.",
    ),
    "summarize-from-feedback": _Published(
        read_summaries,
        "A person is a paid worker. The choice and the note are kept; the confidence and the policies are left out.",
        files="comparisons",
    ),
    "chatbot-arena": _Published(
        read_arena, "A person is a judge, known by address. The names of the models are left out."
    ),
    "arena-140k": _Published(
        read_arena, "A person is a session: somebody who comes back is somebody else. The models are left out."
    ),
    "prism-personalized": _Published(
        partial(read_table_row, user="user_id", category="split"),
        "A person of PRISM; the category is the split that its authors made. The survey is left out.",
    ),
    "chatbot-arena-personalized": _Published(
        partial(read_table_row, user="user_id", category="split"),
        "A person is a judge of Chatbot Arena; the category is the split that its authors made.",
    ),
    "personal-llm": _Published(
        read_personal_llm, "No people: each reward model stands for one. The best of its scores counts as its choice."
    ),
    "psoups": _Published(partial(read_table_row, user="uid"), "No people: users are made up, one for each wish."),
    "align-x": _Published(
        read_align_x,
        "Each row is a person, with posts and earlier choices from forums, and a description in words. Preference "
        "directions are left out.",
    ),
    "persona-mem": _Published(
        read_persona_mem,
        "No people: personas are made up. The category says whether the preference was changed; talks are left out.",
        split="benchmark",
        files=r"(^|/)text/SPLIT\.",
    ),
    "pref-eval": _Published(
        read_pref_eval,
        "No people: each stated preference is a user. Options are shuffled; explanations are left out.",
        files="mcq_options",
    ),
    "reward-bench": _Published(partial(read_table_row, category="subset"), _NAMES_NOBODY, files="filtered"),
    "reward-bench-2": _Published(partial(read_table_row, category="subset"), _NAMES_NOBODY, split="test"),
}
_PRISM = (
    "A person answered the survey and talked to several models. What they say of themselves, what they rated above "
    "50 of 100 as important to them, age and place are kept; scores of responses, other answers of the survey and "
    "feedback on the whole talk are left out."
)
_LAMP = "Each row is a person: the profile is what they wrote before. Fields of a profile entry are joined."
_TASKS = {"lamp": ("LaMP_4", "dev"), "longlamp": ("abstract_generation_user", "test")}
"""The task and split that are read where none are asked for."""


def _published(
    name: str, *, split: str | None = None, block: str | None = None, data_dir: Path | None, revision: str | None
) -> BenchmarkDraft:
    """A published data set, from the data folder where it lies there, else from the hub."""
    if block is not None and name != "collective-alignment":
        raise PalateError(f"{name}: takes no option 'block'; collective-alignment does")
    if block not in (None, "personal", "world", "both"):
        raise PalateError(f"option block={block}: expected personal, world or both")
    known = _PUBLISHED.get(name)  # PRISM is three files, which are read together
    wanted = split or (known.split if known else "train")
    pattern = known.files.replace("SPLIT", re.escape(wanted)) if known else ""
    files, version = _copy(name, wanted, pattern, data_dir, revision)
    card = card_of(name, version, known.about if known else _PRISM, *([f"split {split}"] if split else []))
    if known is None:
        return read_prism(files, card, name)
    blocks = ("personal", "world") if block == "both" else (block or "personal",)
    reader = partial(read_collective_alignment, blocks=blocks) if block else known.reader
    return read_published(files, card, name, reader)


def _lamp(
    name: str,
    *,
    task: str | None = None,
    split: str | None = None,
    data_dir: Path | None,
    revision: str | None,
) -> BenchmarkDraft:
    """LaMP or LongLaMP: one task, which is a folder."""
    usual, part = _TASKS[name]
    task, split = task or usual, split or part
    files, version = _copy(name, split, rf"(^|/){re.escape(task)}/", data_dir, revision, needed=f"task {task!r}")
    return read_lamp(files, card_of(name, version, _LAMP, f"task {task}, split {split}"), name)


def _copy(
    name: str, split: str, pattern: str, data_dir: Path | None, revision: str | None, needed: str | None = None
) -> tuple[list[Path], str]:
    """The files of a split whose path matches a pattern, and their version: from the data folder, else from the hub.

    Where no path matches, all files of the split are taken, unless they are `needed` as what this says.
    """

    def choose(paths: list[Path]) -> list[Path]:
        of = of_split(paths, split)
        kept = [path for path in of if re.search(pattern, path.as_posix())]
        return kept if needed else kept or of

    listing = _listing(name)
    local = None if data_dir is None else data_dir / listing.folder
    if (local is not None and local.is_dir()) or listing.origin != "hub":
        folder, version = _folder(name, data_dir), "local"
    else:
        repository = listing.source.split("/datasets/")[1].split()[0]
        place = str(local or f"${DATA_VARIABLE}/{listing.folder}")
        folder, version = download(repository, revision=revision, choose=choose, local=place)
    files = [folder / path for path in choose([path.relative_to(folder) for path in folder.rglob("*")])]
    if not files:
        what = f" and {needed} (give another as task=NAME)" if needed else ""
        raise PalateError(f"{folder}: no data file of split {split!r}{what}; expected {', '.join(SUFFIXES)} files")
    return files, version


def _read_path(path: Path, options: Options, source: str, *, extras: bool) -> BenchmarkDraft:
    if path.is_dir() and is_folder_format(path):
        _only(options, ("pairs",), source)
        return _in_pairs(read_folder(path, source, extras=extras), options.get("pairs", "false"))
    files = _data_files(path)
    card = default_card(path, source)
    fields = _first_fields(files, source)
    if "preferences" in fields:
        _only(options, (), source)
        return read_exchange(files, card, source, extras=extras)
    if {"question", "profile"} <= fields:
        _only(options, _lampqa.OPTIONS, source)
        if path.is_dir():
            files = files_of_split(path, options.get("split", "test"))
        return read_lampqa(files, card, source, domain=options.get("domain"))
    if {"preference", "question", "classification_task_options"} <= fields:
        _only(options, (), source)
        return read_published(files, card, source, read_pref_eval)
    if is_table(fields, options):
        _only(options, _tables.OPTIONS, source)
        return read_table(files, card, source, options, str(path))
    if {"responses", "preferred"} <= fields:
        raise PalateError(
            f"{source}: rows with a list of responses belong into a folder in palate's own format: name this file "
            "comparisons.jsonl (with id, user_id, question, responses, preferred), and write users.jsonl beside it "
            'with a line {"user_id": ...} for each user'
        )
    _only(options, _tables.OPTIONS, source)
    if not fields:
        raise PalateError(f"{source}: holds no rows")
    roles = [role for role in ("user", "prompt", "date", "category", "group") if role in options]
    absent = "".join(
        f"no column {options[role]!r} for the {role}; "
        for role in roles
        if options[role] not in fields and options[role] != _tables.NO_USER
    )
    raise PalateError(
        f"{source}: {absent}cannot tell what this is from the fields {', '.join(sorted(fields))}. Expected "
        "users with 'preferences', rows with 'question' and 'profile', or rows with 'chosen' and 'rejected'. For a "
        f"table with other names, say which they are: {path},user=COLUMN,prompt=COLUMN,chosen=COLUMN,rejected=COLUMN; "
        "or, in place of the last two, response_a=COLUMN,response_b=COLUMN with label=COLUMN or with "
        "score_a=COLUMN,score_b=COLUMN. Leave prompt= out where both responses are whole conversations"
    )


def _in_pairs(draft: BenchmarkDraft, pairs: str) -> BenchmarkDraft:
    """The completions as pairs, where `pairs=true` asks for them."""
    return draft_of(pairs_from_completions(draft.benchmark()), draft.source) if _yes_or_no("pairs", pairs) else draft


def _data_files(path: Path) -> list[Path]:
    if path.is_file():
        if suffix(path) not in SUFFIXES:
            raise PalateError(f"{path}: unknown kind of file; palate reads {', '.join(SUFFIXES)}")
        return [path]
    try:
        found = sorted((one for depth in ("*", "*/*") for one in path.glob(depth) if one.is_file()), key=in_order)
    except OSError as problem:
        raise PalateError(f"{path}: cannot be read ({problem.strerror or problem})") from None
    files = [one for one in found if suffix(one) in SUFFIXES and one.name not in NOT_DATA]
    if not files:
        raise PalateError(f"{path}: no data in this folder; expected users.jsonl and comparisons.jsonl, or data files")
    return files


def _first_fields(files: list[Path], source: str) -> set[str]:
    faults: list[Fault] = []
    for file in files:
        for row, _ in read_rows(file, faults):
            return set(row)
    refuse(faults, source)
    return set()


def _only(options: Options, known: tuple[str, ...], source: str) -> None:
    for option in options:
        if option not in known:
            if not known:
                raise PalateError(f"{source}: takes no options, and {option!r} was given")
            raise unknown_name("option", option, known, hint=f"(in {source})")


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise PalateError(f"option {name}={text}: expected a whole number") from None


def _day(name: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise PalateError(f"option {name}={text}: expected a day such as 2021-08-23") from None


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PalateError(f"option {name}={text}: expected true or false")
    return text.lower() == "true"


_TARGETS: dict[str, Callable[..., BenchmarkDraft] | str] = {
    "mini": _mini,
    "sim": "palate.simulate:simulate_by_options",
    "personalized-rewardbench": partial(_hub, "personalized-rewardbench"),
    "lamp-qa": partial(_hub, "lamp-qa"),
    "convarg": partial(_convarg, "convarg"),
    "convarg-crowdsample": partial(_convarg, "convarg-crowdsample"),
    "stackexchange": _stackexchange,
    "coauthor": _coauthor,
    "squality": _squality,
    "acl-titles": _acl_titles,
    **{name: partial(_published, name) for name in ("prism", *_PUBLISHED)},
    **{name: partial(_lamp, name) for name in _TASKS},
}
LOADERS: Registry[Callable[..., Benchmark | BenchmarkDraft]] = Registry(
    "benchmark",
    "palate.loaders",
    {listing.name: (listing.title, _TARGETS[listing.name]) for listing in LISTINGS},
    hint="The path of a file or folder works too, a data set of the hub as hub:OWNER/NAME, or a loader of your own: "
    "./mine.py:load",
)
"""Each takes its options, and what it names of `data_dir`, `revision` and `extras`; a plug-in gives a Benchmark."""
