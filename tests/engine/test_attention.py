"""Which kernels attention is computed with."""

from __future__ import annotations

import pytest

from palate.engine import steady_attention

torch = pytest.importorskip("torch")


def test_kernels_that_are_planned_for_each_shape_are_left_out_within_and_not_beyond() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with steady_attention():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


def test_on_a_processor_not_a_bit_changes() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 17, 8)
    mask = torch.rand(17, 17) < 0.5
    mask |= torch.eye(17, dtype=torch.bool)
    attend = torch.nn.functional.scaled_dot_product_attention
    plain = attend(queries, keys, values, attn_mask=mask)
    with steady_attention():
        assert torch.equal(attend(queries, keys, values, attn_mask=mask), plain)
