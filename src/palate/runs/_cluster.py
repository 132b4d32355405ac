"""Work on many machines: a pool of Ray's workers does one task after another, whatever dies.

A task is a shard of a run, which does what `--shard K/N` does in the same folder, or a cell of a study. Everything that
a task makes is in folders that all machines share. So nothing depends on who does which task, nor on how often a worker
dies: another one resumes in the same folders.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import msgspec

from palate import __version__
from palate.records import PalateError, current_command, running_command
from palate.runs._experiment import Reading, RunSummary, conclude
from palate.runs._ledger import AnotherWriterError, is_alive, remove_drafts, write_whole
from palate.runs._merge import merge_runs
from palate.runs._models import Progress, keep_models, no_progress
from palate.runs._run import hearing_of_runs
from palate.runs._settings import environment
from palate.runs._setup import as_benchmark
from palate.runs._shards import Shard, TooManyShardsError

Given = ParamSpec("Given")
SummaryType = TypeVar("SummaryType", bound=RunSummary)
TaskType = TypeVar("TaskType")
AnswerType = TypeVar("AnswerType")

PROGRESS = "progress.json"
"""In the folder of a shard while a worker measures it."""
SHARDS_A_WORKER = 4
"""So that workers end at about the same time, and the loss of one costs little."""
MAX_DEATHS = 5
"""Workers that may die in a row at one task without a new line."""
PATIENCE = 30
"""Seconds to wait for a process that still writes to a shard, such as one whose machine was thought lost."""
CONNECT_SECONDS = 60
"""For how long a cluster may leave us without an answer."""
CONNECT = """
import logging, sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
"""
WRONG_TOKEN = ("Authentication token is missing or incorrect", "InvalidAuthToken")
"""In what Ray says to those whom it does not know."""
PASSED_ON = ("PALATE_DATA", "PALATE_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "PALATE_DEVICE", "PALATE_DTYPE")
"""Variables that workers take from here. Keys of servers are not among them: Ray would show them."""
KEPT = "Everything that was written is kept. Run the same command again to resume."


class Work(ABC, Generic[TaskType, AnswerType]):
    """What workers do with tasks. Each worker has a copy."""

    def hired(self) -> None:
        """Called once in every worker, before its first task."""

    @abstractmethod
    def note(self, task: TaskType) -> str:
        """The file in `--out` in which a worker says how far it is, as long as it is at this task."""

    @abstractmethod
    def do(self, task: TaskType, progress: Progress) -> AnswerType:
        """Do or resume one task."""


class Note(msgspec.Struct, frozen=True):
    """What a worker says of its task while it is at it."""

    host: str
    pid: int
    done: float = 0
    total: int = 0
    runs: list[str] = []
    """The folders of runs that the task has begun or resumed."""

    @property
    def written(self) -> int:
        """Bytes of lines in these runs."""
        return sum(file.stat().st_size for run in self.runs for file in Path(run).glob("*.jsonl"))


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker is told when it is hired."""

    work: Any
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


class Lost(NamedTuple):
    """No worker can do this task: one after another died at it without a new line."""

    reason: str


