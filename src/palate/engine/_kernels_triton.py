"""Kernels for NVIDIA GPUs, in Triton: each does in one pass over its data what takes torch several.

What they compute is said here, how they are called in `_kernels.py`.

Numbers that depend on the texts are not specialised on, or every few lengths would be compiled again. With `early`,
`attend` is launched while `look_back` still runs, and waits for its results where it needs them.
"""

# What stands in a kernel is compiled by Triton, which is not always installed and to which Python's types mean nothing.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from triton.language.extra import libdevice  # type: ignore[import-not-found,import-untyped,unused-ignore]


@triton.jit(do_not_specialize=["rows"])
def norm(x, weight, out, rows, width, epsilon, block_rows: tl.constexpr, block: tl.constexpr):
    """The root-mean-square norm of each row, rounded before it is multiplied with the weight, as transformers does."""
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block)
    there = (row < rows)[:, None] & (column < width)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    values = tl.load(x + place, there, 0.0).to(tl.float32)
    shrink = tl.rsqrt(tl.sum(values * values, 1) / width + epsilon)
    rounded = (values * shrink[:, None]).to(out.dtype.element_ty).to(tl.float32)
    weights = tl.load(weight + column, column < width, 0.0).to(tl.float32)
    tl.store(out + place, (rounded * weights[None, :]).to(out.dtype.element_ty), there)


@triton.jit
def gated(gate, up, out, width, gate_row, up_row, block: tl.constexpr):
    """SiLU of the gate, rounded, times the other half."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    there = column < width
    opened = tl.load(gate + row * gate_row + column, there, 0.0).to(tl.float32)
    opened = (opened * tl.sigmoid(opened)).to(out.dtype.element_ty).to(tl.float32)
    other = tl.load(up + row * up_row + column, there, 0.0).to(tl.float32)
    tl.store(out + row * width + column, (opened * other).to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=["rows", "out_tokens", "across_tokens"])
def join(
    out, across, out_weight, across_weight, rows, out_tokens, across_tokens,
    heads: tl.constexpr, size: tl.constexpr, block_rows: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Two parts of one softmax, each with its log-sum-exp (heads, tokens), joined where the first part stands.

    Rows are (token, head) pairs.
    """
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block)
    token, head = row // heads, row % heads
    there = (row < rows)[:, None] & (column < size)[None, :]
    mine = tl.load(out_weight + head.to(tl.int64) * out_tokens + token, row < rows, 0.0)
    other = tl.load(across_weight + head.to(tl.int64) * across_tokens + token, row < rows, 0.0)
    share = tl.sigmoid(other - mine)[:, None]
    place = row.to(tl.int64)[:, None] * size + column[None, :]
    own = tl.load(out + place, there, 0.0).to(tl.float32)
    whole = own + share * (tl.load(across + place, there, 0.0).to(tl.float32) - own)
    tl.store(out + place, whole.to(out.dtype.element_ty), there)


