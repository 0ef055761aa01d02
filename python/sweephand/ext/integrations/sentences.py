"""Sentences in minibatches of one bucket each, as MXNet's iterator serves them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import StateError
from sweephand.extend import _core, check_choice, check_int


def widths_of(
    sentences: Sequence[Sequence[int]], batch_size: int, buckets: Sequence[int] | None
) -> list[int]:
    """Return the widths of buckets, ascending: the given ones, or frequent lengths."""
    if buckets:
        for end in buckets:
            check_int("a bucket", end, 1, 2**31)
        return sorted({int(end) for end in buckets})
    counts = Counter(len(sentence) for sentence in sentences)
    ends = sorted(size for size, count in counts.items() if count >= batch_size and size)
    if not ends:
        raise ValueError(
            f"no length occurs {batch_size} times, the batch size, among {len(sentences)} "
            "sentences; give buckets"
        )
    return ends


def fill_buckets(
    sentences: Sequence[Sequence[int]], ends: list[int], pad: int, dtype: np.dtype[Any]
) -> tuple[dict[int, NDArray[Any]], dict[int, NDArray[np.int64]]]:
    """Return the padded sentences of every bucket that is not empty, by width, with numbers."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    bucket = np.where(lengths > 0, np.searchsorted(ends, lengths), len(ends))
    rows, numbers = {}, {}
    for number, end in enumerate(ends):
        members = np.flatnonzero(bucket == number)
        if not members.size:
            continue
        numbers[end] = members
        rows[end] = np.full((len(members), end), pad, dtype)
        for row, member in zip(rows[end], members.tolist(), strict=True):
            row[: lengths[member]] = sentences[member]
    if not rows:
        raise ValueError(
            f"none of {len(sentences)} sentences fits a bucket; the largest is {ends[-1]}"
        )
    return rows, numbers


Shapes = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class DataBatch:
    """A minibatch of one bucket.

    Attributes
    ----------
    data, label : list of one ndarray
        (batch_size, bucket_key), with layout "TN" transposed.
    bucket_key : int
        The bucket.
    provide_data, provide_label : list of (name, shape)
        Of this minibatch.
    pad : int
        Always 0: minibatches are full.
    index : ndarray of int64, shape (batch_size,)
        The number of every sentence, as they were given.

    Examples
    --------
    >>> import sweephand as sh
    >>> sentences = [[1, 2, 3], [4, 5, 6]]
    >>> batch = next(sh.mxnet.BucketSentenceIter(sentences, 2, buckets=[4], shuffle=False))
    >>> batch.bucket_key, batch.provide_data
    (4, [('data', (2, 4))])
    >>> batch.label[0]
    array([[ 2.,  3., -1., -1.],
           [ 5.,  6., -1., -1.]], dtype=float32)
    """

    data: list[NDArray[Any]]
    label: list[NDArray[Any]]
    bucket_key: int
    provide_data: Shapes
    provide_label: Shapes
    pad: int = 0
    index: NDArray[np.int64] | None = None


