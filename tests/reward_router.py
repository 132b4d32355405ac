"""nginx with the configuration that the documentation shows, in front of real replicas."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from reward_server import free_port, http

CONFIGURATION = Path(__file__).parents[1] / "docs/examples/router.conf"


@contextmanager
def router(replicas: Sequence[str], folder: Path) -> Iterator[str]:
    """The address of a router in front of these addresses."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    prefix, port = folder / "router", free_port()
    prefix.mkdir()
    text = CONFIGURATION.read_text(encoding="utf-8").replace("127.0.0.1:8300", f"127.0.0.1:{port}")
    for number, replica in enumerate(replicas, 1):
        text = text.replace(f"127.0.0.1:830{number}", replica.removeprefix("http://"))
    assert "127.0.0.1:830" not in text
    (folder / "router.conf").write_text(text, encoding="utf-8")
    process = subprocess.Popen([nginx, "-p", prefix, "-c", folder / "router.conf"])
    try:
        while not _answers(f"http://127.0.0.1:{port}/metrics"):
            assert process.poll() is None, "nginx ended"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return http.get(url).status_code == 404
    except httpx.TransportError:
        return False


def requests(address: str) -> int:
    """How many asks for ratings or rewards a replica has answered well."""
    counted = re.compile(r'palate_requests_total\{method="POST",route="[^"]*",status="200"\} ([\d.]+)')
    return sum(int(float(number)) for number in counted.findall(http.get(f"{address}/metrics").text))
