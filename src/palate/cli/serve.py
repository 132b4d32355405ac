"""`palate serve`: reward models behind HTTP, for other trainers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from palate.serve._models import Served


def serve(
    *,
    rm: Annotated[list[str], Parameter(negative="")],
    benchmark: str | None = None,
    view: str | None = None,
    retriever: str = "bm25",
    budget: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8300,
    max_wait_ms: float = 5,
    batch: int = 256,
    queue: int = 1024,
    max_bytes: int = 16 * 2**20,
    max_responses: int = 4096,
    connections: int = 4096,
    header_timeout: float = 10,
    token_file: Path | None = None,
    data: Path | None = None,
) -> None:
    """Serve reward models over HTTP until you stop it.

    Speaks palate's own protocol, so that `--rm http:ADDRESS` works, and that of OpenRLHF's remote reward URL at
    `/get_reward`. A server that others can reach needs a token: PALATE_SERVE_TOKEN in the
    environment, or `--token-file` for tokens that may name certain users only.

    Parameters
    ----------
    rm
        A reward model; may be repeated. The first is at `/`, number N at `/models/N`.
    benchmark
        Benchmark whose users the server knows by id: a name or a path. Without it, each request must contain the view.
    view
        What the model sees of such a user, such as `posts:5`. By default the richest profile there is.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    budget
        Maximum size of a profile, such as `words:300` or `tokens:500`.
    host
        The address to listen on.
    port
        The port to listen on; 0 picks a free one.
    max_wait_ms
        How long to wait for another request before rating a batch, in milliseconds.
    batch
        Number of responses rated at a time, approximately.
    queue
        Maximum number of requests held at a time. Further requests get 503 with Retry-After.
    max_bytes
        Maximum size of a request body, in bytes.
    max_responses
        Maximum number of responses in one request.
    connections
        Maximum number of connections. Fewer where the process may not open as many files (`ulimit -n`).
    header_timeout
        Seconds a client has to send the head of a request. Slower connections are closed.
    token_file
        TOML file of tokens, each with the users that it may name.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    """
    from palate.cli._arguments import SAYS
    from palate.cli._show import progress_bar
    from palate.records import PalateError
    from palate.report import make_console
    from palate.serve import Profiles, ServeSettings
    from palate.serve import serve as run

    if benchmark is None and view is not None:
        raise PalateError(f"--view {view} is built from a benchmark: name it with --benchmark")
    settings = ServeSettings(
        host=host,
        port=port,
        wait=max_wait_ms / 1000,
        batch=batch,
        queue=queue,
        max_bytes=max_bytes,
        max_responses=max_responses,
        connections=connections,
        head_seconds=header_timeout,
        token_file=token_file,
    )
    profiles = (
        partial(Profiles, benchmark, view, retriever=retriever, budget=budget, data_dir=data) if benchmark else None
    )
    with ExitStack() as loading:
        progress = loading.enter_context(progress_bar())
        make_console(stderr=True, quiet=not SAYS["progress"]).print(
            f"Loading {', '.join(rm)}.", markup=False, highlight=False, soft_wrap=True
        )

        def show(address: str, served: Sequence[Served]) -> None:
            loading.close()
            announce(address, served)

        run(rm, settings, profiles=profiles, progress=progress, on_start=show)


def announce(address: str, served: Sequence[Served]) -> None:
    """Where to find which model. The last line tells a waiting script that requests are taken."""
    from palate.report import make_console

    console = make_console(stderr=True)
    for one in served:
        where = address if one.number == 1 else f"{address}/models/{one.number}"
        console.print(f"{one.model.name}  {one.fingerprint}  {where}", markup=False, highlight=False, soft_wrap=True)
    console.print("Taking requests. Stop with Ctrl-C.", markup=False, highlight=False)
