"""Attention masks of packed rows: which cell may look at which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand.base.checks import check_int
from sweephand.minibatch.minibatch import Minibatch
from sweephand.torch.tensors import to_tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def attention_mask(
    minibatch: Minibatch, *, causal: bool = True, device: object = None
) -> torch.Tensor:
    """Return the attention mask between cells of packed rows, for scaled dot product attention.

    The minibatch has segments: in layout `Packed`, or padded with parts.

    Returns
    -------
    Tensor of bool, shape (rows, 1, row length, row length)
        True where the query of the third axis may attend to the key of the fourth, if causal
        never to later ones. Gaps attend to gaps, so that every query has a key; results there
        have no meaning.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(1)]})
    >>> layout = sh.Packed(4)
    >>> source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    >>> sh.torch.attention_mask(source.next_minibatch(4)).int()[0, 0]
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 0, 1, 0],
            [0, 0, 0, 1]], dtype=torch.int32)
    """
    segments = minibatch.segment_ids
    mask = segments[:, :, None] == segments[:, None, :]
    if causal:
        mask &= np.tri(segments.shape[1], dtype=np.bool_)
    return to_tensor(mask[:, None], device)


def block_mask(
    minibatch: Minibatch,
    *,
    block_size: int = 128,
    causal: bool = True,
    device: object = None,
) -> BlockMask:
    """Return the same as `attention_mask`, block by block, for FlexAttention.

    It is computed from the ends of the blocks' segments, on the host, and not cell by cell. The
    row length needs no multiple of `block_size` cells. Queries and keys have shape
    (rows, heads, row length, head size).

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(1)]})
    >>> layout = sh.Packed(4)
    >>> source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    >>> mask = sh.torch.block_mask(source.next_minibatch(4))  # for flex_attention
    >>> mask.shape
    (1, 1, 4, 4)
    """
    check_int("block_size", block_size, 1, 2**31)
    from torch.nn.attention.flex_attention import BlockMask

    segments = minibatch.segment_ids
    partial, full = _blocks(segments, block_size, causal)
    shared = to_tensor(segments, device)

    def same_segment(b: Any, _h: Any, q: Any, k: Any) -> Any:
        same = shared[b, q] == shared[b, k]
        return same & (q >= k) if causal else same

    length = segments.shape[1]
    return BlockMask.from_kv_blocks(
        *_listed(partial, device),
        *_listed(full, device),
        BLOCK_SIZE=block_size,
        mask_mod=same_segment,
        seq_lengths=(length, length),
    )


def _blocks(
    segments: NDArray[np.int32], size: int, causal: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return blocks (row, query, key) with any pairs of cells, and those with all."""
    # Segments ascend along a row; gaps come last, or first where rows are padded on the left.
    gap = np.where(segments[:, :1] == 0, 0, np.iinfo(np.int32).max)
    ascending = np.where(segments == 0, gap, segments)
    begins = np.arange(0, segments.shape[1], size)
    ends = np.minimum(begins + size, segments.shape[1]) - 1
    first, last = ascending[:, begins], ascending[:, ends]
    some = (first[:, :, None] <= last[:, None, :]) & (first[:, None, :] <= last[:, :, None])
    # A block that reaches over the end of the row is never full.
    one = (first == last) & (begins + size <= segments.shape[1])
    full = some & one[:, :, None] & one[:, None, :]
    if causal:
        below = np.tri(len(begins), k=-1, dtype=np.bool_)
        some &= below | np.eye(len(begins), dtype=np.bool_)
        full &= below
    return some & ~full, full


def _listed(blocks: NDArray[np.bool_], device: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how many key blocks every query block has, and which, those first."""
    # A compiled kernel reads them by their shapes, whatever their strides.
    blocks = np.ascontiguousarray(blocks)
    counts = blocks.sum(axis=-1, dtype=np.int32)
    keys = np.argsort(~blocks, axis=-1, kind="stable").astype(np.int32)
    return to_tensor(counts[:, None], device), to_tensor(keys[:, None], device)
