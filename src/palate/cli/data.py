"""`palate data`: list, show, check, convert and push benchmarks, and export what is held on one person."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from palate.cli._lines import in_lines
from palate.cli._options import OUTPUT, DataOptions, Flag, Folder, Folders, Many, Written
from palate.records import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from palate.data import BenchmarkSummary, Fault
    from palate.records import Benchmark, Comparison, Completion, User

DATA = DataOptions()
HAS_ERRORS = 2
SHOWN_CATEGORIES = 12
MOST_OF_A_FIELD, FIRST_OF_A_FIELD = 20, 5
"""Of a field with more faults than the first number, only as many as the second are printed one by one."""


def list_benchmarks(*, options: DataOptions = DATA) -> None:
    """List the benchmarks that have a name, and whether they can be loaded here."""
    from rich.table import Table

    from palate import data as benchmarks
    from palate.cli._show import print_json
    from palate.report import make_console

    listings = benchmarks.list_benchmarks(data_dir=options.data)
    if options.json:
        return print_json(listings, indent=2)
    table = Table("name", box=None, header_style="bold", pad_edge=False)
    table.columns[0].no_wrap = True
    for column in ("people", "items"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("licence")
    for one in listings:
        here = "yes" if one.available else "from hub" if one.origin == "hub" else "no"
        counts = (f"{one.people:,}" if one.people else "–", f"{one.items:,}" if one.items else "–")
        table.add_row(one.name, *counts, here, one.licence)
    console = make_console()
    console.print(table)
    console.print(
        "\nfrom hub: downloaded when it is first used. no: put it in the data folder (--data, PALATE_DATA).\n"
        "A path works too: a benchmark folder, an exchange file, a preference table (user=COLUMN)."
    )
    return None


def show(
    spec: str,
    /,
    *,
    item: str | None = None,
    user: str | None = None,
    options: DataOptions = DATA,
) -> None:
    """Show a benchmark: its card, its numbers and one example.

    Parameters
    ----------
    spec
        Name or path of a benchmark, with options: `convarg,min=10`.
    item
        Show the comparison or completion with this id.
    user
        Show the user with this id.
    """
    from palate.cli._show import print_json
    from palate.data import load_benchmark, summarise

    benchmark = load_benchmark(spec, data_dir=options.data)
    chosen_item = _find_item(benchmark, item) if item else None
    chosen_user = _find_user(benchmark, user) if user else None
    if options.json and (chosen_item or chosen_user):
        return print_json(chosen_item or chosen_user, indent=2)
    if options.json:
        return print_json({"card": benchmark.card, "summary": summarise(benchmark)}, indent=2)
    console = _console()
    if chosen_user:
        _show_user(console, chosen_user)
    if chosen_item:
        _show_item(console, chosen_item)
    if not (chosen_item or chosen_user):
        _show_card(console, benchmark, summarise(benchmark))
        console.print("\n[bold]One example[/]")
        _show_item(console, (benchmark.comparisons or benchmark.completions)[0])
    return None


def check(spec: str, /, *, options: DataOptions = DATA) -> int:
    """Say what is wrong with a benchmark, and what about it would mislead.

    Exits with code 2 when there are errors, and 0 when there are warnings only.

    Parameters
    ----------
    spec
        Name or path of a benchmark.
    """
    from rich.markup import escape

    from palate.cli._show import print_json
    from palate.data import inspect_benchmark
    from palate.report import count
    from palate.storage import with_addresses

    inspection = inspect_benchmark(spec, data_dir=options.data)
    faults = inspection.faults
    errors = sum(fault.severity == "error" for fault in faults)
    if options.json:
        print_json(faults, indent=2)
        return HAS_ERRORS if errors else 0
    console = _console()
    if inspection.columns:
        mapping = ", ".join(f"{option} = {column}" for option, column in inspection.columns.items())
        console.print(in_lines(f"Read as: {mapping}", sys.stdout), markup=False, highlight=False, soft_wrap=True)
    if inspection.unused:
        unused = ", ".join(inspection.unused)
        console.print(in_lines(f"Not used: {unused}", sys.stdout), markup=False, highlight=False, soft_wrap=True)
    if inspection.spec:
        full = in_lines(f"The same in full: {shlex.quote(inspection.spec)}", sys.stdout)
        console.print(full, markup=False, highlight=False, soft_wrap=True)
    for severity, text in _fault_lines(faults):
        colour = "red" if severity == "error" else "yellow"
        said = in_lines(f"{severity} {with_addresses(text)}", sys.stdout).removeprefix(severity)
        console.print(f"[{colour}]{severity}[/]{escape(said)}", soft_wrap=True, highlight=False)
    console.print(f"{count(errors, 'error')}, {count(len(faults) - errors, 'warning')}")
    if errors and inspection.way_out:
        console.print(in_lines(inspection.way_out, sys.stdout), markup=False, highlight=False, soft_wrap=True)
    return HAS_ERRORS if errors else 0


def _fault_lines(faults: Sequence[Fault]) -> Iterator[tuple[str, str]]:
    """Each fault in order; of one field that is wrong all over, the first few and how many more there are."""
    totals = Counter((fault.severity, fault.field) for fault in faults)
    printed: Counter[tuple[str, str | None]] = Counter()
    for fault in faults:
        kind = fault.severity, fault.field
        printed[kind] += 1
        many = fault.field is not None and totals[kind] > MOST_OF_A_FIELD
        if not many or printed[kind] <= FIRST_OF_A_FIELD:
            yield fault.severity, str(fault)
        elif printed[kind] == FIRST_OF_A_FIELD + 1:
            more = totals[kind] - FIRST_OF_A_FIELD
            yield fault.severity, f"... and {more:,} more of field {fault.field!r}; --json lists them all"


def example(
    file: Path,
    /,
    *,
    questions: Path | None = None,
    people: int = 60,
    choices: int = 16,
    seed: NonNegativeInt = 0,
    force: Flag = False,
) -> None:
    """Write a table of made-up people's choices, and say what there is to find in it.

    Parameters
    ----------
    file
        The CSV file to write.
    questions
        A second CSV file to write, with questions that nobody in the first one was asked, to ask real people.
    people
        Number of people; every fifth is 60 or over.
    choices
        Choices of each person.
    seed
        Decides who is shown what, and what they take.
    force
        Overwrite the file if it is there.
    """
    from palate.report import percent
    from palate.simulate import EXAMPLE_COLUMNS, EXAMPLE_HABIT, EXAMPLE_TASTE, QUESTION_COLUMNS, example_table

    table = example_table(people, choices, seed)
    _write_csv(file, [EXAMPLE_COLUMNS, *table.rows], force)
    if questions is not None:
        _write_csv(questions, [QUESTION_COLUMNS, *table.questions], force)
    _console().print(
        f"{file}: {len(table.rows):,} rows of {table.people} people. What is in it:\n"
        f"- a taste: half of them like lists, the others prose; they follow it {EXAMPLE_TASTE:.0%} of the time\n"
        f"- a habit: where both are prose, people take the longer answer {EXAMPLE_HABIT:.0%} of the time\n"
        f"- a group: the {table.oldest} people of 60 and over take the shorter one as often\n"
        "- rows to clean: without a choice or a name, ties, and rows that are there twice\n"
        f"Whoever knows all of this is right on {percent(table.best)} of the choices. Whoever does not know who chose "
        f"is right on {percent(table.impersonal)} at most.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _write_csv(file: Path, rows: Sequence[Sequence[str]], force: bool) -> None:
    import csv

    from palate.records import PalateError

    try:
        with file.open("w" if force else "x", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(rows)
    except FileExistsError:
        raise PalateError(f"{file} is there already: name another file, or overwrite it with --force") from None
    except OSError as error:
        raise PalateError(f"{file} cannot be written: {error.strerror or error}") from None


def convert(
    spec: str,
    folder: Folder,
    /,
    *,
    pairs: Flag = False,
    rejected_by: str | None = None,
    samples: Annotated[int | None, Parameter(name=["-n", "--samples"])] = None,
    tokens: int | None = None,
    temperature: float | None = None,
    limit: int | None = None,
    seed: NonNegativeInt | None = None,
    out: Path | None = None,
    pseudonymise: Flag = False,
    scrub: Flag = False,
    data: Path | None = None,
    force: Flag = False,
) -> None:
    """Write a benchmark as a folder in palate's own format.

    With --pairs, completions become pairs: the user's own text against another of much the same length.

    Parameters
    ----------
    spec
        Name or path of a benchmark, with options: `prefs.jsonl,user=annotator`.
    folder
        Where to write it, here or in a bucket.
    pairs
        Write comparisons made from the completions: what the user wrote against what others wrote.
    rejected_by
        With --pairs: a policy that writes the texts to stand against the user's, such as `smollm2`.
    samples
        With --rejected-by: how many texts it writes for each prompt [default: 8]; the nearest in length is taken.
    tokens
        With --rejected-by: the most tokens of a text [default: 256].
    temperature
        With --rejected-by: how freely it writes [default: 0.7].
    limit
        With --rejected-by: take no more than this many completions, drawn by the seed.
    seed
        With --rejected-by: decides what is drawn [default: 0].
    out
        With --rejected-by: the folder of runs, under whose `samples` what is drawn is kept [default: runs].
    pseudonymise
        Replace every id by a keyed hash. The key is PALATE_PSEUDONYM_KEY, or a file of yours that is made once.
    scrub
        Replace e-mail addresses, links to people's pages, handles and telephone numbers in texts.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    force
        Write even into a folder that holds other things.
    """
    from palate.data import Pseudonyms, load_benchmark, pairs_from_completions, pseudonym_key, write_benchmark
    from palate.data import pseudonymise as with_pseudonyms
    from palate.data import scrub as scrubbed
    from palate.records import PalateError
    from palate.report import count
    from palate.storage import address_of, folder_to_change

    folder = folder_to_change(folder)
    benchmark = load_benchmark(spec, data_dir=data)
    known = len(benchmark.card.notes)
    drawn = {"samples": samples, "tokens": tokens, "temperature": temperature, "limit": limit, "seed": seed, "out": out}
    given = {name: value for name, value in drawn.items() if value is not None}
    if given and not rejected_by:
        raise PalateError(f"--{next(iter(given))} says how a policy writes; name one: --pairs --rejected-by smollm2")
    if rejected_by and not pairs:
        raise PalateError("--rejected-by says who writes the rejected text of a pair; add --pairs")
    if rejected_by:
        benchmark = _against_policy(benchmark, rejected_by, given)
    elif pairs:
        benchmark = pairs_from_completions(benchmark)
    if scrub:
        benchmark = scrubbed(benchmark)
    if pseudonymise:
        benchmark = with_pseudonyms(benchmark, Pseudonyms(pseudonym_key()))
    write_benchmark(benchmark, folder, force=force)
    written = f"{count(len(benchmark.users), 'user')}, {count(len(benchmark.comparisons), 'comparison')}"
    _console().print(
        f"{address_of(folder)}: {written}, {count(len(benchmark.completions), 'completion')}",
        markup=False,
        soft_wrap=True,
    )
    for note in benchmark.card.notes[known:]:
        _console().print(note, markup=False, soft_wrap=True)


def _against_policy(benchmark: Benchmark, policy: str, given: dict[str, Any]) -> Benchmark:
    """Pairs against a policy's texts, with a bar while it writes."""
    from palate.cli._show import progress_bar
    from palate.downstream import Drawing, pairs_against_policy

    how = {"samples": 8, "temperature": 0.7} | {
        name: given.pop(name) for name in ("samples", "tokens", "temperature") if name in given
    }
    with progress_bar() as progress:
        return pairs_against_policy(benchmark, policy, drawing=Drawing(**how), progress=progress, **given)


