"""Shuffled arrays, beside C loops that only copy, NumPy by hand and the loaders of today.

All shuffle: C loops are given the order, and NumPy draws its own for every sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

import sweephand as sh

from .contest import Found, Row, peer
from .corpora import (
    PACKED_ROWS,
    ROW_LENGTH,
    ROW_MINIBATCH,
    TOKEN_BUDGET,
    Tokens,
    make_rows,
    make_short_tokens,
    make_tokens,
    make_wide_tokens,
    order_of,
)
from .limits import Array, padded_gather, ragged_gather, row_gather, row_packer
from .turn import Steps, again


def permutations(count: int) -> Iterator[Array]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.permutation(count)


# -- rows --
def rows_of(corpus: sh.Deserializer) -> Steps:
    for minibatch in sh.MinibatchSource(corpus).minibatches(ROW_MINIBATCH):
        _ = minibatch["rows"].values, minibatch["labels"].values
        yield minibatch.num_samples


def rows_by_hand(rows: Array, labels: Array) -> Steps:
    for order in permutations(len(rows)):
        for begin in range(0, len(rows), ROW_MINIBATCH):
            picked = order[begin : begin + ROW_MINIBATCH]
            _ = rows[picked], labels[picked]
            yield len(picked)


def rows_in_arrays() -> Steps:
    return rows_of(sh.ArrayDeserializer(make_rows()._asdict()))


def gather_rows() -> Steps:
    rows = make_rows()
    order = order_of(rows._asdict(), ROW_MINIBATCH)
    return again(row_gather(*rows, order, ROW_MINIBATCH), len(rows.rows))


class Rows(Row):
    """64 float32 and a label, 256 at a time."""

    contenders = {
        "sweephand": rows_in_arrays,
        "C gather": gather_rows,
        "NumPy by hand": lambda: rows_by_hand(*make_rows()),
        "torch DataLoader, batched": peer("torch_loaders.batched_rows"),
        "StatefulDataLoader, batched": peer("torch_loaders.stateful_rows"),
        "Grain MapDataset": peer("grain_maps.rows"),
    }
    unit, per = "M samples/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


class NpyRows(Row):
    """The same rows in `.npy` files; by hand with `mmap_mode`."""

    contenders = {
        "sweephand": lambda: rows_of(
            sh.NpyDeserializer({"rows": "rows.npy", "labels": "labels.npy"})
        ),
        "C gather": gather_rows,
        "NumPy by hand": lambda: rows_by_hand(
            *(np.load(f"{name}.npy", mmap_mode="r") for name in ("rows", "labels"))
        ),
        "sweephand, arrays": rows_in_arrays,
    }
    unit, per = "M samples/s", 1e6

    def write_data(self) -> None:
        for name, array in make_rows()._asdict().items():
            np.save(f"{name}.npy", array)

    def setup_cache(self) -> Found:
        return self.compete()


# -- sequences --
def corpus_of(tokens: Tokens) -> dict[str, Any]:
    return {"tokens": tuple(tokens)}


def served_as(dtype: type[np.integer], tokens: Tokens) -> sh.Deserializer:
    streams = sh.StreamDefs(tokens=sh.StreamDef(dtype=dtype))
    return sh.ArrayDeserializer(corpus_of(tokens), streams)


def ragged_from(corpus: sh.Deserializer, **options: Any) -> Steps:
    source = sh.MinibatchSource(corpus, **options)
    for minibatch in source.minibatches(TOKEN_BUDGET):
        _ = minibatch["tokens"].values, minibatch["tokens"].offsets
        yield minibatch.num_samples


def ragged_of(tokens: Tokens) -> Steps:
    return ragged_from(sh.ArrayDeserializer(corpus_of(tokens)))


def gather_ragged(tokens: Tokens) -> Steps:
    order = order_of(corpus_of(tokens), TOKEN_BUDGET)
    return again(ragged_gather(*tokens, order, TOKEN_BUDGET), len(tokens.tokens))


def picked_by_hand(offsets: Array) -> Iterator[tuple[Array, Array]]:
    """Shuffle sequences and cut them into minibatches of as many as fit; with their lengths."""
    lengths = np.diff(offsets)
    for order in permutations(len(lengths)):
        ends = np.cumsum(lengths[order])
        begin = 0
        while begin < len(order):
            before = ends[begin - 1] if begin else 0
            end = int(np.searchsorted(ends, before + TOKEN_BUDGET, "right"))
            picked = order[begin:end]
            yield picked, lengths[picked]
            begin = end


def ragged_by_hand(tokens: Array, offsets: Array) -> Steps:
    for picked, lengths in picked_by_hand(offsets):
        starts = offsets[picked].tolist()
        parts = [tokens[at : at + n] for at, n in zip(starts, lengths.tolist(), strict=True)]
        _ = np.concatenate(parts).astype(np.int32, copy=False), np.cumsum(lengths)
        yield int(lengths.sum())


class Ragged(Row):
    """200,000 sequences of unequal lengths, one behind the other, 16,384 tokens at a time."""

    contenders = {
        "sweephand": lambda: ragged_of(make_tokens()),
        "C gather": lambda: gather_ragged(make_tokens()),
        "NumPy by hand": lambda: ragged_by_hand(*make_tokens()),
        "torch DataLoader, batched": peer("torch_loaders.ragged"),
        "Grain MapDataset": peer("grain_maps.ragged"),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


class Narrowed(Row):
    """The same sequences stored as int64 and served as int32."""

    contenders = {
        "sweephand": lambda: ragged_from(served_as(np.int32, make_wide_tokens())),
        "sweephand, num_threads=0": lambda: ragged_from(
            served_as(np.int32, make_wide_tokens()), num_threads=0
        ),
        "C gather": lambda: gather_ragged(make_wide_tokens()),
        "NumPy by hand": lambda: ragged_by_hand(*make_wide_tokens()),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def short_by_hand() -> Steps:
    """Pick by index, which for sequences as short as these is faster than to join parts."""
    tokens, offsets = make_short_tokens()
    for picked, lengths in picked_by_hand(offsets):
        ends = np.cumsum(lengths)
        shifts = np.repeat(offsets[picked] - (ends - lengths), lengths)
        _ = tokens[shifts + np.arange(ends[-1])], ends
        yield int(ends[-1])


class Short(Row):
    """Four million sequences of one to four tokens, 16,384 tokens at a time."""

    contenders = {
        "sweephand": lambda: ragged_of(make_short_tokens()),
        "C gather": lambda: gather_ragged(make_short_tokens()),
        "NumPy by hand": short_by_hand,
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def padded(dtype: type[np.integer] = np.int32, **options: Any) -> Steps:
    source = sh.MinibatchSource(served_as(dtype, make_tokens()), layout=sh.Padded(), **options)
    for minibatch in source.minibatches(TOKEN_BUDGET):
        _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask
        yield minibatch.num_samples


def gather_padded(dtype: type[np.integer] = np.int32) -> Steps:
    tokens = make_tokens()
    order = order_of(corpus_of(tokens), TOKEN_BUDGET)
    return again(padded_gather(*tokens, order, dtype), len(tokens.tokens))


def padded_by_hand(dtype: type[np.integer] = np.int32) -> Steps:
    tokens, offsets = make_tokens()
    for picked, lengths in picked_by_hand(offsets):
        grid = np.zeros((len(picked), lengths.max()), dtype)
        mask = np.zeros(grid.shape, np.uint8)
        starts = offsets[picked].tolist()
        for row, (at, length) in enumerate(zip(starts, lengths.tolist(), strict=True)):
            grid[row, :length] = tokens[at : at + length]
            mask[row, :length] = 1
        mask[:, 0] = 2
        yield int(lengths.sum())


class Padded(Row):
    """The same sequences as a grid with a mask."""

    contenders = {
        "sweephand": padded,
        "C gather": gather_padded,
        "NumPy by hand": padded_by_hand,
        "torch DataLoader, batched": peer("torch_loaders.padded"),
        "Grain MapDataset": peer("grain_maps.padded"),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


class Widened(Row):
    """The same grid, of tokens that are stored as int32 and served as int64."""

    contenders = {
        "sweephand": lambda: padded(np.int64),
        "sweephand, num_threads=0": lambda: padded(np.int64, num_threads=0),
        "C gather": lambda: gather_padded(np.int64),
        "NumPy by hand": lambda: padded_by_hand(np.int64),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


def packed_from(corpus: sh.Deserializer, **options: Any) -> Steps:
    source = sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), **options)
    for minibatch in source.minibatches(PACKED_ROWS * ROW_LENGTH):
        _ = minibatch["tokens"].asarray(), minibatch.segment_ids, minibatch.position_ids
        yield minibatch["tokens"].num_samples


def packed() -> Steps:
    return packed_from(sh.ArrayDeserializer(corpus_of(make_tokens())))


def pack_in_c() -> Steps:
    tokens, offsets = make_tokens()
    order = next(permutations(len(offsets) - 1))
    return again(row_packer(tokens, offsets, order, ROW_LENGTH, PACKED_ROWS), len(tokens))


def packed_by_hand() -> Steps:
    """A row ends where the next sequence does not fit: less full than all the others."""
    tokens, offsets = make_tokens()
    lengths = np.diff(offsets)
    arrays = np.zeros((3, PACKED_ROWS, ROW_LENGTH), np.int32)
    row, column, segment, total = 0, 0, 0, 0
    for order in permutations(len(lengths)):
        picked = zip(offsets[order].tolist(), lengths[order].tolist(), strict=True)
        for at, length in picked:
            if column + length > ROW_LENGTH:
                row, column, segment = row + 1, 0, 0
            if row == PACKED_ROWS:
                yield total
                row, total = 0, 0
                arrays = np.zeros_like(arrays)
            segment += 1
            cells = np.s_[row, column : column + length]
            arrays[0][cells] = tokens[at : at + length]
            arrays[1][cells] = segment
            arrays[2][cells] = np.arange(length)
            column += length
            total += length


class Packed(Row):
    """The same sequences in rows of 2,048, 16 at a time, with ids of segments and places."""

    contenders = {
        "sweephand": packed,
        "C best fit": pack_in_c,
        "NumPy by hand": packed_by_hand,
        "Grain, first fit, 64 open rows": peer("grain_maps.packed_rows"),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


# -- mixtures --
def mixture_of(tokens: Tokens) -> sh.Mixture:
    """Return the sequences dealt to a hundred corpora of equal weights."""
    corpora = {}
    cuts = np.linspace(0, len(tokens.offsets) - 1, 101).astype(int).tolist()
    for number, (begin, end) in enumerate(pairwise(cuts)):
        offsets = tokens.offsets[begin : end + 1]
        part = tokens.tokens[offsets[0] : offsets[-1]]
        corpora[str(number)] = sh.ArrayDeserializer({"tokens": (part, offsets - offsets[0])})
    return sh.Mixture(corpora, dict.fromkeys(corpora, 1))


class Mixed(Row):
    """The same sequences in a hundred corpora that are mixed, one behind the other."""

    contenders = {
        "sweephand": lambda: ragged_from(mixture_of(make_tokens())),
        "sweephand, one corpus": lambda: ragged_of(make_tokens()),
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()


class MixedRows(Row):
    """That mixture in packed rows."""

    contenders = {
        "sweephand": lambda: packed_from(mixture_of(make_tokens())),
        "sweephand, one corpus": packed,
    }
    unit, per = "M tokens/s", 1e6

    def setup_cache(self) -> Found:
        return self.compete()