class BucketSentenceIter:
    """Serve sentences in minibatches of one bucket each, by the rules of MXNet's class.

    A sentence goes into the smallest bucket that holds it, padded on the right with
    `invalid_label`; its label is itself shifted left by one. Minibatches are full: every epoch
    leaves out what remains of each bucket, other sentences each time. Shuffling is a pure
    function of seed and epoch. What MXNet loses in silence is counted, and warned of once.

    Parameters
    ----------
    sentences : sequence of sequences of int
        Left as they are. Empty ones are discarded.
    batch_size : int
        Sentences in a minibatch.
    buckets : sequence of int, optional
        Lengths of buckets; by default every length that occurs at least `batch_size` times.
        Those that get no sentence are removed. Longer sentences than the last are discarded.
    invalid_label : int
        What pads data and labels.
    dtype : dtype-like
        Of data and labels. float32 is exact for ids below 2^24.
    layout : {"NT", "TN"}
        Sentences as rows, or as columns.
    shuffle : bool
        Shuffle minibatches, and sentences within buckets.
    seed : int
        In [0, 2^64).

    Attributes
    ----------
    buckets : list of int
        Those that hold a sentence, ascending.
    default_bucket_key : int
        The largest of them; `provide_data` and `provide_label` have its shape.
    num_discarded : int
        Sentences that are in no bucket.
    num_left_over : int
        Sentences that an epoch leaves out of its minibatches.

    Raises
    ------
    ValueError
        If an argument is wrong or no sentence is in a bucket.

    Examples
    --------
    >>> import sweephand as sh
    >>> sentences = [[7], [8, 9], [1, 2, 3], [4, 5, 6, 7]]
    >>> batches = sh.mxnet.BucketSentenceIter(sentences, 2, [2, 4], 0, shuffle=False)
    >>> [(batch.bucket_key, batch.data[0].tolist()) for batch in batches]
    [(2, [[7.0, 0.0], [8.0, 9.0]]), (4, [[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 7.0]])]
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        dtype: DTypeLike = "float32",
        layout: Literal["NT", "TN"] = "NT",
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        check_int("batch_size", batch_size, 1, 2**31)
        check_int("seed", seed, 0, 2**64)
        check_choice("layout", layout, "NT", "TN")
        self.batch_size = batch_size
        self.invalid_label = invalid_label
        self.layout = layout
        self._shuffle = shuffle
        self._seed = seed
        ends = widths_of(sentences, batch_size, buckets)
        rows, self._numbers = fill_buckets(sentences, ends, invalid_label, np.dtype(dtype))
        self.buckets = list(rows)
        self.default_bucket_key = self.buckets[-1]
        self.num_discarded = len(sentences) - sum(map(len, rows.values()))
        self.num_left_over = sum(len(found) % batch_size for found in rows.values())
        self._rows = rows
        self._labels = {  # the next word at every place
            key: np.pad(found[:, 1:], ((0, 0), (0, 1)), constant_values=invalid_label)
            for key, found in rows.items()
        }
        self._batches = [
            (key, start)
            for key, found in rows.items()
            for start in range(0, len(found) - batch_size + 1, batch_size)
        ]
        if self.num_discarded or self.num_left_over:
            warnings.warn(
                f"of {len(sentences)} sentences {self.num_discarded} are empty or longer than "
                f"the largest bucket, {self.default_bucket_key}, and discarded; "
                f"{self.num_left_over} fill no minibatch in each epoch",
                stacklevel=2,
            )
        self._start_epoch(0)

    @property
    def provide_data(self) -> Shapes:
        """(name, shape) of the data of the default bucket."""
        return [("data", self._shape(self.default_bucket_key))]

    @property
    def provide_label(self) -> Shapes:
        """(name, shape) of the labels of the default bucket."""
        return [("softmax_label", self._shape(self.default_bucket_key))]

    def reset(self) -> None:
        """Begin the next epoch."""
        self._start_epoch(self._epoch + 1)

    def next(self) -> DataBatch:
        """Return the next minibatch.

        Raises
        ------
        StopIteration
            At the end of the epoch; `reset` begins the next one.
        """
        if self._next == len(self._batches):
            raise StopIteration
        key, start = self._batches[self._order[self._next]]
        self._next += 1
        rows = self._row_order[key][start : start + self.batch_size]
        data, label = self._rows[key][rows], self._labels[key][rows]
        if self.layout == "TN":
            data, label = data.T, label.T
        return DataBatch(
            data=[data],
            label=[label],
            bucket_key=key,
            provide_data=[("data", data.shape)],
            provide_label=[("softmax_label", label.shape)],
            index=self._numbers[key][rows],
        )

    __next__ = next

    def __iter__(self) -> Self:
        """Return the iterator; it goes on where it is."""
        return self

    def state_dict(self) -> dict[str, int]:
        """Return where it is, as JSON types."""
        where = {"epoch": self._epoch, "batch": self._next}
        return where | {"fingerprint": self._fingerprint()}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to where a state was taken.

        Raises
        ------
        StateError
            If it was taken with other sentences, buckets, batch size or seed.
        """
        if set(state) != {"epoch", "batch", "fingerprint"}:
            raise StateError(f"a state has epoch, batch and fingerprint, got {sorted(state)}")
        if state["fingerprint"] != self._fingerprint():
            raise StateError("the state is of other sentences, buckets, batch size or seed")
        check_int("the state's epoch", state["epoch"], 0, 2**63)
        check_int("the state's batch", state["batch"], 0, len(self._batches) + 1)
        self._start_epoch(state["epoch"])
        self._next = state["batch"]

    def _start_epoch(self, epoch: int) -> None:
        self._epoch, self._next = epoch, 0  # the next minibatch of the epoch
        self._order = self._permute(len(self._batches), epoch, 0)
        self._row_order = {
            key: self._permute(len(rows), epoch, key) for key, rows in self._rows.items()
        }

    def _permute(self, count: int, epoch: int, what: int) -> NDArray[np.uint64]:
        if not self._shuffle or count == 0:
            return np.arange(count, dtype=np.uint64)
        key = _core.base.derive_key([self._seed, epoch, what])
        return _core.order.Permutation(count, key).take(0, count)

    def _shape(self, key: int) -> tuple[int, int]:
        return (self.batch_size, key) if self.layout == "NT" else (key, self.batch_size)

    def _fingerprint(self) -> int:
        words = [self._seed, self.batch_size, int(self._shuffle)]
        for key, rows in self._rows.items():
            digest = _core.base.Digest()
            digest.update(rows.tobytes())
            words += [key, len(rows), int(digest.hex()[:16], 16)]
        return _core.base.derive_key(words)
