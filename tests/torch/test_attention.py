"""Masks and nested tensors of packed rows."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

import sweephand as sh
import sweephand.torch


def packed(lengths: list[int], row_length: int, rows: int = 2) -> sh.Minibatch:
    offsets = np.cumsum([0, *lengths])
    corpus = sh.ArrayDeserializer({"ids": (np.arange(offsets[-1]), offsets)})
    source = sh.MinibatchSource(
        corpus, layout=sh.Packed(row_length), num_lanes=1, num_threads=0
    )
    return source.next_minibatch(rows * row_length)


def with_parts(lengths: list[int], layout: sh.Layout) -> sh.Minibatch:
    """Return sequences of two parts, of which each has a third or more."""
    numbers = [np.repeat([0, 1], [-(-n // 3), n - -(-n // 3)]) for n in lengths]
    data = {"ids": [np.arange(n) for n in lengths], "part": numbers}
    tokens = sh.StreamDef(parts="part", defines_mb_size=True)
    corpus = sh.ArrayDeserializer(data, {"ids": tokens})
    source = sh.MinibatchSource(corpus, layout=layout, num_lanes=1, max_sweeps=1)
    return source.next_minibatch(64)


lengths = st.lists(st.integers(1, 20), min_size=1, max_size=20).filter(
    lambda sizes: max(sizes) > 1
)
minibatches = st.one_of(
    st.builds(packed, lengths, st.integers(20, 60), st.integers(1, 3)),
    st.builds(
        with_parts,
        lengths,
        st.sampled_from(
            [sh.Padded(), sh.Padded(side="left"), sh.Bucketed([8, 20]), sh.Packed(24)]
        ),
    ),
)


def may_attend(minibatch: sh.Minibatch, causal: bool) -> np.ndarray:
    """What a mask says, cell by cell."""
    segments = minibatch.segment_ids
    rows, length = segments.shape
    allowed = np.zeros((rows, length, length), bool)
    for row, q, k in itertools.product(range(rows), range(length), range(length)):
        same = segments[row, q] == segments[row, k]
        allowed[row, q, k] = same and (k <= q or not causal)
    return allowed


@given(minibatches, st.booleans())
def test_the_mask_lets_cells_of_one_sequence_see_each_other(
    minibatch: sh.Minibatch, causal: bool
) -> None:
    mask = sh.torch.attention_mask(minibatch, causal=causal)
    assert mask.dtype == torch.bool
    assert np.array_equal(mask[:, 0].numpy(), may_attend(minibatch, causal))


@given(minibatches, st.booleans(), st.integers(2, 32))
def test_blocks_are_full_partial_or_empty_as_their_cells_are(
    minibatch: sh.Minibatch, causal: bool, size: int
) -> None:
    allowed = may_attend(minibatch, causal)
    rows, length = allowed.shape[:2]
    blocks = -(-length // size)
    cells = np.zeros((rows, blocks * size, blocks * size), bool)
    cells[:, :length, :length] = allowed
    cells = cells.reshape(rows, blocks, size, blocks, size)
    found = sh.torch.block_mask(minibatch, block_size=size, causal=causal)
    assert np.array_equal(found.to_dense()[:, 0].numpy() > 0, cells.any((2, 4)))
    full = np.zeros((rows, blocks, blocks), bool)
    for row, q in itertools.product(range(rows), range(blocks)):
        count = int(found.full_kv_num_blocks[row, 0, q])
        full[row, q, found.full_kv_indices[row, 0, q, :count].numpy()] = True
    assert np.array_equal(full, cells.all((2, 4)))
    assert all(
        tensor.is_contiguous()
        for tensor in found.as_tuple()
        if isinstance(tensor, torch.Tensor)
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_both_masks_give_the_attention_of_unpacked_sequences() -> None:
    minibatch = packed([7, 20, 3, 30, 12], 40, rows=2)
    torch.manual_seed(0)
    rows, length = minibatch.segment_ids.shape
    q, k, v = torch.randn(3, rows, 2, length, 8, dtype=torch.float64)
    dense = scaled_dot_product_attention(q, k, v, sh.torch.attention_mask(minibatch))
    blocks = flex_attention(q, k, v, block_mask=sh.torch.block_mask(minibatch, block_size=16))
    for row, segments in enumerate(minibatch.segment_ids):
        for number in range(1, segments.max() + 1):
            begin, end = np.flatnonzero(segments == number)[[0, -1]] + [0, 1]
            alone = [part[row : row + 1, :, begin:end] for part in (q, k, v)]
            wanted = scaled_dot_product_attention(*alone, is_causal=True)
            for found in (dense, blocks):
                torch.testing.assert_close(found[row : row + 1, :, begin:end], wanted)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_compiled_attention_is_that_of_the_mask(causal: bool) -> None:
    # A compiled kernel reads the blocks' numbers by their shapes, whatever their strides.
    minibatch = packed([70, 180, 30, 300, 90, 200, 20], 320, rows=3)
    torch.manual_seed(0)
    rows, length = minibatch.segment_ids.shape
    q, k, v = torch.randn(3, rows, 2, length, 16)
    mask = sh.torch.attention_mask(minibatch, causal=causal)
    blocks = sh.torch.block_mask(minibatch, causal=causal)
    found = torch.compile(flex_attention)(q, k, v, block_mask=blocks)
    is_there = torch.from_numpy(minibatch.segment_ids > 0)[:, None, :, None]
    wanted = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(found * is_there, wanted * is_there)


def test_masks_are_of_packed_rows_only() -> None:
    minibatch = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(4)})).next_minibatch(4)
    for make in (sh.torch.attention_mask, sh.torch.block_mask):
        with pytest.raises(AttributeError, match="segments come with layout=Packed"):
            make(minibatch)