def export_user(
    spec: str,
    user: str,
    /,
    *,
    run: Folders = None,
    model: Folders = None,
    output: Annotated[Path, OUTPUT] = Path("user.json"),
    force: Flag = False,
    data: Path | None = None,
) -> None:
    """Write one JSON file with everything that is held on one user.

    Parameters
    ----------
    spec
        Name or path of a benchmark.
    user
        The user's id, exactly.
    run
        A run folder of any kind to look into as well, with its models and the samples beside it; may be repeated.
        `latest` is the newest in `runs`.
    model
        The folder of a trained model to look into as well; may be repeated. `trained/latest/models/NAME` is of the
        newest run in `trained`.
    output
        The file to write; only its owner may read it.
    force
        Overwrite the file if it is there.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    """
    import msgspec

    from palate.cli._show import progress_bar
    from palate.data import load_benchmark
    from palate.privacy import export_user as gather
    from palate.records import PalateError
    from palate.runs import find_in_run, run_to_read
    from palate.storage import folder_to_use, kept_copies, with_addresses

    if output.exists() and not force:
        raise PalateError(f"{output} is there already: name another file with --output, or overwrite it with --force")
    benchmark = load_benchmark(spec, data_dir=data)
    with progress_bar() as progress:
        kept = [folder for folder in kept_copies() if (folder / "items.jsonl").is_file()]
        runs = [*(run_to_read(folder, beside=True) for folder in run or ()), *kept]
        models = [folder_to_use(find_in_run(folder)) for folder in model or ()]
        found = gather(benchmark, user, runs, models, progress)
    said = with_addresses(msgspec.json.encode(found).decode())
    content = msgspec.json.format(said.encode(), indent=2) + b"\n"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if force:  # a file that others may read stays so when it is written to
            output.unlink(missing_ok=True)
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise PalateError(f"{output} cannot be written: {error.strerror or error}") from error
    lines = sum(sum(one.files.values()) for one in found.runs)
    samples = sum(one.kind == "samples" for one in found.runs)
    print(  # noqa: T201
        f"{output}: {len(found.user.posts)} posts, {len(found.user.judgements)} judgements, "
        f"{len(found.comparisons)} comparisons, {len(found.completions)} completions, "
        f"{len(found.models)} models, {len(found.runs) - samples} runs, {samples} sets of samples, "
        f"{lines:,} lines of these"
    )
    for note in found.notes:
        print(printable(with_addresses(f"Note: {note}")))  # noqa: T201


