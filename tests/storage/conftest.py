"""A real S3 server on loopback, shared by the tests of buckets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from buckets import CREDENTIALS, Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    moto = pytest.importorskip("moto.server", reason="buckets need .[storage] and moto")
    pytest.importorskip("s3fs", reason="buckets need .[storage]")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Server(f"http://{host}:{port}")
    finally:
        server.stop()


NUMBERS = itertools.count(1)


@pytest.fixture
def bucket(s3_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty bucket."""
    from palate.storage import Store

    for name, value in ({"AWS_ENDPOINT_URL": s3_server.url} | CREDENTIALS).items():
        monkeypatch.setenv(name, value)
    name = f"lab-{next(NUMBERS)}"
    Store(f"s3://{name}")._fs.call_s3("create_bucket", Bucket=name)
    yield f"s3://{name}"
    s3_server.permit("inf")
