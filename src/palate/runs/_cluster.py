"""A run on many machines: workers of Ray measure its shards, and this process merges them.

Workers do what `--shard K/N` does, in the same folders. So nothing depends on who measures which shard, nor on how
often a worker dies: another one resumes in the folder of the shard.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from palate import __version__
from palate.records import PalateError, current_command, running_command
from palate.runs._experiment import Reading, RunSummary, conclude
from palate.runs._ledger import AnotherWriterError, write_whole
from palate.runs._merge import merge_runs
from palate.runs._models import Progress, keep_models, no_progress
from palate.runs._settings import environment
from palate.runs._setup import as_benchmark
from palate.runs._shards import Shard, TooManyShardsError

Given = ParamSpec("Given")
SummaryType = TypeVar("SummaryType", bound=RunSummary)

PROGRESS = "progress.json"
"""In the folder of a shard while a worker measures it."""
SHARDS_A_WORKER = 4
"""So that workers end at about the same time, and the loss of one costs little."""
MAX_DEATHS = 5
"""Workers that may die in a row at one shard without a new line."""
PATIENCE = 30
"""Seconds to wait for a process that still writes to a shard, such as one whose machine was thought lost."""
PASSED_ON = ("PALATE_DATA", "PALATE_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "PALATE_DEVICE", "PALATE_DTYPE")
"""Variables that workers take from here. Keys of servers are not among them: Ray would show them."""
KEPT = "Everything that was written is kept. Run the same command again to resume."


class Told(msgspec.Struct, frozen=True):
    """What `progress.json` holds."""

    host: str
    pid: int
    done: int
    total: int


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker measures a shard of."""

    measure: Any
    args: tuple[Any, ...]
    given: dict[str, Any]
    folder: str
    """Where the command was given; relative paths mean the same to a worker."""
    out: str
    probe: str
    """A file in `out` that a worker must see, and what is in it."""
    secret: str
    variables: dict[str, str]
    command: str
    """The command line, which runs keep."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself before it is given anything."""

    host: str
    versions: dict[str, str]
    fault: str | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a shard."""

    host: str
    run: str = ""
    """The name of the run folder."""
    users: int | None = None
    """How many there are, where there are fewer users than shards."""
    failed: str | None = None


class Worker:
    """Measures one shard after another in a process of its own. Its models and the benchmark are read once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._host = socket.gethostname()
        self._benchmark: Any = None

    def hello(self) -> Hello:
        """The versions here, and whether the folders of the command are seen from here."""
        os.environ.update(self._job.variables)
        keep_models()
        return Hello(host=self._host, versions=_versions(), fault=self._fault())

    def _fault(self) -> str | None:
        job = self._job
        try:
            os.chdir(job.folder)
        except OSError as error:
            return f"cannot work in {job.folder} ({error.strerror}). All machines need the folder of the command"
        try:
            seen = (Path(job.out) / job.probe).read_text()
            write_whole(Path(job.out) / f"{job.probe}-{self._host}-{os.getpid()}", job.secret.encode())
        except OSError as error:
            return f"cannot use {Path(job.out).absolute()} ({error.strerror}). --out must be a folder that all share"
        if seen != job.secret:
            return f"sees another {Path(job.out).absolute()}. --out must be a folder that all machines share"
        return None

    def measure(self, shard: Shard) -> Outcome:
        """Measure or resume one shard."""
        folder = Path(self._job.out) / shard.folder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / PROGRESS
        try:
            return self._measured(shard, file)
        except TooManyShardsError as error:
            return Outcome(host=self._host, users=error.users)
        except (PalateError, MemoryError, RuntimeError) as error:
            full = any(words in f"{type(error).__name__}: {error}" for words in ("MemoryError", "out of memory"))
            if not full and not isinstance(error, PalateError):
                raise
            advice = " Out of memory: take fewer --workers or a smaller model" if full else ""
            return Outcome(host=self._host, failed=f"{str(error).rstrip('.')}.{advice}")
        finally:
            file.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()  # only where nothing was begun

    def _measured(self, shard: Shard, file: Path) -> Outcome:
        job, told = self._job, 0.0

        def tell(what: str, done: int, total: int) -> None:
            nonlocal told
            if time.monotonic() - told > 1:
                told = time.monotonic()
                write_whole(file, msgspec.json.encode(Told(self._host, os.getpid(), done, total)))

        tell("", 0, 0)
        if self._benchmark is None:
            self._benchmark = as_benchmark(job.args[0], job.given.get("data_dir"))
        patience_ends = time.monotonic() + PATIENCE
        while True:
            try:
                given = {**job.given, "out": job.out, "shard": str(shard), "progress": tell}
                with running_command(job.command):
                    summary = job.measure(self._benchmark, *job.args[1:], **given)
                return Outcome(host=self._host, run=Path(summary.run).name)
            except AnotherWriterError:
                if time.monotonic() > patience_ends:
                    raise
                time.sleep(0.5)


