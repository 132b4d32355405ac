"""Starts the server of a collection, and does what has to be done once a day."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from palate.collect._access import Invited, Keys, invite, project_keys
from palate.collect._database import Store, open_store
from palate.collect._forget import enforce_retention, finish_erasures
from palate.collect._project import Project, read_project
from palate.engine import require
from palate.records import PalateError

BACKLOG = 2048
CONNECTIONS = 1024
"""At a time: each may hold a body in memory. Browsers close theirs after a few seconds."""
A_DAY = 24 * 3600


class CollectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a collection is served."""

    host: str = "127.0.0.1"
    port: int = 8400
    url: str = ""
    """The address that people type, where it is not host and port."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A project with its store and keys."""

    project: Project
    store: Store
    keys: Keys


def open_collection(folder: Path) -> Opened:
    """A project that is ready to be used; an erasure that an earlier command began is finished first."""
    for module in ("sqlalchemy", "alembic", "fastapi", "nh3", "markdown_it"):
        require(module, "collect")
    project = read_project(folder)
    keys = project_keys(project)
    store = open_store(project)
    finish_erasures(project, store, keys)
    return Opened(project=project, store=store, keys=keys)


def serve(
    folder: Path, settings: CollectSettings | None = None, *, on_start: Callable[[str, Invited], None] | None = None
) -> None:
    """Serve a collection until the process is told to stop; `on_start` gets the address and a link for the owner."""
    require("uvicorn", "collect")
    from palate.collect._app import Context, make_app
    from palate.collect._gate import Gate
    from palate.serve import guarded_server

    chosen = settings or CollectSettings()
    opened = open_collection(folder)
    with _listen(chosen) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = (chosen.url or f"http://{shown}:{port}").rstrip("/")
        hosts = _hosts(url, host)
        context = Context(opened.project, opened.store, opened.keys, url)
        app = make_app(context)
        server = guarded_server(Gate(app, hosts), connections=CONNECTIONS)
        stopping = threading.Event()
        daily = threading.Thread(target=_every_day, args=(opened, stopping), name="palate-retention", daemon=True)
        try:
            enforce_retention(opened.project, opened.store, opened.keys)
            daily.start()
            if on_start:
                on_start(url, invite(opened.store, opened.keys, role="owner", days=1)[0])
            server.run(sockets=[listener])
        finally:
            stopping.set()
            context.live.close()
            opened.store.close()


def _every_day(opened: Opened, stopping: threading.Event) -> None:
    while not stopping.wait(A_DAY):
        try:
            finish_erasures(opened.project, opened.store, opened.keys)
            enforce_retention(opened.project, opened.store, opened.keys)
        except PalateError as error:  # tomorrow again; the team is told in the log
            warnings.warn(f"retention could not be enforced: {error}", stacklevel=1)


def _hosts(url: str, bound: str) -> list[str]:
    """The names under which the server answers: another would be a page that rebinds its name to this machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        raise PalateError(f"--url is scheme and host, such as https://study.example.org; {url!r} was given")
    loopback = ipaddress.ip_address(bound).is_loopback
    if not loopback and ipaddress.ip_address(bound).is_unspecified and parts.hostname == bound.strip("[]"):
        raise PalateError("--host opens the server to others: say with --url which address people type")
    if not loopback and parts.scheme != "https":
        warnings.warn(
            "the server can be reached by others without TLS: links, sessions and answers travel in the clear. Put a "
            "proxy with TLS in front of it and give --url https://...",
            stacklevel=2,
        )
    return ["127.0.0.1", "localhost", "::1", parts.hostname]


def _listen(settings: CollectSettings) -> socket.socket:
    if not 0 <= settings.port <= 65535:
        raise PalateError("--port is a number from 0 to 65535; 0 takes any that is free")
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
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise PalateError(f"cannot listen at {where} ({error.strerror}). Take another port: --port 0") from error
    return listener