class Worker:
    """Does one task after another in a process of its own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._host = socket.gethostname()

    def hello(self) -> Hello:
        """The versions here, and whether the folders of the command are seen from here."""
        os.environ.update(self._job.variables)
        self._job.work.hired()
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

    def do(self, task: Any) -> Any:
        """Do or resume one task, and tell beside its folder how far it is."""
        file = Path(self._job.out) / self._job.work.note(task)
        file.parent.mkdir(parents=True, exist_ok=True)
        runs: list[str] = []
        count, told = (0.0, 0), 0.0

        def write() -> None:
            write_whole(file, msgspec.json.encode(Note(self._host, os.getpid(), *count, runs)))

        def begun(run: Path) -> None:
            if str(run) not in runs:
                runs.append(str(run))
                write()

        def tell(what: str, done: float, total: int) -> None:
            nonlocal count, told
            count = (done, total)
            if time.monotonic() - told > 1:
                told = time.monotonic()
                write()

        try:
            write()
            with running_command(self._job.command), hearing_of_runs(begun):
                return self._job.work.do(task, tell)
        finally:
            file.unlink(missing_ok=True)
            with suppress(OSError):
                file.parent.rmdir()  # only where nothing was begun


class Pool(Generic[TaskType, AnswerType]):
    """Workers who do tasks. Where one dies, another is hired, and its task resumes."""

    def __init__(self, ray: Any, job: Job, workers: int, gpus: bool) -> None:
        self.workers = workers
        self._ray, self._job = ray, job
        self._remote = ray.remote(num_cpus=1, num_gpus=int(gpus), max_restarts=0, max_task_retries=0)(Worker)
        self._out = Path(job.out)
        self._idle: list[Any] = []
        self._greeting: dict[Any, Any] = {}
        """Workers who have not said hello yet, by what stands for their answer; and below those at work."""
        self._busy: dict[Any, tuple[Any, TaskType]] = {}
        self._waiting: deque[TaskType] = deque()
        self._versions: dict[str, str] = {}
        self._deaths: Counter[TaskType | None] = Counter()
        self._written: dict[TaskType, int] = {}

    def run(
        self,
        tasks: Sequence[TaskType],
        *,
        begun: Callable[[TaskType], None] | None = None,
        tick: Callable[[], None] | None = None,
        keep: bool = False,
    ) -> Iterator[tuple[TaskType, AnswerType | Lost]]:
        """Do all tasks; each comes back when it is done. `tick` is called every half a second or sooner.

        Whoever stops listening leaves tasks undone: those that wait are forgotten, and the answers of those at work are
        not heard. Workers with nothing to do are let go, unless there will be more for them (`keep`).
        """
        from ray.exceptions import RayError, RayTaskError

        self._waiting = deque(tasks)
        left = set(tasks)
        while left:
            self._assign(begun, keep=keep)
            ready, _ = self._ray.wait([*self._greeting, *self._busy], num_returns=1, timeout=0.5)
            if tick is not None:
                tick()
            for reference in ready:
                worker, task = self._busy.pop(reference, (None, None))
                worker = worker or self._greeting.pop(reference)
                try:
                    answer = self._ray.get(reference)
                except RayTaskError as error:
                    _require_palate(error)
                    raise  # a fault of the code, which would come again
                except RayError as error:
                    lost = self._lost(task, task in left, error)
                    if lost is not None and task is not None:
                        left.remove(task)
                        yield task, lost
                    continue
                if task is None:
                    self._greet(answer)
                self._idle.append(worker)
                if task in left:  # not one that nobody listens to any more
                    left.remove(task)
                    yield task, answer
        self._assign(None, keep=keep)

    def notes(self) -> dict[TaskType, Note]:
        """How far the tasks are that workers are at."""
        found = {task: self._note(task) for _, task in self._busy.values()}
        return {task: note for task, note in found.items() if note is not None}

    @property
    def at_work(self) -> int:
        """How many workers are at a task."""
        return len(self._busy)

    def close(self) -> None:
        """Let all workers go at once."""
        for worker in (*self._idle, *self._greeting.values(), *(worker for worker, _ in self._busy.values())):
            self._ray.kill(worker)

    def _assign(self, begun: Callable[[TaskType], None] | None, *, keep: bool) -> None:
        while self._waiting and self._idle:
            worker, task = self._idle.pop(), self._waiting.popleft()
            self._busy[worker.do.remote(task)] = (worker, task)
            if begun is not None:
                begun(task)
        while self._idle and not keep:
            self._ray.kill(self._idle.pop())
        room = self.workers - len(self._busy) - len(self._greeting)
        for _ in range(min(room, len(self._waiting) - len(self._greeting))):
            try:
                worker = self._remote.remote(self._job)
                self._greeting[worker.hello.remote()] = worker
            except (ImportError, AttributeError) as error:  # what a cluster far away cannot read of what we send
                _require_palate(error)
                raise

    def _greet(self, hello: Hello) -> None:
        self._deaths[None] = 0
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

    def _lost(self, task: TaskType | None, heard: bool, error: Exception) -> Lost | None:
        """A worker died. Its task waits for another, unless one after another dies without a new line."""
        _require_palate(error)
        said = " ".join(str(error).split())
        if task is not None:
            remove_drafts((self._out / self._job.work.note(task)).parent)
            if not heard:
                return None
            note = self._note(task)
            written = note.written if note is not None else 0
            if written > self._written.get(task, 0):
                self._deaths[task] = 0
                self._written[task] = written
        self._deaths[task] += 1
        if self._deaths[task] < MAX_DEATHS:
            if task is not None:
                self._waiting.append(task)
            return None
        when = " before they could begin" if task is None else ""
        reason = (
            f"{MAX_DEATHS} workers died{when}, one after another, without a new line. Most often a machine is out of "
            f"memory: take fewer --workers or a smaller model. {KEPT} Ray says: {said[:400]}"
        )
        if task is None:
            raise PalateError(reason) from error
        (self._out / self._job.work.note(task)).unlink(missing_ok=True)
        return Lost(reason)

    def _note(self, task: TaskType) -> Note | None:
        try:
            return msgspec.json.decode((self._out / self._job.work.note(task)).read_bytes(), type=Note)
        except (OSError, msgspec.DecodeError):
            return None


@contextmanager
def hired_pool(
    cluster: str, workers: int | None, work: Work[TaskType, AnswerType], out: Path
) -> Iterator[Pool[TaskType, AnswerType]]:
    """A pool of workers who share the folder `out`.

    `cluster` is `ray` for workers on this machine, `auto` for the cluster that it belongs to, or `ray://host:port`.
    By default there is a worker for each GPU, or where there is none for each core.
    """
    require_workers(cluster, workers)
    with _probe(out) as (probe, secret), _connected(cluster, workers) as (ray, count, gpus):
        variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        job = Job(
            work=work, folder=str(Path.cwd()), out=str(out), probe=probe, secret=secret, variables=variables,
            command=current_command(),
        )  # fmt: skip
        pool: Pool[TaskType, AnswerType] = Pool(ray, job, count, gpus)
        try:
            yield pool
        finally:
            pool.close()


def require_workers(cluster: str | None, workers: int | None) -> None:
    """Refuse workers without a cluster, and a cluster without workers."""
    if workers is not None and cluster is None:
        raise PalateError("--workers is the number of workers on a cluster: add --cluster ray, or leave it out")
    if workers is not None and workers < 1:
        raise PalateError(f"--workers is a number from 1; {workers} was given")


# ---- A run in shards ------------------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a shard."""

    host: str
    run: str = ""
    """The name of the run folder."""
    users: int | None = None
    """How many there are, where there are fewer users than shards."""
    failed: str | None = None


