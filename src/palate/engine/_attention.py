"""Which attention torch computes with, where it is asked to attend."""

from __future__ import annotations

from contextlib import AbstractContextManager


def steady_attention() -> AbstractContextManager[None]:
    """Within this, torch takes kernels that serve texts of any shape.

    On the newest GPUs it prefers those of cuDNN, which are planned anew for each new shape, and batches of texts have
    one after another. In training they gave gradients that are no numbers, too.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