def measure_on_cluster(
    cluster: str,
    workers: int | None,
    measure: Callable[Given, SummaryType],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> SummaryType:
    """The same as `measure(*args, **kwargs)`, measured in shards by the workers of a Ray cluster.

    `cluster` is `ray` for workers on this machine, `auto` for the cluster that it belongs to, or `ray://host:port`.
    By default there is a worker for each GPU, or where there is none for each core.
    """
    given: dict[str, Any] = dict(kwargs)
    progress: Progress = given.pop("progress", None) or no_progress
    out, reading = Path(given.pop("out", "runs")), Reading(resample=given.get("resample", "auto"))
    given.pop("shard", None)
    if workers is not None and workers < 1:
        raise PalateError(f"--workers is a number from 1; {workers} was given")
    progress("starting workers", 0, 1)
    with _probe(out) as (probe, secret), _connected(cluster, workers) as (ray, count, gpus):
        job = Job(
            measure=measure, args=args, given=given, folder=str(Path.cwd()), out=str(out), probe=probe, secret=secret,
            variables={name: os.environ[name] for name in PASSED_ON if name in os.environ}, command=current_command(),
        )  # fmt: skip
        shards = _Driver(ray, job, count, gpus, progress).measure()
    merged = merge_runs(shards, out, progress)
    summary: SummaryType = conclude(merged, merged.experiment, reading)
    return summary


class _Driver:
    """Gives shards to workers until all are measured, and hires another worker where one died."""

    def __init__(self, ray: Any, job: Job, workers: int, gpus: bool, progress: Progress) -> None:
        self._ray, self._job, self._workers, self._progress = ray, job, workers, progress
        self._remote = ray.remote(num_cpus=1, num_gpus=int(gpus), max_restarts=0, max_task_retries=0)(Worker)
        self._out = Path(job.out)
        self._plan = self._out / f"shard-plan-{_hash(job)}.json"
        self._running: dict[Any, tuple[Any, Shard | None]] = {}
        self._versions: dict[str, str] = {}
        self._deaths: Counter[Shard | None] = Counter()
        self._written: dict[Shard | None, int] = {}
        self._divide(self._planned() or SHARDS_A_WORKER * workers)

    def _planned(self) -> int | None:
        """The number of shards that this command has had before: other shards would begin again."""
        try:
            return max(1, msgspec.json.decode(self._plan.read_bytes(), type=int))
        except (OSError, msgspec.DecodeError):
            return None

    def _divide(self, count: int) -> None:
        self._count = count
        self._waiting = deque(Shard(number, count) for number in range(1, count + 1))
        self._done: dict[Shard, Outcome] = {}
        self._totals: dict[Shard, Told] = {}
        write_whole(self._plan, msgspec.json.encode(count))

    def measure(self) -> list[Path]:
        """The folders of all shards."""
        from ray.exceptions import RayError, RayTaskError

        try:
            while len(self._done) < self._count:
                self._hire()
                ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=0.5)
                self._tell()
                for reference in ready:
                    worker, shard = self._running.pop(reference)
                    try:
                        answer = self._ray.get(reference)
                    except RayTaskError:
                        raise  # a fault of the code, which would come again
                    except RayError as error:
                        self._lost(shard, error)
                        continue
                    if shard is None:
                        self._greet(answer)
                    else:
                        self._take(shard, answer)
                    self._assign(worker)
        finally:
            for worker, _ in self._running.values():
                self._ray.kill(worker)
        return [self._out / shard.folder / outcome.run for shard, outcome in sorted(self._done.items(), key=_number)]

    def _hire(self) -> None:
        new = sum(shard is None for _, shard in self._running.values())
        for _ in range(min(self._workers - len(self._running), len(self._waiting) - new)):
            worker = self._remote.remote(self._job)
            self._running[worker.hello.remote()] = (worker, None)

    def _assign(self, worker: Any) -> None:
        if self._waiting:
            shard = self._waiting.popleft()
            self._running[worker.measure.remote(shard)] = (worker, shard)
        else:
            self._ray.kill(worker)

    def _greet(self, hello: Hello) -> None:
        if hello.fault:
            raise PalateError(f"the worker on {hello.host} {hello.fault}.")
        if not list(self._out.glob(f"{self._job.probe}-{hello.host}-*")):
            raise PalateError(
                f"the worker on {hello.host} wrote to another {self._out.absolute()}. --out must be a folder that all "
                "machines share."
            )
        here = {name: version.partition("+")[0] for name, version in _versions().items()}
        there = {name: version.partition("+")[0] for name, version in hello.versions.items()}
        _require_same("this machine", here, hello.host, there)
        self._versions = self._versions or hello.versions  # among workers the builds must be the same, too
        _require_same("another worker", self._versions, hello.host, hello.versions)

    def _take(self, shard: Shard, outcome: Outcome) -> None:
        if shard.of != self._count:
            return  # of a division that was given up
        if outcome.users is not None:
            self._divide(outcome.users)
        elif outcome.failed is not None:
            raise PalateError(f"the worker on {outcome.host}: {outcome.failed.rstrip('.')}. {KEPT}")
        else:
            for other in self._done.values():
                if other.run != outcome.run:
                    raise PalateError(
                        f"the workers on {other.host} and {outcome.host} measure different runs ({other.run} and "
                        f"{outcome.run}): their data or the files of their models differ. Make them the same. {KEPT}"
                    )
            self._done[shard] = outcome

    def _lost(self, shard: Shard | None, error: Exception) -> None:
        """A worker died. Its shard is resumed by another, unless one after another dies without a new line."""
        if shard is not None and shard.of != self._count:
            return
        said = " ".join(str(error).split())
        if "No module named 'palate'" in said:
            raise PalateError("a worker has no palate. Install the same version of palate on all machines.") from error
        written = 0
        if shard is not None:
            self._waiting.append(shard)
            written = sum(file.stat().st_size for file in (self._out / shard.folder).rglob("*.jsonl"))
        if written != self._written.get(shard, 0):
            self._deaths[shard] = 0
        self._written[shard] = written
        self._deaths[shard] += 1
        if self._deaths[shard] >= MAX_DEATHS:
            when = f"at shard {shard}" if shard else "before they could begin"
            raise PalateError(
                f"{MAX_DEATHS} workers died {when}, one after another, without a new line. Most often a machine is out "
                f"of memory: take fewer --workers or a smaller model. {KEPT} Ray says: {said[:400]}"
            ) from error

    def _tell(self) -> None:
        measured = [shard for _, shard in self._running.values() if shard is not None and shard.of == self._count]
        for shard in measured:
            with suppress(OSError, msgspec.DecodeError):
                told = msgspec.json.decode((self._out / shard.folder / PROGRESS).read_bytes(), type=Told)
                self._totals[shard] = told
        known = [told.total for told in self._totals.values() if told.total]
        if not known:
            self._progress("starting workers", 0, 1)
            return
        each = sum(known) / len(known)  # shards are of like size
        done = sum(
            each if shard in self._done else min(told.done, told.total) for shard, told in self._totals.items()
        ) + each * len(self._done.keys() - self._totals.keys())
        what = f"{len(self._done)} of {self._count} shards done, {len(measured)} of {self._workers} workers at work"
        self._progress(what, round(done), round(each * self._count))


