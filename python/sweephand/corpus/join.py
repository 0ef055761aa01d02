"""Several deserializers as one corpus: each gives some streams of every sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.frames import as_frames
from sweephand.corpus.ids import KeptIds, SequenceIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamInfo
from sweephand.corpus.turns import Turn
from sweephand.deserializers.deserializer import Deserializer, Opened, Sizing, SweepOrder


@dataclass(frozen=True)
class Joined:
    """What a source needs of one deserializer, or of several that are joined.

    Attributes
    ----------
    members : list of core objects
        The deserializers, and which of their sequences belong together.
    places : list of (member, column)
        Where each stream comes from.
    stored_loads : int
        Chunks that are held as they are stored, at a time, while they are loaded.
    opened, numbers : lists, one entry per deserializer
        The deserializers, and the numbers of their sequences that make up the corpus; None: all
        of the only one.
    """

    members: list[_core.engine.Member]
    places: list[tuple[int, int]]
    streams: list[StreamInfo]
    chunk_sequences: NDArray[np.uint64]
    size_by: Callable[[str | None], Sizing]
    ids: SequenceIds
    names: list[str]
    resident: bool
    sample_bytes: float
    opened: list[Opened]
    numbers: list[NDArray[np.uint64]] | None = None
    num_dropped: int = 0
    order: SweepOrder | None = None
    stored_loads: int = 0
    open_chunks: int = 1

    @property
    def turns(self) -> list[Turn]:
        """Turns of the user's objects that are called."""
        return [turn for one in self.opened for turn in one.turns]

    def measure(self, stream: str | None) -> tuple[Sizing, _core.index.Corpus]:
        """Return the sizes of sequences, by one stream or by the longest, and the corpus."""
        sizing = self.size_by(stream)
        corpus = _core.index.Corpus(self.chunk_sequences, sizing.chunk_samples, sizing.sizes)
        if self.order is not None:
            order = _core.index.CallbackOrder(fill=self.order.numbers, place=self.order.place)
            corpus = corpus.ordered_by(order)
        return sizing, corpus

    def keep(self, kept: NDArray[np.bool_]) -> Joined:
        """Return the corpus with only some of its sequences; their ids stay as they are.

        Parameters
        ----------
        kept : ndarray of bool, shape (sequences,)
        """
        chosen = np.flatnonzero(kept).astype(np.uint64)
        numbers = [chosen] if self.numbers is None else [rows[kept] for rows in self.numbers]
        return _select(self.opened, numbers, self.num_dropped)


def open_all(
    deserializers: Deserializer | Sequence[Deserializer],
    frames: bool,
    missing: Literal["error", "drop"],
    ledger: Ledger,
    *,
    windowed: bool,
) -> Joined:
    """Open deserializers and join them by key; the first one defines chunks and order.

    `windowed` says that the user gave a window.

    Raises
    ------
    TypeError
        If there is something else than deserializers.
    ValueError
        If stream names repeat, keys repeat, or a sequence is missing somewhere and that is an
        error.
    """
    wanted = list(deserializers) if isinstance(deserializers, Sequence) else [deserializers]
    for deserializer in wanted:
        if not isinstance(deserializer, Deserializer):
            raise TypeError(f"deserializers must be Deserializer objects, got {deserializer!r}")
    if not wanted:
        raise ValueError("give at least one deserializer")
    opened: list[Opened] = []
    for deserializer in wanted:
        one = deserializer.open(ledger)
        opened.append(one.in_window() if windowed else one)
    streams = [info for one in opened for info in one.streams]
    names = [info.name for info in streams]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"two deserializers have a stream called {twice!r}; give one another name"
        )
    if len(opened) == 1:
        one = replace(opened[0], keys=None)  # only joining needs them
        return _alone(as_frames(one, ledger) if frames else one)
    if frames:
        raise ValueError(
            "frames of several joined deserializers are not possible; join sequences"
        )
    if any(one.order is not None for one in opened):
        raise ValueError("data that have an order of their own, as TFDS', cannot be joined")
    numbers, num_dropped = _match(opened, missing)
    return _select([replace(one, keys=None) for one in opened], numbers, num_dropped)


def _alone(one: Opened) -> Joined:
    return Joined(
        members=[_member(one)],
        places=[(0, column) for column in range(len(one.streams))],
        streams=list(one.streams),
        chunk_sequences=one.chunk_sequences,
        size_by=one.size_by,
        ids=one.ids,
        names=list(one.names),
        resident=one.resident,
        sample_bytes=one.sample_bytes,
        opened=[one],
        order=one.order,
        stored_loads=_stored_loads(one),
        open_chunks=one.open_chunks,
    )


def _stored_loads(one: Opened) -> int:
    return one.load_threads if one.holds_stored else 0


