"""A real `palate serve` in a process of its own, and reward models that behave badly on purpose."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

http = httpx.Client(timeout=300, limits=httpx.Limits(max_keepalive_connections=0))
"""Patient, since the machine may be busy; and every request on a connection of its own."""

MODELS = '''
import math
import os
import signal
import time
import zlib
from pathlib import Path

from palate import Rating
from palate.records import PalateError


class Patient:
    """Rates when a file named `go` lies beside this one, and writes down how many asks came at a time."""

    name = "patient"
    folder = Path(__file__).parent

    def rate(self, asks):
        if asks and asks[0].id != "warm-up":
            with (self.folder / "batches").open("a") as file:
                file.write(f"{len(asks)}\\n")
            while not (self.folder / "go").exists():
                time.sleep(0.01)
        return [Rating([float(len(response)) for response in ask.responses]) for ask in asks]


class Slow(Patient):
    """Is loaded when a file named `loaded` lies beside this one; fails if it says so."""

    name = "slow"

    def __init__(self):
        (self.folder / "loading").touch()
        while not (self.folder / "loaded").exists():
            time.sleep(0.01)
        if (self.folder / "loaded").read_text() == "fail":
            raise PalateError("these weights cannot be read")


class Mortal:
    """Is killed in the middle of its work after every 25 asks, for as long as there is a file named `mortal`."""

    name = "mortal"
    folder = Path(__file__).parent

    def rate(self, asks):
        if asks and asks[0].id != "warm-up":
            with (self.folder / "asked").open("ab") as file:
                before = file.tell()
                file.write(b"." * len(asks))
            if (self.folder / "mortal").exists() and before // 25 < (before + len(asks)) // 25:
                os.kill(os.getpid(), signal.SIGKILL)
        return [Rating([zlib.crc32(response.encode()) / 2**32 for response in ask.responses]) for ask in asks]


class NotANumber:
    name = "not-a-number"

    def rate(self, asks):
        return [Rating([math.nan for _ in ask.responses]) for ask in asks]


class Fails:
    """Falls over the word poison, and takes the whole batch with it."""

    name = "fails"

    def rate(self, asks):
        if any("poison" in ask.prompt for ask in asks):
            raise ZeroDivisionError("poison")
        if any("exit" in ask.prompt for ask in asks):
            raise SystemExit(3)
        return [Rating([1.0 for _ in ask.responses]) for ask in asks]
'''


class RewardServer:
    """A server, ready unless told otherwise: its address, its process and what it has printed."""

    def __init__(self, *arguments: str, port: int = 0, ready: bool = True, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "palate", "serve", "--port", str(port), *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PALATE_SERVE_TOKEN"} | environment,
        )
        self.address = f"http://127.0.0.1:{port}"
        self.printed: list[str] = []
        if ready:
            self.until_ready()

    def until_ready(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.printed.append(line)
            if line.startswith("Taking requests"):
                break
        else:
            raise AssertionError(f"the server did not start: {''.join(self.printed)}")
        self.address = next(line for line in self.printed if "  http://" in line).split()[-1]
        threading.Thread(target=lambda: self.printed.extend(self.process.stderr or ()), daemon=True).start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(how)
        return self.process.wait(300)


@contextmanager
def reward_server(*arguments: str, **environment: str) -> Iterator[RewardServer]:
    server = RewardServer(*arguments, **environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def write_models(folder: Path) -> Path:
    file = folder / "models.py"
    file.write_text(MODELS)
    return file


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