def _number(one: tuple[Shard, Outcome]) -> int:
    return one[0].number


def _hash(job: Job) -> str:
    """Changes with the command, but not with where and by how many it is run."""
    told = repr((job.measure.__qualname__, job.args, sorted(job.given.items())))
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def _versions() -> dict[str, str]:
    return {"palate": __version__, **{name: one for name, one in environment().items() if name != "platform"}}


def _require_same(one: str, mine: Mapping[str, str], host: str, theirs: Mapping[str, str]) -> None:
    if differ := [
        f"{name} {mine.get(name, 'none')} and {theirs.get(name, 'none')}"
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    ]:
        raise PalateError(
            f"{one} and the worker on {host} have different versions: {', '.join(differ)}. Scores may depend on them; "
            "install the same on all machines."
        )


@contextmanager
def _probe(out: Path) -> Iterator[tuple[str, str]]:
    """A file that workers must see, by which it is known that they share the folder."""
    name, secret = f".probe-{secrets.token_hex(6)}", secrets.token_hex(16)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / name, secret.encode())
    except OSError as error:
        raise PalateError(
            f"cannot write to {out}: {error.strerror or error}. Choose another place with --out."
        ) from error
    try:
        yield name, secret
    finally:
        for file in out.glob(f"{name}*"):
            file.unlink(missing_ok=True)