class ShardWork(Work[Shard, Outcome]):
    """Measures one shard after another. The models and the benchmark are read once."""

    def __init__(self, measure: Any, args: tuple[Any, ...], given: dict[str, Any], out: Path) -> None:
        self.measure, self.args, self.given, self.out = measure, args, given, out
        self._benchmark: Any = None

    @property
    def hash(self) -> str:
        """Changes with the command, but not with where and by how many it is run."""
        told = repr((self.measure.__qualname__, self.args, sorted(self.given.items())))
        return hashlib.sha256(told.encode()).hexdigest()[:10]

    def hired(self) -> None:
        """Keeps models from one shard to the next."""
        keep_models()

    def note(self, task: Shard) -> str:
        """Beside its run."""
        return f"{task.folder}/{PROGRESS}"

    def do(self, task: Shard, progress: Progress) -> Outcome:
        """Measure or resume one shard."""
        host = socket.gethostname()
        try:
            return Outcome(host=host, run=self._measured(task, progress))
        except TooManyShardsError as error:
            return Outcome(host=host, users=error.users)
        except (PalateError, MemoryError, RuntimeError) as error:
            full = any(words in f"{type(error).__name__}: {error}" for words in ("MemoryError", "out of memory"))
            if not full and not isinstance(error, PalateError):
                raise
            advice = " Out of memory: take fewer --workers or a smaller model" if full else ""
            return Outcome(host=host, failed=f"{str(error).rstrip('.')}.{advice}")

    def _measured(self, shard: Shard, progress: Progress) -> str:
        if self._benchmark is None:
            self._benchmark = as_benchmark(self.args[0], self.given.get("data_dir"))
        patience_ends = time.monotonic() + PATIENCE
        while True:
            try:
                given = {**self.given, "out": str(self.out), "shard": str(shard), "progress": progress}
                return Path(self.measure(self._benchmark, *self.args[1:], **given).run).name
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
    """The same as `measure(*args, **kwargs)`, measured in shards by the workers of a Ray cluster (`hired_pool`)."""
    given: dict[str, Any] = dict(kwargs)
    progress: Progress = given.pop("progress", None) or no_progress
    out, reading = Path(given.pop("out", "runs")), Reading(resample=given.get("resample", "auto"))
    given.pop("shard", None)
    progress("starting workers", 0, 1)
    work = ShardWork(measure, args, given, out)
    with hired_pool(cluster, workers, work, out) as pool:
        shards = _Shards(pool, work, progress).measured()
    merged = merge_runs(shards, out, progress)
    summary: SummaryType = conclude(merged, merged.experiment, reading)
    return summary


