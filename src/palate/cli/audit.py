"""`palate audit`: can a claim about personalisation be believed, and whom does a run's model serve worse?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from palate.cli._examples import examples_of
from palate.cli._options import Flag, Folder, JsonOption, SeedOptions, Written

SEED = SeedOptions()
JSON = JsonOption()
Counts = Annotated[list[int] | None, Parameter(negative="")]

app = App(name="audit", group_commands="Commands", help_prologue=examples_of("audit"))


@app.default
def audit(
    *targets: str,
    docket: Flag = False,
    claimed: float | None = None,
    run: Folder | None = None,
    values: Flag = False,
    least: int = 5,
    users: Flag = False,
    impersonal: bool | None = None,
    output: Written = None,
    runs: Path | None = None,
    options: SeedOptions = SEED,
) -> None:
    """Check what a claim about personalisation is worth, what a benchmark can show, or whom a run serves worse.

    Parameters
    ----------
    targets
        A benchmark, by name or path; or a run folder that `palate eval` or `palate train` made, `latest` for
        the newest in `runs`.
    docket
        Audit several benchmarks, and put them into one table.
    claimed
        An accuracy that somebody published on this benchmark, such as 0.86: how much of it survives?
    run
        A run of `palate eval` or `palate train` on this benchmark: how much of its models' gain survives?
    values
        Say which of Schwartz's ten values the prompts touch, and which are thin or absent. Needs the encoder minilm;
        benchmarks only.
    least
        Smallest group: groups with fewer users count as thin, and in the audit of a run are merged.
    users
        Name the users who are clearly served worse with their profile; runs only.
    impersonal
        Train a model of what everybody likes and show how far it gets; benchmarks only [default: where possible].
    output
        Write the audit to this file: as a web page where its name ends in .html, else as Markdown.
    runs
        Keep the ratings of the controls in this folder, so that the same command resumes. By default they are thrown
        away. Benchmarks only.
    """
    from palate.audit import audit as examine
    from palate.audit import audit_docket, audit_document, docket_document, write_document
    from palate.cli._show import print_json, progress_bar
    from palate.records import PalateError
    from palate.report import make_console, print_document
    from palate.runs import LATEST, run_to_read
    from palate.storage import Store, is_url

    if docket and (claimed is not None or run or users or values):
        raise PalateError("a docket takes benchmarks only: leave out --claimed, --run, --values and --users")
    if not docket and len(targets) != 1:
        raise PalateError("name one benchmark or run, or add --docket for a table of several benchmarks")

    def names_run(target: str) -> bool:
        if Path(target).name == LATEST:
            return True
        return is_url(target) and "," not in target and Store(target).read("settings.json") is not None

    with progress_bar(show=not options.json) as progress:
        if docket:
            cases = audit_docket(targets, impersonal=impersonal, runs=runs, **options.given, progress=progress)
            result: object = cases
            whole = brief = docket_document(cases)
        else:
            found = examine(
                str(run_to_read(Path(targets[0]))) if names_run(targets[0]) else targets[0],
                claimed=claimed,
                run=run_to_read(run) if run else None,
                values=values,
                least=least,
                users=users,
                impersonal=impersonal,
                runs=runs,
                **options.given,
                progress=progress,
            )
            result, whole, brief = found, audit_document(found), audit_document(found, whole=False)
    if output:
        write_document(whole, output)
    if options.json:
        return print_json(result)
    console = make_console()
    print_document(brief, console)
    if output:
        console.print()
        console.print("Audit:", output.resolve().as_uri(), markup=False, highlight=False, soft_wrap=True)
    return None


@app.command(help_prologue=examples_of("audit plan"))
def plan(
    *,
    gain: float = 5.0,
    items: Counts = None,
    repeats: Counts = None,
    power: float = 0.8,
    differ: float = 0.3,
    correlation: float = 0.05,
    contradiction: float = 0.15,
    check: Flag = False,
    options: JsonOption = JSON,
) -> None:
    """Before you collect: how many people, items and repeats show a gain of a given size?

    Parameters
    ----------
    gain
        The gain in accuracy of one model over another that you want to find, in points.
    items
        Comparisons a person; give it several times to compare [default: 10, 20, 40, 80].
    repeats
        Times that every comparison is asked; give it several times to compare [default: 1, 3].
    power
        How often the gain is to be found.
    differ
        Share of items on which one of the two models is right and the other wrong.
    correlation
        How alike the differences of one person are. `palate audit` prints it for existing data.
    contradiction
        How often people choose otherwise when they are asked again. `palate audit` prints it for existing data.
    check
        Simulate every design 200 times, and show how often the gain was found.
    """
    from palate.audit import ITEMS_A_PERSON, REPEATS, plan_collection, plan_document, simulate_power
    from palate.cli._show import print_json
    from palate.report import make_console, print_document

    planned = plan_collection(
        gain / 100,
        items=items or ITEMS_A_PERSON,
        repeats=repeats or REPEATS,
        power=power,
        differ=differ,
        correlation=correlation,
        contradiction=contradiction,
    )
    if options.json:
        return print_json(planned)
    checked = {place: simulate_power(planned, one) for place, one in enumerate(planned.designs)} if check else None
    print_document(plan_document(planned, checked), make_console())
    return None
