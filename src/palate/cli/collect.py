"""`palate collect`: ask real people, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from palate.cli._options import Flag, JsonOption, Many, Written

if TYPE_CHECKING:
    from rich.console import Console

    from palate.collect._access import Invited
    from palate.collect._plan import Plan
    from palate.collect._status import Status

JSON = JsonOption()
HERE = Path()
HOST, PORT = "127.0.0.1", 8400
ADDRESS = f"http://{HOST}:{PORT}"
Example = Literal["survey", "compare", "feedback", "validate"]


def init(folder: Path, /, *, example: Example = "compare") -> None:
    """Make a project folder that runs as it is. Edit `project.toml` and the items to make it yours.

    Parameters
    ----------
    folder
        The folder to make.
    example
        The kind of task to start from.
    """
    from palate.collect._init import make_project

    made = make_project(folder, example)
    console = _console()
    console.print(f"Made {made}. Next:")
    console.print(f"  palate collect serve {folder}")
    console.print(f"  palate collect invite {folder} --count 10")


def serve(folder: Path = HERE, /, *, host: str = HOST, port: int = PORT, url: str = "") -> None:
    """Serve a project until you stop it. Prints a link that makes you its owner.

    Parameters
    ----------
    folder
        The project's folder.
    host
        The address to listen on.
    port
        The port to listen on; 0 picks a free one.
    url
        The address that people type, such as `https://study.example.org`, where a proxy stands in front.
    """
    from palate.collect._serve import CollectSettings
    from palate.collect._serve import serve as run

    def announce(address: str, owner: Invited) -> None:
        console = _console(stderr=True)
        console.print(f"Participants: {address}")
        console.print(f"Your dashboard: {address}{owner.path}")
        elsewhere = "" if address == ADDRESS else f" --url {address}"
        console.print(f"Invite people, in another terminal: palate collect invite {folder}{elsewhere}")
        console.print("Taking requests. Stop with Ctrl-C.")

    run(folder, CollectSettings(host=host, port=port, url=url), on_start=announce)


def invite(
    folder: Path = HERE,
    /,
    *,
    count: Annotated[int, Parameter(name=["-n", "--count"])] = 1,
    role: Literal["annotator", "reviewer", "owner"] = "annotator",
    group: Many = None,
    days: float = 30,
    crowd: Flag = False,
    revoke: str | None = None,
    url: str = ADDRESS,
    options: JsonOption = JSON,
) -> None:
    """Make invitations, or revoke one. Links and codes are shown once: the database keeps hashes only.

    Parameters
    ----------
    folder
        The project's folder.
    count
        How many personal links to make.
    role
        annotator answers, reviewer watches, owner may do everything.
    group
        The group of these people, such as `region=north`; may be repeated for several strata.
    days
        How long the links are valid.
    crowd
        Make one link for everybody from a crowd platform, which appends the person's id.
    revoke
        Revoke the invitation with this id instead, with its sessions.
    url
        The address at which the project is served.
    """
    from palate.cli._show import print_json
    from palate.collect._manage import make_invitations, revoke_invitation

    console = _console()
    if revoke is not None:
        revoke_invitation(folder, revoke)
        return console.print(f"Revoked {revoke}. Its link, code and sessions no longer work.")
    made = make_invitations(folder, count=count, role=role, groups=group or [], days=days, crowd=crowd)
    if options.json:
        return print_json([{"id": one.id, "link": f"{url.rstrip('/')}{one.path}", "code": one.code} for one in made])
    for one in made:
        console.print(f"{url.rstrip('/')}{one.path}" + (f"  code {one.code}" if one.code else ""))
    typed = f" A code opens {url.rstrip('/')} for whoever cannot click the link." if made[0].code else ""
    return console.print(f"Valid until {made[0].expires[:10]}. These links are shown once.{typed}")


def status(folder: Path = HERE, /, *, options: JsonOption = JSON) -> None:
    """Show people and quotas by group, answers, time, agreement, and whom to look at.

    Parameters
    ----------
    folder
        The project's folder.
    """
    from palate.cli._show import print_json
    from palate.collect._manage import collection_status

    found = collection_status(folder)
    print_json(found) if options.json else _show_status(found)


def export(folder: Path = HERE, /, *, output: Written = None, options: JsonOption = JSON) -> None:
    """Write a benchmark folder, the exchange record, TRL's columns and all records.

    Parameters
    ----------
    folder
        The project's folder.
    output
        Where to write it [default: a new folder in `exports`].
    """
    from palate.cli._show import print_json
    from palate.collect._manage import write_export

    where, counts = write_export(folder, output)
    if options.json:
        return print_json({"folder": str(where), "counts": counts})
    console = _console()
    for note in counts.notes:
        console.print(note)
    if counts.comparisons:
        console.print(f"Evaluate it: palate eval {where / 'benchmark'}")
    return console.print(f"Written to {where}")


def import_(
    source: str,
    folder: Path = HERE,
    /,
    *,
    kind: Annotated[Literal["items", "potato", "label-studio"], Parameter(name="--from")] = "items",
    task: str | None = None,
    prompt: str | None = None,
    response: Many = None,
    annotations: Path | None = None,
    data: Path | None = None,
) -> None:
    """Bring in items from a benchmark, a table or a best-of-N run; or answers that another tool collected.

    Parameters
    ----------
    source
        A benchmark by name or path, a CSV, JSON or JSON Lines file, or the folder of a best-of-N run. With `--from
        potato` its data file, with `--from label-studio` its JSON export.
    folder
        The project's folder.
    kind
        What the source holds: items, or answers from Potato or Label Studio.
    task
        The task that gets the items; for answers, the name under which they are kept.
    prompt
        The column or field of the prompt, where its name does not tell.
    response
        A column or field of a response; repeated for each.
    annotations
        Potato's folder of annotations.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    """
    from palate.collect import _manage as manage

    console = _console()
    if kind == "items":
        file, read = manage.import_items(folder, source, task, prompt=prompt, responses=response or [], data_dir=data)
        for note in read.notes:
            console.print(f"Note: {note}")
        return console.print(f"{len(read.items):,} items written to {file}")
    imported = manage.import_from(
        folder, kind, Path(source), task=task or kind, annotations=annotations, prompt=prompt, responses=response or []
    )
    for note in imported.notes:
        console.print(f"Note: {note}")
    return console.print(f"{len(imported.answers):,} answers of {len(imported.participants):,} people imported")


