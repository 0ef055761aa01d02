"""What a source needs of a deserializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamInfo
from sweephand.corpus.turns import Turn


@dataclass(frozen=True)
class Sizing:
    """The sizes of all sequences, and the samples in every chunk.

    Attributes
    ----------
    sizes : core object
        One size per sequence, in samples.
    chunk_samples : ndarray of uint64, shape (chunks,)
    fingerprinted : bool
        Whether every size is known without loading chunks, so that all of them identify the
        corpus.
    """

    sizes: _core.index.Sizes
    chunk_samples: NDArray[np.uint64]
    fingerprinted: bool = True


@dataclass(frozen=True)
class Stored:
    """What the core holds, where that is not what is served: more, or in another order.

    Attributes
    ----------
    chunk_sequences : ndarray of uint64, shape (chunks of the core,)
        Sequences in every chunk of the core.
    sizes : ndarray of uint32, or None
        Samples of every sequence that the core holds; None: one each.
    numbers : ndarray of uint64, shape (sequences,)
        For every sequence that is served its number among those that the core holds.
    """

    chunk_sequences: NDArray[np.uint64]
    sizes: NDArray[np.uint32] | None
    numbers: NDArray[np.uint64]


class SweepOrder(Protocol):
    """An order that belongs to the data: what ``randomize=False`` delivers."""

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the sequences at places ``[first, first + count)`` of a sweep."""

    def place(self, sweep: int, number: int) -> int:
        """Return the place of a sequence in a sweep."""


@dataclass(frozen=True)
class Opened:
    """A corpus that is ready to be planned and read.

    Attributes
    ----------
    core : core object
        Loads chunks.
    streams : list of StreamInfo
        In the order of the columns of a chunk.
    chunk_sequences : ndarray of uint64, shape (chunks,)
        Sequences in every chunk.
    size_by : callable
        ``size_by(name)`` gives the sizes as the samples of one stream, ``size_by(None)`` as
        those of the longest.
    ids : SequenceIds
        Names of the sequences.
    names : list of str
        Base names of files or arrays, for the fingerprint.
    resident : bool
        Every sequence can be read by itself, at once.
    sample_bytes : float
        Mean bytes of all streams for one sample of the size-defining stream, for estimates of
        memory.
    keys : callable or None
        Join keys of all sequences, ndarray of int64 or list of str; None: their numbers.
    stored : Stored or None
        None if the core holds what is served.
    sized_by_streams : bool
        A sequence is as long as its size-defining stream, or as its longest one; False: one
        sample whatever its streams hold.
    load_threads : int
        Threads that load chunks ahead.
    holds_stored : bool
        While a chunk is loaded it is held as it is stored, too.
    index : Path or None
        Where the index of the files is kept.
    order : SweepOrder or None
        None: unshuffled sweeps are in the order of the numbers.
    open_chunks : int
        How many chunks an unshuffled sweep has open at a time.
    chunked : core object or None
        Loads chunks although all is resident: what is faster where there is a window.
    turns : sequence of Turn
        Of the user's objects that are called to read it.
    """

    core: _core.read.Deserializer
    streams: Sequence[StreamInfo]
    chunk_sequences: NDArray[np.uint64]
    size_by: Callable[[str | None], Sizing]
    ids: SequenceIds
    names: Sequence[str]
    resident: bool
    sample_bytes: float = 0.0
    keys: Callable[[], NDArray[np.int64] | list[str]] | None = None
    stored: Stored | None = None
    sized_by_streams: bool = True
    load_threads: int = 1
    holds_stored: bool = False
    index: Path | None = None
    order: SweepOrder | None = None
    open_chunks: int = 1
    chunked: _core.read.Deserializer | None = None
    turns: Sequence[Turn] = ()

    def in_window(self) -> Opened:
        """Return the corpus as it is read where the user has given a window."""
        if self.chunked is None:
            return self
        return replace(self, core=self.chunked, resident=False, chunked=None)


class Deserializer(ABC):
    """Turns a file format, or arrays, into chunks of sequences."""

    @abstractmethod
    def open(self, ledger: Ledger) -> Opened:
        """Return the corpus, ready to be planned and read.

        Parameters
        ----------
        ledger : Ledger
            Where damaged items are counted that are passed over, now and when chunks are
            loaded. A sequence among them keeps its place on the timeline: it has the size that
            is known of it, else one sample, and the core skips it.

        Raises
        ------
        DataError
            If the bytes are wrong.
        ValueError
            If the streams cannot be served as they are defined.
        """


