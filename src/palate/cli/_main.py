"""Where every command starts, and where every error ends."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from cyclopts import App, CycloptsError

from palate import __version__
from palate.records import PalateError

app = App(
    name="palate",
    help="Does this reward model know what this particular person wants, and will that matter?",
    version=__version__,
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # it would leave without a word
)

app.command("palate.cli.eval:evaluate", name="eval", help="Measure reward models on what individual users prefer.")
app.command("palate.cli.train:train", help="Train reward models that know the user, and test them on held-out data.")
app.command(
    "palate.cli.reproduce:reproduce", help="Run a published experiment and compare our figures with the paper's."
)
app.command("palate.cli.adapt:adapt", help="Teach a trained model a new user from a few judgements.")
app.command(
    "palate.cli.bon:best_of_n", name="bon", help="Let reward models choose among a policy's own texts (best-of-N)."
)
app.command("palate.cli.guide:guide", help="Let reward models guide a policy while it writes; policy accuracy.")
app.command("palate.cli.serve:serve", help="Serve reward models over HTTP, for other trainers.")
app.command("palate.cli.reach:reach", help="Measure how far a policy could follow a reward, before training.")
app.command("palate.cli.ppo:ppo", help="Train a policy with a reward model, and test it on held-out users.")
app.command("palate.cli.steer:steer", help="Compare every way of steering a policy with what the user really wrote.")
app.command("palate.cli.study:study", help="Find out whether a benchmark predicts what happens downstream.")
app.command("palate.cli.report:report", help="Recompute the tables and the page of a run, without the model.")
app.command("palate.cli.compare:compare", help="Show which differences between two runs are real.")
app.command(
    "palate.cli.audit:audit", help="Check whether a benchmark can show personalisation, or whom a run serves worse."
)
app.command("palate.cli.selftest:selftest", help="Plant effects in your own data, and see which would be found.")
app.command("palate.cli.check:check", help="Test a reward model of your own against the contract.")
app.command("palate.cli.forget:forget", help="Erase one user from benchmarks, runs, models and caches.")
app.command("palate.cli.list:list_names", name="list", help="List everything that you can name, with a description.")
app.command("palate.cli.doctor:doctor", help="Show what this machine can run.")

privacy = App(name="privacy", help="See what a trained model reveals about its users, and share less.")
app.command(privacy)
privacy.command("palate.cli.privacy:attack", help="Try to tell whose choices a model was trained on.")
privacy.command("palate.cli.privacy:strip", help="Copy a model without users, states and training hashes.")

data = App(name="data", help="List, show, check and convert benchmarks.")
app.command(data)
data.command("palate.cli.data:list_benchmarks", name="list", help="List the benchmarks that palate knows by name.")
data.command("palate.cli.data:show", help="Show what a benchmark holds, with an example.")
data.command("palate.cli.data:check", help="Find every error in a benchmark, and what could mislead.")
data.command("palate.cli.data:convert", help="Write any benchmark as a folder in palate's own format.")
data.command("palate.cli.data:export_user", help="Write everything held on one user to a file.")
data.command("palate.cli.data:schema", help="Print or write the JSON Schemas of the formats.")

BAD_INPUT = 2
INTERRUPTED = 130
OUT_OF_MEMORY = (
    "the GPU is out of memory. Check with nvidia-smi whether another program uses it; otherwise take a smaller model, "
    "fewer texts at once or device=cpu. What was written is kept. Run the same command again to resume."
)


def main(arguments: list[str] | None = None) -> None:
    """Run one command; say in one line what went wrong, and leave with the exit code that fits."""
    warnings.formatwarning = _one_line
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(f"{error}\nTry: palate --help")
    except PalateError as error:
        _fail(str(error))
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        _fail(f"{OUT_OF_MEMORY}\n{'. '.join(str(error).split('. ')[:2])}.")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        print("stopped; everything so far is saved. Run the same command again to resume.", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of palate's own as palate says everything; of another package as Python does."""
    if Path(__file__).parents[1] in Path(filename).parents:
        return f"palate: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _out_of_memory(error: RuntimeError) -> bool:
    torch = sys.modules.get("torch")  # who has not loaded it has not filled a GPU
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _fail(message: str) -> None:
    print(f"palate: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(BAD_INPUT)
