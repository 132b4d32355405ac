"""Where every command starts, and where every error ends."""

from __future__ import annotations

import sys

from cyclopts import App, CycloptsError

from palate import __version__
from palate.records import PalateError

app = App(
    name="palate",
    help="Does this reward model know what this particular person wants, and will that matter?",
    version=__version__,
    help_format="markdown",
)

data = App(name="data", help="List, show, check and convert benchmarks.")
app.command(data)
data.command("palate.cli.data:list_benchmarks", name="list")
data.command("palate.cli.data:show")
data.command("palate.cli.data:check")
data.command("palate.cli.data:convert")
data.command("palate.cli.data:schema")

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command; say in one line what went wrong, and leave with the exit code that fits."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(f"{error}\nTry: palate --help")
    except PalateError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        print("stopped; nothing is lost: the same command goes on from here", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)


def _fail(message: str) -> None:
    print(f"palate: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(BAD_INPUT)