@triton.jit
def _turned(start, column, cosine, sine, there, size: tl.constexpr):
    """Heads turned by their position: each half of a head goes with the other. Cosine and sine are two-dimensional."""
    straight = tl.load(start[:, None] + column[None, :], there[:, None], 0.0)
    swapped = tl.load(start[:, None] + ((column + size // 2) % size)[None, :], there[:, None], 0.0)
    turned = straight.to(tl.float32) * cosine + swapped.to(tl.float32) * sine
    return turned.to(straight.dtype)


@triton.jit
def _seen(queries, keys, values, token, column, inside, mask, scale, most, total, mixed, size: tl.constexpr):
    """One block of keys more: the largest score so far, the sum of the weights and the values in their shares.

    Scores are in powers of two, which is what the hardware raises.
    """
    key = tl.load(keys + token[None, :] * size + column[:, None], inside[None, :], 0.0)
    value = tl.load(values + token[:, None] * size + column[None, :], inside[:, None], 0.0)
    scores = tl.where(mask, tl.dot(queries, key) * scale, float("-inf"))
    most_now = tl.maximum(most, tl.max(scores, 1))
    weights = tl.exp2(scores - most_now[:, None])
    shrink = tl.exp2(most - most_now)
    total = total * shrink + tl.sum(weights, 1)
    mixed = mixed * shrink[:, None] + tl.dot(weights.to(value.dtype), value)
    return most_now, total, mixed


@triton.jit(do_not_specialize=["rows"])
def rotate(
    x, out, cosine, sine, rows, heads: tl.constexpr, size: tl.constexpr, block_rows: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Heads turned by the cosine and sine of their token, and rounded, as transformers does. Rows are (token, head)."""
    row, column = tl.program_id(0) * block_rows + tl.arange(0, block_rows), tl.arange(0, block)
    there = (row < rows)[:, None] & (column < size)[None, :]
    angle = (row // heads)[:, None] * size + column[None, :]
    start = row.to(tl.int64)[:, None] * size
    partner = tl.where(column < size // 2, column + size // 2, column - size // 2)
    sign = tl.where(column < size // 2, -1.0, 1.0)
    kind = out.dtype.element_ty
    turned = tl.load(x + start + column[None, :], there, 0.0).to(tl.float32) * tl.load(cosine + angle, there, 0.0)
    other = tl.load(x + start + partner[None, :], there, 0.0).to(tl.float32) * tl.load(sine + angle, there, 0.0)
    turned = turned.to(kind).to(tl.float32) + other.to(kind).to(tl.float32) * sign[None, :]
    tl.store(out + start + column[None, :], turned.to(kind), there)


@triton.jit(do_not_specialize=["rows", "longest"])
def turn(
    parts, queries, held, cosine, sine, rows, longest, shared, apart,
    heads: tl.constexpr, key_heads: tl.constexpr, size: tl.constexpr, block_rows: tl.constexpr,
):  # fmt: skip
    """Queries and keys of whole prompts turned by their position; keys and values put into the memory.

    Rows are (prompt, token, head) triples, the heads of queries, keys and values side by side.
    """
    row, column = tl.program_id(0) * block_rows + tl.arange(0, block_rows), tl.arange(0, size)
    token, head = row // (heads + 2 * key_heads), row % (heads + 2 * key_heads)
    prompt, position = token // longest, token % longest
    there = row < rows
    angle = position[:, None] * size + column[None, :]
    turns = (there & (head < heads + key_heads))[:, None]
    cosines, sines = tl.load(cosine + angle, turns, 1.0), tl.load(sine + angle, turns, 0.0)
    whole = _turned(parts + row.to(tl.int64) * size, column, cosines, sines, there, size)
    query = queries + (token.to(tl.int64) * heads + head) * size
    tl.store(query[:, None] + column[None, :], whole, (there & (head < heads))[:, None])
    which = head - heads  # key heads, then value heads
    side, which = which // key_heads, which % key_heads
    target = held + side * apart + ((prompt * key_heads + which).to(tl.int64) * shared + position) * size
    tl.store(target[:, None] + column[None, :], whole, (there & (head >= heads))[:, None])


@triton.jit(do_not_specialize=["prompts", "samples"])
def look_back(
    parts, prefix, cosine, sine, lengths, place, partial, partial_weight, prompts, samples, shared, scale,
    key_heads: tl.constexpr, group: tl.constexpr, size: tl.constexpr,
    taken: tl.constexpr, rows: tl.constexpr, block: tl.constexpr, chunk: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """The attention of new tokens over one chunk of their prompt, and its log-sum-exp, for `attend` to go on from.

    A program does `taken` samples of one prompt and one key head, so that the prompt's keys meet many queries in
    one matrix product.
    """
    if early:
        tl.extra.cuda.gdc_launch_dependents()
    pair = tl.program_id(0)
    prompt, head = pair // key_heads, pair % key_heads
    row, column = tl.arange(0, rows), tl.arange(0, size)
    sample, member = tl.program_id(1) * taken + row // group, row % group
    there = (row < taken * group) & (sample < samples)
    length = tl.load(lengths + prompt).to(tl.int32)
    begin = tl.program_id(2) * chunk
    if begin >= length:
        return
    angle = (length + tl.load(place).to(tl.int32)) * size + column
    cosines, sines = tl.load(cosine + angle)[None, :], tl.load(sine + angle)[None, :]
    line = parts + (prompt * samples + sample).to(tl.int64) * ((group + 2) * key_heads * size)
    queries = _turned(line + (head * group + member) * size, column, cosines, sines, there, size)
    most = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    mixed = tl.zeros([rows, size], tl.float32)
    keys = prefix + pair.to(tl.int64) * shared * size
    values = keys + prompts.to(tl.int64) * key_heads * shared * size
    for start in range(begin, tl.minimum(begin + chunk, length), block):
        token = start + tl.arange(0, block)
        inside = token < length
        most, total, mixed = _seen(
            queries, keys, values, token, column, inside, inside[None, :], scale, most, total, mixed, size
        )
    goal = (tl.program_id(2) * prompts * key_heads + pair).to(tl.int64) * samples * group + sample * group + member
    tl.store(partial + goal[:, None] * size + column[None, :], mixed / total[:, None], there[:, None])
    tl.store(partial_weight + goal, most + tl.log2(total), there)


@triton.jit(do_not_specialize=["prompts", "samples"])
def attend(
    parts, own, cosine, sine, lengths, place, partial, partial_weight, out, prompts, samples, room, scale,
    key_heads: tl.constexpr, group: tl.constexpr, size: tl.constexpr,
    taken: tl.constexpr, rows: tl.constexpr, block: tl.constexpr, chunk: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """The attention of new tokens over their continuations, joined with that over their prompts.

    Keys and values of the new tokens are put into the memory.
    """
    pair = tl.program_id(0)
    prompt, head = pair // key_heads, pair % key_heads
    first = tl.program_id(1) * taken
    row, column = tl.arange(0, rows), tl.arange(0, size)
    sample, member = first + row // group, row % group
    there = (row < taken * group) & (sample < samples)
    length, at = tl.load(lengths + prompt).to(tl.int32), tl.load(place).to(tl.int32)
    angle = (length + at) * size + column
    cosines, sines = tl.load(cosine + angle)[None, :], tl.load(sine + angle)[None, :]
    line = parts + (prompt * samples + sample).to(tl.int64) * ((group + 2) * key_heads * size)
    queries = _turned(line + (head * group + member) * size, column, cosines, sines, there, size)
    new_key = _turned(line + (group * key_heads + head) * size, column, cosines, sines, there, size)
    start = line + ((group + 1) * key_heads + head) * size
    new_value = tl.load(start[:, None] + column[None, :], there[:, None], 0.0)

    keys = own + pair.to(tl.int64) * samples * room * size
    values = keys + prompts.to(tl.int64) * key_heads * samples * room * size
    target = (sample * room + at)[:, None] * size + column[None, :]
    once = (there & (member == 0))[:, None]
    tl.store(keys + target, new_key, once)
    tl.store(values + target, new_value, once)

    # The new token sees itself, so the softmax starts from it and never from nothing. It is not read back.
    most = tl.sum(queries.to(tl.float32) * new_key.to(tl.float32), 1) * scale
    total = tl.full([rows], 1.0, tl.float32)
    mixed = new_value.to(tl.float32)
    blocks = (at + block - 1) // block
    for step in range(tl.minimum(taken, samples - first) * blocks):
        which = first + step // blocks
        token = (step % blocks) * block + tl.arange(0, block)
        inside = token < at
        mask = inside[None, :] & (sample == which)[:, None]
        most, total, mixed = _seen(
            queries, keys, values, which * room + token, column, inside, mask, scale, most, total, mixed, size
        )
    if early:
        tl.extra.cuda.gdc_wait()
    for part in range((length + chunk - 1) // chunk):
        source = (part * prompts * key_heads + pair).to(tl.int64) * samples * group + sample * group + member
        weight = tl.load(partial_weight + source, there, 0.0)
        value = tl.load(partial + source[:, None] * size + column[None, :], there[:, None], 0.0)
        most_now = tl.maximum(most, weight)
        shrink, share = tl.exp2(most - most_now), tl.exp2(weight - most_now)
        total = total * shrink + share
        mixed = mixed * shrink[:, None] + value * share[:, None]
        most = most_now
    mixed = (mixed / total[:, None]).to(out.dtype.element_ty)
    goal = out + (prompt * samples + sample).to(tl.int64) * (group * key_heads * size) + (head * group + member) * size
    tl.store(goal[:, None] + column[None, :], mixed, there[:, None])


@triton.jit
def _mix(number):
    """As `_mix` of `_draw.py`."""
    number = (number ^ ((number >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    number = (number ^ ((number >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return number ^ ((number >> 31) & 0x1FFFFFFFF)


@triton.jit
def draw(logits, tokens, keys, step, out, vocabulary, sharpness, block: tl.constexpr):
    """For each row the token whose logit, times the sharpness, is largest with its noise; see `_draw.py`."""
    row = tl.program_id(0).to(tl.int64)
    number = _mix(tl.load(keys + row) + tl.load(step) * -0x2ECBDABC217D106B)
    low, high = number.to(tl.int32), (number >> 32).to(tl.int32) | 1
    best = tl.full([block], float("-inf"), tl.float32)
    chosen = tl.zeros([block], tl.int32)
    for begin in range(0, vocabulary, block):
        token = begin + tl.arange(0, block)
        inside = token < vocabulary
        logit = tl.load(logits + row * vocabulary + token, inside, float("-inf")).to(tl.float32) * sharpness
        bits = (low ^ tl.load(tokens + token, inside, 0)) * high
        bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * 0x7FEB352D
        bits = (bits ^ (bits >> 16)) & 0x7FFFFFFF
        uniform = (bits.to(tl.float32) + 0.5) * 4.656612873077393e-10
        noisy = logit - tl.log(-libdevice.log1p(-uniform))
        better = noisy > best
        best, chosen = tl.where(better, noisy, best), tl.where(better, token, chosen)
    top = tl.max(best, 0)
    tl.store(out + row, tl.min(tl.where(best == top, chosen, vocabulary - 1), 0).to(tl.int64))