def push(
    what: str,
    repository: str,
    /,
    *,
    public: Flag = False,
    with_ids: Flag = False,
    without_users: Flag = False,
    language: Many = None,
    force: Flag = False,
    dry_run: Flag = False,
    options: DataOptions = DATA,
) -> None:
    """Send a benchmark or a run to a data set on the Hugging Face hub, in one commit, with a card.

    The data set is private unless you say --public. First a sentence says what will be visible to whom.
    The same content is never sent twice. After an interruption, run the same command again.

    Parameters
    ----------
    what
        Name or path of a benchmark, or a run folder. `latest` is the newest run in `runs`.
    repository
        The data set on the hub, as OWNER/NAME. It is made if it does not exist.
    public
        Let anybody read it. Needed again for each push to a data set that is public.
    with_ids
        Send ids of users that are not pseudonyms.
    without_users
        Of a run, send the reports alone, with nothing about a single user.
    language
        Language of the texts for the hub's search, such as `en`; may be repeated.
    force
        Write into a data set that holds something else, beside its other files.
    dry_run
        Check everything and say what would be visible to whom; send nothing.
    """
    from palate.cli._show import print_json
    from palate.privacy import plan_push
    from palate.privacy import push as send
    from palate.report import count, make_console

    plan = plan_push(
        what,
        repository,
        public=public,
        with_ids=with_ids,
        without_users=without_users,
        languages=language or (),
        force=force,
        data_dir=options.data,
    )
    console = make_console(stderr=options.json, markup=False, soft_wrap=True)
    console.print(plan.visible)
    if dry_run:
        console.print(f"Would send {', '.join(sorted(plan.files))}. Nothing was sent.")
        return None
    done = send(plan)
    if options.json:
        return print_json(done)
    if done.changed:
        console.print(f"Sent {count(len(done.files), 'file')} to {done.address} in commit {done.commit}.")
    else:
        console.print(f"Nothing changed: {done.address} holds this already, in commit {done.commit}.")
    if plan.what == "benchmark":
        console.print(f"To read it: palate eval hub:{done.repository},revision={done.commit}")
    return None


