"""What this machine can run: processors, memory, packages, models and the hub."""

from __future__ import annotations

import importlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import httpx
import msgspec

from palate.engine._weights import BUILT_IN, built_in_folder
from palate.records import cache_folder

EXTRAS = {
    "local": ("torch", "transformers", "sentence-transformers", "accelerate", "gguf"),
    "onnx": ("onnxruntime", "tokenizers"),
    "hub": ("huggingface_hub", "pyarrow"),
}
GIGABYTE = 2**30


class Diagnosis(msgspec.Struct, frozen=True):
    """One line of the report; `advice` says what would mend it, where something is missing."""

    what: str
    found: str
    advice: str | None = None


def examine() -> list[Diagnosis]:
    """Everything that decides which models can run here, and how."""
    return [*_machine(), *_packages(), *_devices(), *_models(), _hub(), _keys()]


def _machine() -> list[Diagnosis]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = [
        Diagnosis("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        Diagnosis("processor", f"{cores} cores"),
    ]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found.append(Diagnosis("memory", f"{memory / GIGABYTE:.0f} GiB"))
    return found


def _packages() -> list[Diagnosis]:
    found = []
    for extra, names in EXTRAS.items():
        have, lack = [], []
        for name in names:
            try:
                have.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                lack.append(name)
        advice = f"pip install 'palate[{extra}]' adds {', '.join(lack)}" if lack else None
        found.append(Diagnosis(f"packages, {extra}", ", ".join(have) or "none", advice))
    return found


def _devices() -> list[Diagnosis]:
    if find_spec("torch") is None:
        return [Diagnosis("language models here", "none", "without torch only servers can be asked")]
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        memory = "float32 takes four bytes a parameter"
        return [Diagnosis("language models here", f"on the processor; {memory}, so a billion takes 4 GiB")]
    found = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        size = device.total_memory / GIGABYTE
        found.append(Diagnosis("GPU", f"{device.name}, {size:.0f} GiB: up to some {size / 2.5:.0f} billion parameters"))
    return found


def _models() -> list[Diagnosis]:
    found = []
    for name in BUILT_IN:
        ready = built_in_folder(name).is_dir()
        found.append(Diagnosis(f"model {name}", "in the cache" if ready else "fetched when it is first used"))
    return [*found, Diagnosis("cache", str(cache_folder()))]


def _hub() -> Diagnosis:
    if find_spec("huggingface_hub") is None:
        return Diagnosis("Hugging Face hub", "not asked: its client is not installed", "pip install 'palate[hub]'")
    constants = importlib.import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return Diagnosis("Hugging Face hub", "not asked: HF_HUB_OFFLINE is set")
    try:
        httpx.head(constants.ENDPOINT, timeout=5, follow_redirects=True)
    except httpx.HTTPError as error:
        advice = "models come from local folders, and the built-in ones from the package index"
        return Diagnosis("Hugging Face hub", f"does not answer ({error})", advice)
    return Diagnosis("Hugging Face hub", "answers")


def _keys() -> Diagnosis:
    """Only whether there is one: a key is never shown."""
    has = bool(os.environ.get("OPENAI_API_KEY"))
    return Diagnosis("key for a server", "OPENAI_API_KEY is set" if has else "OPENAI_API_KEY is not set")