def _member(one: Opened, joined: NDArray[np.uint64] | None = None) -> _core.engine.Member:
    """Return a member that gives its sequences `joined`; None: all, one after the other."""
    chunk_sequences = one.chunk_sequences
    if one.stored is not None:
        chunk_sequences = one.stored.chunk_sequences
        joined = one.stored.numbers if joined is None else one.stored.numbers[joined]
    return _core.engine.Member(
        deserializer=one.core,
        chunk_sequences=chunk_sequences,
        joined=np.empty(0, np.uint64) if joined is None else joined,
        load_threads=one.load_threads,
        open_chunks=one.open_chunks,
    )


def _select(
    opened: list[Opened], numbers: list[NDArray[np.uint64]], num_dropped: int
) -> Joined:
    """Return the corpus of these sequences, in the order and the chunks of the primary."""
    primary = opened[0]
    ends = np.cumsum(primary.chunk_sequences)
    chunk_ends = np.searchsorted(numbers[0], ends)
    chunk_sequences = np.diff(chunk_ends, prepend=0).astype(np.uint64)
    starts = np.append(0, chunk_ends)

    def size_by(stream: str | None) -> Sizing:
        sizes = np.zeros(len(numbers[0]), np.uint32)
        for one, rows in zip(opened, numbers, strict=True):
            if stream is None or stream in [info.name for info in one.streams]:
                sizes = np.maximum(sizes, _all_sizes(one, stream)[rows])
        totals = np.append(0, np.cumsum(sizes, dtype=np.int64))
        chunk_samples = np.diff(totals[starts]).astype(np.uint64)
        if sizes.min() == sizes.max():
            return Sizing(_core.index.CommonSize(int(sizes[0])), chunk_samples)
        return Sizing(_core.index.StoredSizes(sizes), chunk_samples)

    return Joined(
        members=[_member(one, rows) for one, rows in zip(opened, numbers, strict=True)],
        places=[(m, c) for m, one in enumerate(opened) for c in range(len(one.streams))],
        streams=[info for one in opened for info in one.streams],
        chunk_sequences=chunk_sequences,
        size_by=size_by,
        ids=KeptIds(primary.ids, numbers[0]),
        names=[name for one in opened for name in one.names],
        resident=all(one.resident for one in opened),
        sample_bytes=sum(one.sample_bytes for one in opened),
        opened=opened,
        numbers=numbers,
        num_dropped=num_dropped,
        stored_loads=max(map(_stored_loads, opened)),
    )


def _all_sizes(one: Opened, stream: str | None) -> NDArray[np.uint32]:
    sizing = one.size_by(stream)
    corpus = _core.index.Corpus(one.chunk_sequences, sizing.chunk_samples, sizing.sizes)
    return corpus.sizes(0, corpus.num_sequences)


def _match(
    opened: list[Opened], missing: Literal["error", "drop"]
) -> tuple[list[NDArray[np.uint64]], int]:
    """Return each deserializer's numbers of the joined sequences, and how many are dropped."""
    positional = [one.keys is None for one in opened]
    if any(positional) and not all(positional):
        with_keys = [n for n, is_positional in enumerate(positional) if not is_positional]
        without = [n for n, is_positional in enumerate(positional) if is_positional]
        raise ValueError(
            "a deserializer with ids cannot be joined with one without: by ids are known those "
            f"at {with_keys}, by the numbers of their sequences those at {without}; give ids= "
            "to all or none, and skip_sequence_ids=True to CNTK's text to join it by number"
        )
    keys = [_keys_of(one, which) for which, one in enumerate(opened)]
    primary_keys = keys[0]
    kept = np.ones(len(primary_keys), dtype=np.bool_)
    found = [np.arange(len(primary_keys), dtype=np.uint64)]
    for which, others in enumerate(keys[1:], 1):
        places = {key: number for number, key in enumerate(others)}
        numbers = [places.get(key, -1) for key in primary_keys]
        rows = np.array(numbers, dtype=np.int64)
        lacking = np.flatnonzero(rows < 0)
        if lacking.size and missing == "error":
            shown = ", ".join(repr(primary_keys[i]) for i in lacking[:3])
            raise ValueError(
                f"{lacking.size} of {len(primary_keys)} sequences are missing in deserializer "
                f"{which}, such as those with the keys {shown}; missing='drop' leaves them out"
            )
        kept &= rows >= 0
        found.append(rows.astype(np.uint64))
    if not kept.any():
        raise ValueError("the keys of the joined deserializers do not match: nothing is left")
    return [rows[kept] for rows in found], int((~kept).sum())


def _keys_of(one: Opened, which: int) -> list[str]:
    """Return the keys as text: one deserializer's 7 is another's "7"."""
    if one.keys is None:
        return [str(number) for number in range(int(one.chunk_sequences.sum()))]
    keys = one.keys()
    listed = [str(key) for key in (keys if isinstance(keys, list) else keys.tolist())]
    if len(set(listed)) != len(listed):
        twice = next(key for key, count in Counter(listed).items() if count > 1)
        raise ValueError(f"the key {twice!r} is there twice in deserializer {which}")
    return listed
