"""Where every command starts, and where every error ends."""

from __future__ import annotations

import errno
import math
import sys
import warnings
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from cyclopts import App, CoercionError, CycloptsError, Group, MissingArgumentError, Parameter, UnknownOptionError

from palate import __version__
from palate.cli._arguments import Verbosity, config_file, models_run, read_arguments
from palate.cli._examples import EVERY_COMMAND, examples_of
from palate.cli._lines import in_lines
from palate.records import (
    PalateError,
    command_line,
    describe_error,
    did_you_mean,
    printable,
    running_command,
    unfinished_erasures,
)
from palate.storage import storing, url_in_path, with_addresses


def _sound(kind: object, value: object) -> None:
    """For every option: not-a-number and infinity pass any check of a range, and an address looks like a path."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number")
    if isinstance(value, Path) and (url := url_in_path(value)):
        raise ValueError(f"{url}: expected a path on this machine")
    if is_dataclass(value):  # a group of options
        for option, number in vars(value).items():
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"--{option.replace('_', '-')}={number}: expected a finite number")


MEASURE = Group.create_ordered("Measure")
TRAIN = Group.create_ordered("Train")
DOWNSTREAM = Group.create_ordered("Downstream")
DATA = Group.create_ordered("Data and people")
PRIVACY = Group.create_ordered("Privacy")
SHARE = Group.create_ordered("Serve and share")
HELP = Group.create_ordered("Help")

app = App(
    name="palate",
    help="Does this reward model know what this particular person wants, and will that matter?",
    version=__version__,
    group_commands=HELP,
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # it would leave without a word
    default_parameter=Parameter(validator=_sound),
    help_epilogue=EVERY_COMMAND,
)


def _command(parent: App, target: str, *, name: str = "", **options: Any) -> None:
    """A command that is imported when it is called; its help begins with its examples."""
    name = name or target.rpartition(":")[2].replace("_", "-")
    full = name if parent is app else f"{parent.name[0]} {name}"
    parent.command(target, name=name, help_prologue=examples_of(full), **options)


_command(
    app,
    "palate.cli.eval:evaluate",
    name="eval",
    group=MEASURE,
    sort_key=0,  # before the others, which are in alphabetical order
    help="Measure reward models on what individual users prefer.",
)
app.command(  # an app of its own, which says its own examples
    "palate.cli.audit:app",
    name="audit",
    group=MEASURE,
    help="Check what a claim is worth, what a benchmark can show, and whom a model serves worse.",
)
_command(app, "palate.cli.check:check", group=MEASURE, help="Test a reward model of your own against the contract.")
_command(app, "palate.cli.compare:compare", group=MEASURE, help="Show which differences between runs are real.")
_command(app, "palate.cli.merge:merge", group=MEASURE, help="Merge the shards of a run into one run folder.")
_command(
    app,
    "palate.cli.report:report",
    group=MEASURE,
    help="Recompute the tables and the page of a run, without the model.",
)
_command(
    app,
    "palate.cli.reproduce:reproduce",
    group=MEASURE,
    help="Run a published experiment and compare our figures with the paper's.",
)
_command(
    app,
    "palate.cli.selftest:selftest",
    group=MEASURE,
    help="Plant effects in your own data, and see which would be found.",
)
_command(
    app,
    "palate.cli.train:train",
    group=TRAIN,
    help="Train reward models that know the user, and test them on held-out data.",
)
_command(app, "palate.cli.adapt:adapt", group=TRAIN, help="Teach a trained model a new user from a few judgements.")
_command(
    app,
    "palate.cli.bon:best_of_n",
    name="bon",
    group=DOWNSTREAM,
    help="Let reward models choose among a policy's own texts (best-of-N).",
)
_command(
    app,
    "palate.cli.guide:guide",
    group=DOWNSTREAM,
    help="Let reward models guide a policy while it writes, and measure policy accuracy.",
)
_command(
    app,
    "palate.cli.ppo:ppo",
    group=DOWNSTREAM,
    help="Train a policy with a reward model, and test it on held-out users.",
)
_command(
    app,
    "palate.cli.reach:reach",
    group=DOWNSTREAM,
    help="Measure how far a policy could follow a reward, before training.",
)
_command(
    app,
    "palate.cli.steer:steer",
    group=DOWNSTREAM,
    help="Compare every way of steering a policy with what the user really wrote.",
)
_command(
    app,
    "palate.cli.study:study",
    group=DOWNSTREAM,
    help="Find out whether a benchmark predicts what happens downstream.",
)
_command(app, "palate.cli.build:build", group=DATA, help="Build a personalised benchmark from raw histories.")
_command(
    app, "palate.cli.forget:forget", group=PRIVACY, help="Erase one user from benchmarks, runs, models and caches."
)
_command(app, "palate.cli.serve:serve", group=SHARE, help="Serve reward models over HTTP, for other trainers.")
_command(app, "palate.cli.leaderboard:leaderboard", group=SHARE, help="Rank the models of many runs in a static site.")
_command(app, "palate.cli.runs:runs", group=SHARE, help="List the runs of a folder.")
_command(app, "palate.cli.list:list_names", name="list", help="List everything that you can name, with a description.")
_command(app, "palate.cli.doctor:doctor", help="Show what this machine can run.")
_command(app, "palate.cli.completion:completion", help="Print what lets your shell complete commands with Tab.")

privacy = App(
    name="privacy",
    help_prologue=examples_of("privacy"),
    group=PRIVACY,
    group_commands="Commands",
    help="See what a trained model reveals about its users, and share less.",
)
app.command(privacy)
_command(privacy, "palate.cli.privacy:attack", help="Try to tell whose choices a model was trained on.")
_command(privacy, "palate.cli.privacy:strip", help="Copy a model without users, states and training hashes.")

collect = App(
    name="collect",
    help_prologue=examples_of("collect"),
    group=DATA,
    group_commands="Commands",
    help="Ask real people, in the browser: make a project, serve it, invite, export.",
)
app.command(collect)
_command(collect, "palate.cli.collect:init", help="Make a project folder that runs as it is.")
_command(collect, "palate.cli.collect:serve", help="Serve a project until you stop it.")
_command(collect, "palate.cli.collect:invite", help="Make personal links and codes, or revoke one.")
_command(collect, "palate.cli.collect:status", help="Show people, answers, agreement, and whom to look at.")
_command(collect, "palate.cli.collect:export", help="Write a benchmark folder, the exchange record and TRL's columns.")
_command(collect, "palate.cli.collect:import_", name="import", help="Bring in items, or answers of another tool.")
_command(collect, "palate.cli.collect:plan", help="Show how many people and items it takes to see a gain.")
_command(collect, "palate.cli.collect:forget", help="Erase one person everywhere, exports included.")
_command(collect, "palate.cli.collect:retention", help="Erase everybody whom the project keeps no longer.")
_command(collect, "palate.cli.collect:backup", help="Write everything to one file, while people go on answering.")
_command(collect, "palate.cli.collect:restore", help="Put a backup back, into either kind of database.")

submit = App(
    name="submit",
    help_prologue=examples_of("submit"),
    group=SHARE,
    group_commands="Commands",
    help="Check runs for a leaderboard, and read results of other programs.",
)
app.command(submit)
_command(submit, "palate.cli.submit:check", help="Check a run that somebody sends: complete, recomputed, not edited.")
_command(
    submit, "palate.cli.submit:import_results", name="import", help="Make a run of reward-bench or inspect_ai results."
)

data = App(
    name="data",
    help_prologue=examples_of("data"),
    group=DATA,
    group_commands="Commands",
    help="List, show, check, convert and push benchmarks.",
)
app.command(data)
_command(data, "palate.cli.data:list_benchmarks", name="list", help="List the benchmarks that palate knows by name.")
_command(data, "palate.cli.data:show", help="Show what a benchmark holds, with an example.")
_command(data, "palate.cli.data:check", help="Find every error in a benchmark, and what could mislead.")
_command(data, "palate.cli.data:convert", help="Write any benchmark as a folder in palate's own format.")
_command(data, "palate.cli.data:example", help="Write a table to try things on, and say what is in it.")
_command(data, "palate.cli.data:export_user", help="Write everything held on one user to a file.")
_command(data, "palate.cli.data:push", help="Send a benchmark or a run to the Hugging Face hub, private by default.")
_command(data, "palate.cli.data:schema", help="Print or write the JSON Schemas of the formats.")

BAD_INPUT = 2
INTERRUPTED = 130
OUT_OF_MEMORY = (
    "the GPU is out of memory. Check with nvidia-smi whether another program uses it; otherwise take a smaller model, "
    "fewer texts at once or device=cpu. What was written is kept. Run the same command again to resume."
)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_ROOM = "What was finished before is kept. Make room and run the same command again."


def main(arguments: list[str] | None = None) -> None:
    """Run one command; say in one line what went wrong, and leave with the exit code that fits."""
    warnings.formatwarning = _one_line
    given = sys.argv[1:] if arguments is None else arguments
    verbosity = Verbosity.of(given)
    try:
        words = read_arguments(given)
        verbosity.apply()
        _finish_erasures(words)
        with running_command(command_line(words)), storing(), models_run(words) as own_words:
            app(own_words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        verbosity.trace()
        _fail(f"{_usage(error, given)}\nTry: {' '.join(('palate', *(error.command_chain or ()), '--help'))}")
    except PalateError as error:
        verbosity.trace()
        _fail(str(error))
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        _fail(f"{OUT_OF_MEMORY}\n{'. '.join(str(error).split('. ')[:2])}.")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in FULL:
            raise
        verbosity.trace()
        place = f" {error.filename}" if error.filename else ""
        _fail(f"cannot write{place}: {error.strerror}. {NO_ROOM}")
    except KeyboardInterrupt:
        print("stopped; everything so far is saved. Run the same command again to resume.", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)


KINDS = {"int": "a whole number", "float": "a number"}


def _usage(error: CycloptsError, given: list[str]) -> str:
    """What is wrong with a command line, in words of people, and in which file where it is not in what was typed."""
    said = str(error)
    if isinstance(error, MissingArgumentError):
        command = " ".join(error.command_chain or ())
        typed = error.keyword or (error.argument is not None and error.argument.tokens)
        said = said.replace(f'Command "{command}" parameter ', f"palate {command}: ")
        said = said.replace("requires an argument", "needs a value" if typed else "is missing")
    if isinstance(error, CoercionError) and error.token is not None:
        for name, kind in KINDS.items():
            said = said.replace(
                f'unable to convert "{error.token.value}" into {name}', f'"{error.token.value}" is not {kind}'
            )
    option = getattr(getattr(error, "token", None), "keyword", None)
    if isinstance(error, UnknownOptionError) and " Did you mean --" in said:
        head, _, near = said.partition(" Did you mean --")
        typed = (option or error.token.value).lstrip("-").partition("=")[0]  # dashes make any two options alike
        said = said if did_you_mean(typed, [near.rstrip("?")]) else head
    file = config_file(given)
    if file and option and not any(word.partition("=")[0] == option for word in given):
        said = f"{file}: {said}"
    return said


def _finish_erasures(arguments: list[str]) -> None:
    """A user who was to be erased when the machine crashed is erased before anything else; `forget` does so itself."""
    if not arguments or {"--help", "-h", "--version"} & set(arguments) or arguments[0] == "forget":
        return
    if not unfinished_erasures():
        return
    from palate.data import Pseudonyms, pseudonym_key
    from palate.privacy import finish_erasures

    try:
        with storing():
            receipts = finish_erasures(Pseudonyms(pseudonym_key()))
        for receipt in receipts:
            _say(f"finished the erasure of {', '.join(receipt.users)}, which was interrupted")
    except Exception as error:  # whatever it is, it must not stop every command
        why = str(error) if isinstance(error, PalateError) else describe_error(error)
        _say(f"an erasure was interrupted and cannot be finished yet: {why}")


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of palate's own as palate says everything; of another package as Python does."""
    if Path(__file__).parents[1] in Path(filename).parents:
        return in_lines(printable(with_addresses(f"palate: {message}\n")), sys.stderr)
    return printable(f"{filename}:{lineno}: {category.__name__}: {message}\n")


def _out_of_memory(error: RuntimeError) -> bool:
    torch = sys.modules.get("torch")  # who has not loaded it has not filled a GPU
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _fail(message: str) -> None:
    _say(message)
    sys.exit(BAD_INPUT)


def _say(message: str) -> None:
    """On standard error; a message may quote an id or a line of somebody's file."""
    print(in_lines(printable(with_addresses(f"palate: {message}")), sys.stderr), file=sys.stderr)  # noqa: T201
