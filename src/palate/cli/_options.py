"""Options that several commands share, each written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.types import NonNegativeInt

COMMON = "Parameters"
"""The group of a command's own options, which stands first."""
SAMPLING = Group("Sampling", sort_key=1)
VIEWS = Group("What models see of a user", sort_key=2)
GENERAL = Group("General quality", sort_key=3)
RESULT = Group("Data and results", sort_key=9)

Many = Annotated[list[str] | None, Parameter(negative="")]


def _any(kind: object, value: object) -> None:
    """Lets a folder be in a bucket; elsewhere an address is refused."""


IN_BUCKET = Parameter(validator=_any)
Folder = Annotated[Path, IN_BUCKET]
"""A folder of this machine or of a bucket."""
Folders = Annotated[list[Path] | None, Parameter(negative=""), IN_BUCKET]
OUTPUT = Parameter(name=["--output", "-o"])
Written = Annotated[Path | None, OUTPUT]
"""What a command writes. `--out` is the folder of run folders."""
Flag = Annotated[bool, Parameter(negative="")]
Resample = Literal["auto", "users", "users-and-items"]


@Parameter(name="*", group=VIEWS)
@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """How users are shown to models."""

    retriever: str = "bm25"
    """How history is picked: `bm25`, `minilm`, `contriever`, `recent`, `random`, or `./file.py:Name`."""
    writer: str = "smollm2"
    """Language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server."""
    budget: str | None = None
    """Maximum size of a profile, such as `words:300` or `tokens:500`. The least relevant pieces are dropped first."""
    limit: Annotated[int | None, Parameter(group=COMMON)] = None
    """Maximum number of items, drawn by the seed."""

    @property
    def given(self) -> dict[str, Any]:
        """As the functions take it."""
        return {name: getattr(self, name) for name in ("retriever", "writer", "budget", "limit")}


@Parameter(name="*", group=RESULT)
@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """How a result is printed."""

    json: Flag = False
    """Print one JSON object, and nothing else, on standard output."""


@Parameter(name="*", group=RESULT)
@dataclass(frozen=True, kw_only=True)
class DataOptions(JsonOption):
    """Where data sets lie."""

    data: Path | None = None
    """Folder of data sets that palate does not ship [default: $PALATE_DATA]."""

    @property
    def given(self) -> dict[str, Any]:
        """As the functions take it."""
        return {"data_dir": self.data}


@Parameter(name="*", group=RESULT)
@dataclass(frozen=True, kw_only=True)
class SeedOptions(DataOptions):
    """What is drawn at random."""

    seed: NonNegativeInt = 0
    """Seed of everything that is drawn at random."""

    @property
    def given(self) -> dict[str, Any]:
        """As the functions take it."""
        return {**super().given, "seed": self.seed}


@Parameter(name="*", group=RESULT)
@dataclass(frozen=True, kw_only=True)
class RunOptions(SeedOptions):
    """Where a run goes and how it is drawn."""

    out: Path = Path("runs")
    """Folder in which run folders are made, here or in a bucket, such as `s3://bucket/runs`."""

    @property
    def folder(self) -> Path:
        """Where run folders are made on this machine; a bucket that cannot be written is refused."""
        from palate.runs import folder_for_runs

        return folder_for_runs(self.out)

    @property
    def given(self) -> dict[str, Any]:
        """As the functions take it."""
        return {**super().given, "out": self.folder}


@Parameter(name="*", group=RESULT)
@dataclass(frozen=True, kw_only=True)
class LoggedRunOptions(RunOptions):
    """The same for runs whose numbers can be logged elsewhere too."""

    log: Many = None
    """Log the numbers, without single users, to `wandb`, `mlflow`, `tensorboard` or `./file.py:Name`; may be
    repeated."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ShardOptions(LoggedRunOptions):
    """Where a run goes, how it is drawn, and how much of it is measured here."""

    shard: str | None = None
    """Measure the items of one share of the users, such as `3/8`. `palate merge` joins the shares."""
    cluster: str | None = None
    """Measure in shards on a Ray cluster: `ray` for workers on this machine, `auto` or `ray://host:port`."""
    workers: int | None = None
    """Number of workers on the cluster [default: one for each GPU, else one for each core]."""
    dry_run: Annotated[Flag, Parameter(group=COMMON)] = False
    """Say what the run would take, in calls, tokens, money and minutes. Asks no server, keeps nothing."""

    @property
    def given(self) -> dict[str, Any]:
        """As the functions take it."""
        return {**super().given, "shard": self.shard}


@Parameter(name="*", group=SAMPLING)
@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How a policy samples."""

    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = 16
    """N, the number of samples for each prompt."""
    temperature: float = 1.0
    """Sampling temperature; 0 takes the likeliest token every time."""
    top_p: float = 0.9
    """Nucleus sampling: the share of probability that is drawn from."""
    tokens: int = 256
    """Maximum number of tokens of a text."""


@Parameter(name="*", group=GENERAL)
@dataclass(frozen=True, kw_only=True)
class GeneralOptions:
    """Whether what everybody wants is still known once a model knows the person."""

    general: str | None = None
    """Benchmark of general pairs, such as `convarg` or `reward-bench`: accuracy on it with and without each user's
    profile. Where several people judged a pair, what most chose counts."""
    margin: float = 0.02
    """Change of general accuracy that still counts as none, such as 0.02 for 2 points."""
    general_users: int = 60
    """Users, at most, who are asked about general pairs."""
    general_pairs: int = 20
    """General pairs, at most, that each of them is asked about. More of either narrow the interval."""
