"""Using torch where it is there: optional imports, attention kernels, and smaller batches where memory runs out."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from palate.records import PalateError


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which line installs it."""
    # Before torch is loaded: threads that spin while they wait stall each other when cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PalateError(
            f"this needs the package {module!r} ({error}). Install it: pip install 'palate[{extra}]'"
        ) from error


def require_installed(module: str, extra: str) -> None:
    """Say which line installs an optional dependency, without the seconds that importing it takes."""
    if sys.modules[module] is None if module in sys.modules else importlib.util.find_spec(module) is None:
        require(module, extra)


def quiet_transformers() -> ModuleType:
    """transformers without its own progress bars and advice, which would tear ours apart."""
    transformers = require("transformers", "local")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def wanted_device() -> str | None:
    """Where models run that do not say so themselves; None leaves it to the machine."""
    return os.environ.get("PALATE_DEVICE") or None


def wanted_dtype() -> str | None:
    """The precision of models that do not say so themselves; None leaves it to the device."""
    return os.environ.get("PALATE_DTYPE") or None


def check_device(name: str) -> None:
    """Refuse a device that this machine does not have."""
    torch = require("torch", "local")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise PalateError(f"device={name} is not to be had on this machine ({reason}); cpu always is") from error


def steady_attention() -> AbstractContextManager[None]:
    """Within this, torch takes kernels that serve texts of any shape.

    On the newest GPUs it prefers those of cuDNN, which are planned again for each new shape, and batches of texts have
    one after another. In training they gave gradients that are no numbers, too.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


Item = TypeVar("Item")
Result = TypeVar("Result")
WORDS = ("out of memory", "can't allocate memory")
"""Of torch, which has an error of its own for this on a GPU and none on a CPU."""


def in_halves(
    items: Sequence[Item],
    size: int,
    work: Callable[[Sequence[Item]], Result],
    exhausted: Callable[[], None] = lambda: None,
) -> Iterator[Result]:
    """The results of `size` items at a time; where memory runs out, of half as many from then on.

    `exhausted` is called each time memory runs out. With one item alone the error is raised.

    >>> list(in_halves(range(5), 2, list))
    [[0, 1], [2, 3], [4]]
    """
    start = 0
    while start < len(items):
        batch = items[start : start + size]
        full = False
        try:
            result = work(batch)
        except Exception as error:
            if not out_of_memory(error):
                raise
            exhausted()
            if len(batch) == 1:
                raise
            full = True
        if full:  # outside the handler, since an error in hand keeps alive what filled the memory
            torch = sys.modules.get("torch")
            if torch is not None:
                torch.cuda.empty_cache()
            size = (len(batch) + 1) // 2
            continue
        yield result
        start += len(batch)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, also where the error has become one that names the model."""
    return any(
        isinstance(cause, RuntimeError) and any(words in str(cause) for words in WORDS)
        for cause in (error, error.__cause__)
    )


def free_memory() -> int | None:
    """Bytes of main memory that can be had, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)