def plan(
    *,
    gain: float = 5.0,
    people: int | None = None,
    judges: int = 1,
    pilot: Path | None = None,
    options: JsonOption = JSON,
) -> None:
    """Show how many people, items and repeats it takes to see a gain, before you start.

    Parameters
    ----------
    gain
        The gain to be seen, in points of accuracy.
    people
        How many people there are; the plan then says what they would show.
    judges
        How many people judge each item.
    pilot
        A project with first answers: its self-agreement and its pace are used.
    """
    from palate.cli._show import print_json
    from palate.collect._manage import plan_collection

    found = plan_collection(gain / 100, people=people, judges=judges, pilot=pilot)
    print_json(found) if options.json else _show_plan(found)


def forget(participant: str, folder: Path = HERE, /) -> None:
    """Erase one person: answers, own texts, sessions, invitation, and every export.

    Runs and models that were made of an export are not searched: `palate forget` erases the person from those.

    Parameters
    ----------
    participant
        The person's id, as `status` and the exports show it.
    folder
        The project's folder.
    """
    from palate.collect._manage import erase_person

    file = erase_person(folder, participant)
    _console().print(f"Erased. Receipt: {file}")


def retention(folder: Path = HERE, /) -> None:
    """Erase everybody whom the project keeps no longer. The server does this when it starts, and daily.

    Parameters
    ----------
    folder
        The project's folder.
    """
    from palate.collect._manage import erase_old

    erased = erase_old(folder)
    _console().print(f"{len(erased)} people were kept longer than the project says, and are erased.")


def backup(file: Path, folder: Path = HERE, /) -> None:
    """Write everything to one file. People may go on answering meanwhile.

    Parameters
    ----------
    file
        The file to write.
    folder
        The project's folder.
    """
    from palate.collect._manage import write_backup

    counts = write_backup(folder, file)
    _console().print(f"{file}: {counts.get('events', 0):,} events of {counts.get('participants', 0):,} people")


def restore(file: Path, folder: Path = HERE, /, *, force: Flag = False) -> None:
    """Put a backup back, into either kind of database. Whoever was erased since is erased again.

    Parameters
    ----------
    file
        The backup.
    folder
        The project's folder.
    force
        Replace the answers that are there.
    """
    from palate.collect._manage import read_backup

    counts, again = read_backup(folder, file, force=force)
    console = _console()
    console.print(f"Restored {counts.get('events', 0):,} events of {counts.get('participants', 0):,} people.")
    if again:
        console.print(f"{len(again)} people had been erased since the backup, and were erased again.")


def _show_plan(found: Plan) -> None:
    from palate.collect._plan import plan_table
    from palate.report import make_console, print_table

    print_table(plan_table(found), make_console())


def _show_status(found: Status) -> None:
    from rich.table import Table

    console = _console()
    console.print(f"{found.title} (version {found.version})")
    console.print(f"{found.started} started, {found.completed} finished, {found.answers} answers, "
                  f"{found.survey_answers} survey answers, {len(found.flagged)} people flagged")  # fmt: skip
    groups = Table("group", "invited", "started", "finished", "quota", box=None, header_style="bold", pad_edge=False)
    for group in found.groups:
        quota = "" if group.quota is None else str(group.quota)
        groups.add_row(group.name, str(group.invited), str(group.started), str(group.completed), quota)
    console.print(groups)
    for task in found.tasks:
        pace = "" if task.median_seconds is None else f", median {task.median_seconds:.0f} s"
        console.print(f"{task.name}: {task.answers} answers of {task.people} people{pace}")
        if task.agreement:
            for name in ("alpha", "kappa", "self_agreement"):
                one = getattr(task.agreement, name)
                span = f" ({one.note})" if one.note else ""
                if one.low is not None:
                    span = f" (95% {one.low:.2f} to {one.high:.2f})"
                value = one.note if one.value is None else f"{one.value:.2f}{span}"
                console.print(f"  {name.replace('_', '-')}: {value}")
        if task.validation:
            console.print(f"  {task.validation.sentence}")
    if found.flagged:
        console.print("People to look at; nobody is dropped because of a flag:")
    for person in found.flagged:
        console.print(f"  {person.participant}: {'; '.join(flag.sentence for flag in person.flags)}")


def _console(*, stderr: bool = False) -> Console:
    from palate.report import make_console

    return make_console(stderr=stderr, markup=False, soft_wrap=True)