@contextmanager
def _connected(cluster: str, workers: int | None) -> Iterator[tuple[Any, int, bool]]:
    """Ray, the number of workers to hire, and whether each takes a GPU."""
    if cluster not in ("ray", "auto") and not cluster.startswith("ray://"):
        raise PalateError(
            f"--cluster {cluster}: write ray for workers on this machine, auto for the Ray cluster that this machine "
            "belongs to, or ray://host:port"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for network use
    ray = _require_ray()
    if ray.is_initialized():
        yield (ray, *_size(ray, workers))
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with _private_folder() as folder:
        try:
            if cluster == "ray":
                cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
                room = shutil.disk_usage("/dev/shm").free // 4 if Path("/dev/shm").is_dir() else 2**28
                ray.init(
                    address="local", num_cpus=max(workers or cores, cores), include_dashboard=False,
                    object_store_memory=min(2**28, max(80 * 2**20, room)), _temp_dir=f"{folder}/ray", **quiet,
                )  # fmt: skip
            else:
                _require_answer(cluster)
                ray.init(address=cluster, **quiet)
        except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
            raise PalateError(
                f"no Ray cluster answers at {cluster} ({str(error).strip().partition(chr(10))[0]}). Start one with "
                "`ray start --head`, or use --cluster ray for workers on this machine. A cluster that wants a token "
                "does not answer without it: see Ray's documentation on authentication."
            ) from error
        try:
            yield (ray, *_size(ray, workers))
        finally:
            ray.shutdown()


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Where Ray may make the folder of its sockets and logs: it opens that to everybody, and never removes it."""
    place = os.environ.get("RAY_TMPDIR") or "/tmp"  # short: the name of a socket has 107 characters at most
    try:
        folder = Path(tempfile.mkdtemp(prefix="ray-", dir=place if Path(place).is_dir() else None))
    except OSError as error:
        raise PalateError(f"Ray needs a folder in {place}: {error.strerror or error}. Set RAY_TMPDIR.") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise PalateError(
            f"--cluster needs the package 'ray' ({error}). Install it: pip install 'palate[cluster]'"
        ) from error
    return ray


def _require_answer(cluster: str) -> None:
    """Whether anything listens there: Ray itself would try for half a minute."""
    if not cluster.startswith("ray://"):
        return
    host, _, port = cluster.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise PalateError(f"--cluster {cluster}: write the host and the port, such as ray://head:10001")
    with socket.create_connection((host, int(port)), timeout=5):
        pass


def _size(ray: Any, workers: int | None) -> tuple[int, bool]:
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    return workers or gpus or max(1, int(resources.get("CPU", 1))), gpus > 0
