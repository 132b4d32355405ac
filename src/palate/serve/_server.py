"""Starts the server, which listens while its models are loaded, and stops it when what it took is finished."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from palate.engine import require
from palate.records import PalateError
from palate.serve._profiles import Profiles
from palate.serve._tokens import TOKEN_VARIABLE, Grant, environment_grant, read_grants

if TYPE_CHECKING:
    import uvicorn

    from palate.serve._models import Served

CONNECTIONS = 4096
HEAD_SECONDS = 10.0


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, and how much it takes."""

    host: str = "127.0.0.1"
    port: int = 8300
    wait: float = 0.005
    """Seconds to wait for one more request before a batch is rated."""
    batch: int = 256
    """Responses in one batch, about."""
    queue: int = 1024
    """Requests held at a time; further requests get 503 with Retry-After."""
    max_bytes: int = 16 * 2**20
    """Largest request body in bytes."""
    max_responses: int = 4096
    """The most responses in one request."""
    connections: int = CONNECTIONS
    """Connections at a time; fewer where the process may not open as many files."""
    head_seconds: float = HEAD_SECONDS
    """Seconds for the head of a request; a slower connection is closed."""
    token_file: Path | None = None
    """TOML file of tokens, each with the users that it may name."""


def serve(
    reward_models: Sequence[str],
    settings: ServeSettings | None = None,
    *,
    profiles: Callable[[], Profiles] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    on_start: Callable[[str, Sequence[Served]], None] | None = None,
) -> None:
    """Serve reward models until the process is told to stop; `on_start` is told the address and the loaded models.

    Has to be called in the main thread, which gets the signals: it loads the models, while another one answers.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module, "serve")
    from palate.serve._app import make_app
    from palate.serve._gate import Gate
    from palate.serve._models import Metrics, Models

    chosen = _checked(settings or ServeSettings())
    models = Models(reward_models)
    with _listen(chosen) as listener:
        grants, address = _grants(listener, chosen.token_file), _address(listener)
        metrics = Metrics()
        app = make_app(models, metrics, max_responses=chosen.max_responses)
        gate = Gate(
            app,
            metrics=metrics,
            grants=grants,
            queue=chosen.queue,
            max_bytes=chosen.max_bytes,
            host=chosen.host,
        )
        server = guarded_server(gate, connections=chosen.connections, head_seconds=chosen.head_seconds)

        def stop(number: int, frame: FrameType | None) -> None:
            gate.draining = True
            server.handle_exit(number, frame)
            if models.status == "loading":
                raise KeyboardInterrupt  # out of whatever is being loaded

        try:
            with _on_signal(stop), closing(models), ThreadPoolExecutor(1, "palate-http") as thread:
                running = thread.submit(server.run, sockets=[listener])
                try:
                    models.load(
                        profiles=profiles,
                        metrics=metrics,
                        wait=chosen.wait,
                        max_responses=chosen.batch,
                        progress=progress or (lambda what, done, total: None),
                    )
                    gc.freeze()  # models are no garbage: looking through them again and again takes long
                    if on_start and not running.done():
                        on_start(address, models.served)
                    while not running.done():
                        wait([running], timeout=1)  # without an end, Windows would let no signal through
                    running.result()
                finally:
                    gc.unfreeze()
                    server.should_exit = True
                    server.force_exit |= models.status != "ready"  # nothing was taken that could be finished
        except KeyboardInterrupt:
            pass


def guarded_server(
    app: Callable[..., object], *, connections: int = CONNECTIONS, head_seconds: float = HEAD_SECONDS
) -> uvicorn.Server:
    """A server for an ASGI application that slow, many and odd connections do not stop."""
    import uvicorn

    from palate.serve._connections import ACCEPTED_AT_A_TIME, GuardedServer, affordable_connections, guarded

    config = uvicorn.Config(
        app,
        http=guarded(affordable_connections(connections), head_seconds),
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        backlog=ACCEPTED_AT_A_TIME,
    )
    return GuardedServer(config)


@contextmanager
def _on_signal(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _checked(settings: ServeSettings) -> ServeSettings:
    for name in ("batch", "queue", "max_bytes", "max_responses", "connections"):
        if getattr(settings, name) < 1:
            raise PalateError(f"--{name.replace('_', '-')} is a number from 1")
    if not 0 <= settings.wait <= 10:
        raise PalateError("--max-wait-ms is a number from 0 to 10000")
    if not 0 < settings.head_seconds <= 3600:
        raise PalateError("--header-timeout is a number of seconds above 0 and up to 3600")
    if not 0 <= settings.port <= 65535:
        raise PalateError("--port is a number from 0 to 65535; 0 takes any that is free")
    return settings


def _listen(settings: ServeSettings) -> socket.socket:
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise PalateError(f"--host {settings.host}: no such address on this machine ({error})") from error
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # so that a server that was killed can be started again at once
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise PalateError(
            f"cannot listen at {where} ({error.strerror}). Is another server running there? Take another: --port 0"
        ) from error
    return listener


def _grants(listener: socket.socket, token_file: Path | None) -> list[Grant]:
    """What each token allows; none on loopback, where everybody on the machine may ask."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    grants = read_grants(token_file) if token_file else []
    if token:
        grants.append(environment_grant(token))
    if not grants and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        raise PalateError(
            "a server that others can reach needs a token: set the environment variable "
            f"{TOKEN_VARIABLE}, for instance to what `openssl rand -hex 16` prints, or name a file with --token-file"
        )
    return grants


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