def size_columns(
    columns: dict[str, ColumnData],
    starts: NDArray[np.int64],
    stream: str | None,
    *,
    skipped: NDArray[np.int64] | None = None,
) -> Sizing:
    """Return the sizes of sequences whose columns are all here.

    Parameters
    ----------
    columns : dict of ColumnData
        One per stream, with as many sequences each.
    starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    stream : str or None
        The stream that defines the size; None: the longest one.
    skipped : ndarray of int64, optional
        Sequences that are never delivered; they count one sample.

    Raises
    ------
    ValueError
        If a sequence has no sample.
    """
    chosen = columns if stream is None else {stream: columns[stream]}
    ragged = {
        name: column.sample_offsets
        for name, column in chosen.items()
        if column.sample_offsets is not None
    }
    if len(chosen) > len(ragged) and not ragged:
        return Sizing(_core.index.CommonSize(1), np.diff(starts).astype(np.uint64))
    is_any_skipped = skipped is not None and len(skipped) > 0
    same = len(chosen) == 1 or _all_equal(list(ragged.values()), len(chosen))
    if same and not is_any_skipped:
        name, offsets = next(iter(ragged.items()))
        return _size_offsets(name, offsets, starts)
    sizes = np.max([np.diff(offsets) for offsets in ragged.values()], axis=0)
    if len(ragged) < len(chosen):
        sizes = np.maximum(sizes, 1)  # the other streams have one sample per sequence
    if skipped is not None:
        sizes[skipped] = 1
    _refuse_empty(" or ".join(map(repr, chosen)), int(sizes.min()), sizes)
    return Sizing(_stored(sizes), sum_chunks(sizes, starts))


def _all_equal(offsets: list[NDArray[np.int64]], wanted: int) -> bool:
    return len(offsets) == wanted and all(
        other is offsets[0] or np.array_equal(other, offsets[0]) for other in offsets[1:]
    )


def _size_offsets(name: str, offsets: NDArray[np.int64], starts: NDArray[np.int64]) -> Sizing:
    least, most = _core.index.check_offsets(offsets, int(offsets[-1]))
    if least == 0:
        _refuse_empty(repr(name), 0, np.diff(offsets))
    chunk_samples = np.diff(offsets[starts]).astype(np.uint64)
    if least == most:
        return Sizing(_core.index.CommonSize(least), chunk_samples)
    return Sizing(_core.index.OffsetSizes(offsets), chunk_samples)


def _stored(sizes: NDArray[np.int64]) -> _core.index.Sizes:
    if sizes.min() == sizes.max():
        return _core.index.CommonSize(int(sizes[0]))
    return _core.index.StoredSizes(sizes.astype(np.uint32))


def _refuse_empty(stream: str, least: int, sizes: NDArray[np.int64]) -> None:
    if least == 0:
        raise ValueError(
            f"sequence {int(np.argmin(sizes))} has no sample in stream {stream}, which defines "
            "its size; remove it, or name another stream by defines_mb_size=True"
        )


def sum_chunks(sizes: NDArray[np.integer], starts: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return the samples of every chunk.

    Parameters
    ----------
    sizes : ndarray of int, shape (sequences,)
    starts : ndarray of int, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    """
    sums = np.zeros(len(starts) - 1, np.uint64)
    filled = np.flatnonzero(np.diff(starts))  # for an empty one reduceat gives the next item
    sums[filled] = np.add.reduceat(sizes, starts[filled], dtype=np.uint64)
    return sums


def chunk_starts(num_sequences: int, chunk_size: int) -> NDArray[np.int64]:
    """Return the first sequence of every chunk of `chunk_size` sequences, and the end."""
    return np.append(np.arange(0, num_sequences, chunk_size), num_sequences).astype(np.int64)


def read_in_place(
    columns: Sequence[ColumnData],
    starts: NDArray[np.int64],
    skipped: NDArray[np.int64] | None = None,
) -> tuple[_core.read.Deserializer, _core.read.Deserializer]:
    """Return what reads columns in local files sequence by sequence, and what by chunks.

    Parameters
    ----------
    columns : sequence of ColumnData
        One per stream; their values lie in extents.
    starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    skipped : ndarray of int64, optional
        Sequences that are damaged and to be left out of minibatches, ascending.
    """
    chunk = make_chunk(
        columns, owned=False, skipped=[] if skipped is None else skipped.tolist()
    )
    by_chunk = _core.read.ExtentChunks(chunk, starts.astype(np.uint64))
    return _core.read.ResidentDeserializer(chunk), by_chunk


def make_chunk(
    columns: Sequence[ColumnData], *, owned: bool = True, skipped: Sequence[int] = ()
) -> _core.read.Chunk:
    """Return columns as a chunk.

    Parameters
    ----------
    columns : sequence of ColumnData
        One per stream, with as many sequences each.
    owned : bool
        Whether their memory counts as the source's; False for that of the user.
    skipped : sequence of int
        Sequences that are damaged and to be left out of minibatches.
    """
    return _core.read.Chunk(
        columns=[column.to_core() for column in columns],
        num_sequences=columns[0].num_sequences,
        bytes=sum(column.num_bytes for column in columns) if owned else 0,
        owner=tuple(columns),
        skipped=sorted(skipped),
    )
