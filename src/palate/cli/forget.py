"""`palate forget`: erase users, and check that they stay erased."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from palate.cli._options import Flag, Folders, JsonOption

if TYPE_CHECKING:
    from palate.privacy import Checked, Receipt

JSON = JsonOption()
STILL_THERE = 2
MOST_IDS = 64 * 2**20
"""Bytes of a file of ids; a device or a pipe may have no end."""


def forget(
    *users: str,
    users_file: Path | None = None,
    data: Folders = None,
    run: Folders = None,
    model: Folders = None,
    keep_answers: Flag = False,
    dry_run: Flag = False,
    receipt: Path | None = None,
    check: Path | None = None,
    options: JsonOption = JSON,
) -> int:
    """Erase one user, or several, from benchmark folders, runs, trained models and the caches, and write a receipt.

    Every place is read and rewritten once, however many users are named.
    If an erasure is interrupted, the next palate command finishes it first; the same command again prints its receipt.
    Exits with code 2 when a check finds the user again.

    Parameters
    ----------
    users
        The id of each user, exactly.
    users_file
        A file with more ids, one a line.
    data
        A benchmark folder in palate's own format; may be repeated.
    run
        A run folder, with the models in it and the samples beside it; may be repeated. `latest` is the newest in
        `runs`. It may be in a bucket, as the others may, and is changed there too.
    model
        The folder of a trained model; may be repeated. `trained/latest/models/NAME` is of the newest run in `trained`.
    keep_answers
        Keep the cached answers of language models. They do not record whose they are, so by default all are erased.
    dry_run
        Show what would be erased, and change nothing.
    receipt
        Where to write the receipt [default: a file in this folder named after the keyed hash of the first user].
    check
        Erase nothing; search the places of this receipt again.
    """
    from palate.cli._show import print_json, progress_bar
    from palate.data import Pseudonyms, pseudonym_key
    from palate.privacy import check_receipt, finish_erasures, read_receipt
    from palate.privacy import forget as erase
    from palate.records import PalateError
    from palate.runs import find_in_run, run_to_erase_from
    from palate.storage import folder_to_change

    erased = list(dict.fromkeys([*users, *(_read_ids(users_file) if users_file else ())]))
    if not erased:
        raise PalateError("name the user to erase: palate forget USER --data FOLDER")
    if receipt is not None and receipt.exists():
        read_receipt(receipt)  # another file is not written over
    names = Pseudonyms(pseudonym_key())
    others = f"-and-{len(erased) - 1}-more" if len(erased) > 1 else ""
    file = receipt or Path(f"forgotten-{names.user(erased[0])}{others}-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json")
    with progress_bar(show=not options.json) as progress:
        if check is not None:
            finish_erasures(names, progress)
            checked = check_receipt(read_receipt(check), erased, names, progress)
        else:
            made = erase(
                erased,
                names,
                runs=[run_to_erase_from(folder) for folder in run or ()],  # models may lie in them
                data=[folder_to_change(folder) for folder in data or ()],
                models=[folder_to_change(find_in_run(folder)) for folder in model or ()],
                keep_answers=keep_answers,
                dry_run=dry_run,
                receipt=file,
                progress=progress,
            )
    if check is not None:
        print_json(checked, addresses=False) if options.json else _show_checked(checked)
        return 0 if checked.clean else STILL_THERE
    print_json(made, addresses=False) if options.json else _show_receipt(made, file)
    return 0


def _read_ids(file: Path) -> list[str]:
    """The ids of a file as they stand there: an id may begin or end with a space."""
    from palate.records import PalateError

    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_IDS + 1)
        if len(data) > MOST_IDS:
            raise PalateError(f"{file} is larger than {MOST_IDS // 2**20} MiB: it holds the ids of users, one a line")
        ids = [line for line in data.decode("utf-8-sig").replace("\r\n", "\n").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise PalateError(f"{file} cannot be read: {reason}. It holds the ids of users, one a line.") from error
    if not ids:
        raise PalateError(f"{file} holds no id; write one a line")
    return ids


def _show_receipt(receipt: Receipt, file: Path) -> None:
    from palate.report import make_console

    console = make_console(markup=False, soft_wrap=True)
    console.print("Would erase:" if receipt.dry_run else "Erased:")
    for place in receipt.places:
        found = ", ".join(f"{what}: {count:,}" for what, count in place.erased.items()) or "nothing"
        console.print(f"  {place.kind} {place.path}: {found}")
    console.print("Not erased:")
    for reason in receipt.not_erased:
        console.print(f"  {reason}")
    for command in receipt.retrain:
        console.print(f"To train on what is left: {command}")
    if not receipt.dry_run:
        console.print(f"Receipt: {file}. Check it at any time: palate forget USER --check {file}")


def _show_checked(checked: Checked) -> None:
    from palate.report import make_console

    console = make_console(markup=False, soft_wrap=True)
    for one in checked.found:
        console.print(f"{one.path}: the id {one.ids} times, words of the user {one.texts} times")
    for path in checked.missing:
        console.print(f"{path}: not there any more")
    for path in checked.not_searched:
        console.print(f"{path}: a packed file or a link to a folder, in which nothing was searched")
    verdict = "nothing of the user was found" if checked.clean else "the user is still there, or there again"
    console.print(f"{checked.files:,} files searched: {verdict}")