def schema(name: str | None = None, *, output: Written = None) -> None:
    """Print the JSON Schemas of the files, or write each to a file.

    Parameters
    ----------
    name
        users, comparisons, completions, card or exchange; all of them when left out.
    output
        Folder to write NAME.json files to, instead of printing.
    """
    import msgspec

    from palate.cli._show import print_json
    from palate.data import json_schemas
    from palate.records import unknown_name

    schemas = json_schemas()
    if name is not None and name not in schemas:
        raise unknown_name("schema", name, schemas)
    if output is None:
        return print_json(schemas if name is None else schemas[name], indent=2)
    output.mkdir(parents=True, exist_ok=True)
    for one in schemas if name is None else [name]:
        text = msgspec.json.format(msgspec.json.encode(schemas[one]), indent=2)
        (output / f"{one}.json").write_bytes(text + b"\n")
    return None


def _find_item(benchmark: Benchmark, id: str) -> Comparison | Completion:
    from palate.records import PalateError

    items: list[Comparison | Completion] = [*benchmark.comparisons, *benchmark.completions]
    for item in items:
        if item.id == id:
            return item
    raise PalateError(f"{benchmark.card.name} has no item {id!r}; ids look like {items[0].id!r}")


def _find_user(benchmark: Benchmark, id: str) -> User:
    from palate.records import PalateError

    if id not in benchmark.users:
        # An example of an id would name somebody.
        raise PalateError(f"{benchmark.card.name} has no user {id!r}; ids are matched exactly")
    return benchmark.users[id]