class _Shards:
    """The shards of a run, until all are measured."""

    def __init__(self, pool: Pool[Shard, Outcome], work: ShardWork, progress: Progress) -> None:
        self._pool, self._out, self._progress = pool, work.out, progress
        self._plan = work.out / f"shard-plan-{work.hash}.json"
        self._count = self._planned() or SHARDS_A_WORKER * pool.workers
        self._done: dict[Shard, Outcome] = {}
        self._notes: dict[Shard, Note] = {}

    def _planned(self) -> int | None:
        """The number of shards that this command has had before: other shards would begin again."""
        try:
            return max(1, msgspec.json.decode(self._plan.read_bytes(), type=int))
        except (OSError, msgspec.DecodeError):
            return None

    def measured(self) -> list[Path]:
        """The folders of all shards."""
        users: int | None = self._count
        while users is not None:  # there are fewer than shards: divide again
            self._count = users
            self._done, self._notes = {}, {}
            write_whole(self._plan, msgspec.json.encode(self._count))
            users = self._users_or_all_done()
        return [self._out / shard.folder / outcome.run for shard, outcome in sorted(self._done.items(), key=_number)]

    def _users_or_all_done(self) -> int | None:
        shards = [Shard(number, self._count) for number in range(1, self._count + 1)]
        for shard, outcome in self._pool.run(shards, tick=self._tell):
            if isinstance(outcome, Lost):
                raise PalateError(f"shard {shard}: {outcome.reason}")
            if outcome.users is not None:
                return outcome.users
            self._take(shard, outcome)
        return None

    def _take(self, shard: Shard, outcome: Outcome) -> None:
        if outcome.failed is not None:
            raise PalateError(f"the worker on {outcome.host}: {outcome.failed.rstrip('.')}. {KEPT}")
        for other in self._done.values():
            if other.run != outcome.run:
                raise PalateError(
                    f"the workers on {other.host} and {outcome.host} measure different runs ({other.run} and "
                    f"{outcome.run}): their data or the files of their models differ. Make them the same. {KEPT}"
                )
        self._done[shard] = outcome

    def _tell(self) -> None:
        self._notes |= {shard: note for shard, note in self._pool.notes().items() if shard.of == self._count}
        known = [note.total for note in self._notes.values() if note.total]
        if not known:
            self._progress("starting workers", 0, 1)
            return
        each = sum(known) / len(known)  # shards are of like size
        done = sum(
            each if shard in self._done else min(note.done, note.total) for shard, note in self._notes.items()
        ) + each * len(self._done.keys() - self._notes.keys())
        at_work = f"{self._pool.at_work} of {self._pool.workers} workers at work"
        what = f"{len(self._done)} of {self._count} shards done, {at_work}"
        self._progress(what, round(done), round(each * self._count))


def _number(one: tuple[Shard, Outcome]) -> int:
    return one[0].number


# ---- What workers and this machine have to agree on, and how they are reached ----------------------------------------


def _versions() -> dict[str, str]:
    return {"palate": __version__, **{name: one for name, one in environment().items() if name != "platform"}}


def _require_palate(error: Exception) -> None:
    """Refuse workers who cannot read what they are sent."""
    said = str(error)
    if "No module named 'palate'" in said:
        raise PalateError("a worker has no palate. Install the same version of palate on all machines.") from error
    if "No module named 'palate." in said or ("Can't get attribute" in said and "palate." in said):
        raise PalateError(
            "a worker has another version of palate. Install the same version of palate on all machines."
        ) from error


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
    own = f".probe_{socket.gethostname()}_"  # no name of a host has a _ in it
    name, secret = f"{own}{os.getpid()}_{secrets.token_hex(6)}", secrets.token_hex(16)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in out.glob(f"{own}*"):  # of commands that were killed
            if not is_alive(int(file.name.removeprefix(own).partition("_")[0])):
                file.unlink(missing_ok=True)
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
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # of workers that died, on standard output; read on import
    if cluster != "ray" and "ray" not in sys.modules and _has_token():
        # Ray itself would not show it to a cluster that is there already. It reads this on import: set later, it would
        # hold for the processes that Ray starts and not for this one, which they then refuse.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
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


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or (Path.home() / ".ray" / "auth_token").is_file()


def _require_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise PalateError(
            f"--cluster needs the package 'ray' ({error}). Install it: pip install 'palate[cluster]'"
        ) from error
    return ray


def _require_answer(cluster: str) -> None:
    """Whether a Ray cluster answers there and lets us in, asked by a process that can be ended: Ray itself would try
    for minutes, and write what it tries on standard error."""
    if cluster.startswith("ray://"):
        host, _, port = cluster.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise PalateError(f"--cluster {cluster}: write the host and the port, such as ray://head:10001")
        with socket.create_connection((host, int(port)), timeout=5):
            pass
    with subprocess.Popen(
        [sys.executable, "-c", CONNECT, cluster], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as asking:
        guard = threading.Timer(CONNECT_SECONDS, asking.kill)
        guard.start()
        last = "it said nothing"
        try:
            assert asking.stdout is not None
            for line in asking.stdout:
                if any(words in line for words in WRONG_TOKEN):
                    asking.kill()
                    raise PalateError(
                        f"the Ray cluster at {cluster} does not know the token of this machine. Copy ~/.ray/auth_token "
                        "from the head of the cluster, or set RAY_AUTH_TOKEN; see Ray's documentation on authentication"
                    )
                last = line.strip() or last
            if asking.wait():
                raise ConnectionError(last if guard.is_alive() else f"no answer within {CONNECT_SECONDS} seconds")
        finally:
            guard.cancel()


def _size(ray: Any, workers: int | None) -> tuple[int, bool]:
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    return workers or gpus or max(1, int(resources.get("CPU", 1))), gpus > 0
