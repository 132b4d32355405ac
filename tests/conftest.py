"""What tests of every floor share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import palate
from tiny_models import TinyModels

if TYPE_CHECKING:
    from palate.engine import SentenceEncoder

# The models of tests are so small that further threads only wait for each other, and burn many times the time of one.
# Set before numpy and torch are imported, who read it then; processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As palate does before it imports Ray, which some tests do themselves.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("palate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("palate")


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Files are not forced to the disk: no test can cut the current, and a busy disk takes seconds for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture
def data_dir() -> Path:
    """The folder of real data sets, which the project does not carry."""
    folder = os.environ.get("PALATE_DATA")
    if not folder:
        pytest.skip("set PALATE_DATA to the folder of real data sets to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm() -> SentenceEncoder:
    """The built-in encoder, real weights and all."""
    from palate.engine import load_encoder
    from palate.records import PalateError

    try:
        return load_encoder("minilm")
    except PalateError as error:
        pytest.skip(f"the built-in encoder cannot be had here: {error}")


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Makes a folder with a real BERT of random weights, another one for each seed."""

    def make(seed: int) -> Path:
        import torch
        from transformers import BertConfig, BertModel, BertTokenizerFast

        folder = tmp_path_factory.mktemp(f"encoder-{seed}")
        letters = [chr(code) for code in range(33, 127)]
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters)]
        (folder / "vocab.txt").write_text("\n".join(vocabulary))
        tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64)
        tokenizer.save_pretrained(folder)
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
        )
        BertModel(config).save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Language models and classifiers of random weights, each made when first asked for."""
    return TinyModels(tmp_path_factory.mktemp("models"))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of answers that nobody else has written to."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of the built-in language model, real weights and all."""
    from palate.engine import weights_folder
    from palate.records import PalateError

    try:
        return weights_folder("smollm2")
    except PalateError as error:
        pytest.skip(f"the built-in language model cannot be had here: {error}")


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """One Ray for the tests of a module; a command that finds one uses it and leaves it there."""
    ray = pytest.importorskip("ray", reason="--cluster needs .[cluster]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        source, tests = Path(palate.__file__).parents[1], Path(__file__).parent
        patch.setenv("PYTHONPATH", f"{source}:{tests}")
        ray.init(
            address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20
        )
        yield
        ray.shutdown()