def _show_card(console: Console, benchmark: Benchmark, summary: BenchmarkSummary) -> None:
    card = benchmark.card
    console.print(card.title, style="bold", markup=False)
    if card.description:
        console.print(card.description, markup=False)
    rows = {
        "name": f"{card.name} {card.version}",
        "licence": card.licence,
        "source": card.source,
        "content": f"sha256 {summary.content_hash}",
        "users": f"{summary.users:,}",
        "comparisons": f"{summary.comparisons:,}" + _of_sizes(summary.responses),
        "completions": f"{summary.completions:,}",
        "median user": f"{summary.items_a_user:g} items, {summary.posts_a_user:g} posts, "
        f"{summary.judgements_a_user:g} judgements",
        "median words": f"{summary.words_a_prompt:g} in a prompt, {summary.words_a_response:g} in a response",
    }
    _rows(console, rows)
    console.print("\nby category", style="bold")
    shown = list(summary.categories.items())[:SHOWN_CATEGORIES]
    _rows(console, {category: f"{count:,}" for category, count in shown})
    if len(summary.categories) > len(shown):
        console.print(f"... and {len(summary.categories) - len(shown)} more categories")
    for note in card.notes:
        console.print(f"note: {note}", markup=False, highlight=False)


def _of_sizes(sizes: dict[str, int]) -> str:
    if len(sizes) < 2:
        return "".join(f", each of {size} responses" for size in sizes)
    return " (" + ", ".join(f"{count:,} of {size} responses" for size, count in sizes.items()) + ")"


def _show_item(console: Console, item: Comparison | Completion) -> None:
    from palate.records import Comparison

    facts = {
        "id": item.id,
        "user": item.user_id,
        "category": item.category,
        "date": item.date,
        "group": item.group,
    }
    _rows(console, {name: value for name, value in facts.items() if value})
    _text(console, "prompt", item.prompt, "cyan")
    if isinstance(item, Comparison):
        for number, response in enumerate(item.responses):
            preferred = number == item.preferred
            title = f"response {number}, preferred" if preferred else f"response {number}"
            _text(console, title, response, "green" if preferred else "white")
    else:
        _text(console, "what the user wrote", item.text or "(nothing: only the rubric tells)", "green")
    private = [item.privileged.narrative or "", *(f"- {one.aspect}" for one in item.privileged.aspects)]
    if any(private):
        _text(console, "private: only the oracle sees this", "\n".join(filter(None, private)), "magenta")


def _show_user(console: Console, user: User) -> None:
    facts = {name: value if isinstance(value, str) else ", ".join(value) for name, value in user.demographics.items()}
    _rows(console, {"id": user.id, **facts, "values": ", ".join(user.values)})
    for post in user.posts:
        _text(console, " ".join(filter(None, ("post", post.id, post.date))), post.text, "cyan")
    for one in user.judgements:
        why = f"\nWhy: {one.reason}" if one.reason else ""
        text = f"{one.prompt}\nTook: {one.chosen}\nLeft: {' | '.join(one.rejected)}{why}"
        _text(console, " ".join(filter(None, ("judgement", one.id, one.date))), text, "green")


def _rows(console: Console, rows: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    console.print(table)


def _text(console: Console, title: str, text: str, colour: str) -> None:
    from rich.panel import Panel
    from rich.text import Text

    console.print(Panel(Text(text), title=Text(title), title_align="left", border_style=colour))


def _console() -> Console:
    from palate.report import make_console

    return make_console()
