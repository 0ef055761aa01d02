"""Contents that all minibatches of a source share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.streams import StreamInfo
from sweephand.layouts import Layout
from sweephand.minibatch.label_count import LabelKind

if TYPE_CHECKING:  # the generated stub has no types for classes in C

    class StreamKinds:
        """The class of streams, of each key how it is shown, and if sequences have parts."""

        def __init__(
            self,
            data_class: type,
            streams: dict[
                Any, tuple[int, StreamInfo, np.dtype[Any], tuple[int, ...], bool, bool]
            ],
            has_parts: bool,
        ) -> None: ...

else:
    StreamKinds = _core.engine.StreamKinds

Keys = Mapping[Any, tuple[int, StreamInfo]]


class Origin(Protocol):
    """Order that minibatches come from."""

    def sweeps_ended_by(self, start: int, stop: int) -> dict[str, int]:
        """Return how many sweeps of every corpus of a mixture end in ``[start, stop)``."""


class Contents:
    """Contents that all minibatches of a source share.

    Parameters
    ----------
    data_class : type
        Of their streams.
    keys : dict
        Key of a stream to its number in the batch and its info.
    ids : SequenceIds
        Of the sequences.
    origin : Origin, optional
        Of the minibatches; those that came from another process do not know it.
    unlabelled : LabelKind
        Of the labels of a minibatch that has no stream of them.

    Attributes
    ----------
    kinds : core object
        The streams, as the core makes objects and arrays of them.
    """

    __slots__ = ("data_class", "ids", "keys", "kinds", "layout", "origin", "unlabelled")

    def __init__(
        self,
        data_class: type,
        keys: Keys,
        layout: Layout,
        ids: SequenceIds,
        origin: Origin | None = None,
        unlabelled: LabelKind = LabelKind.SAMPLES,
    ) -> None:
        self.data_class = data_class
        self.keys = keys
        self.layout = layout
        self.ids = ids
        self.origin = origin
        self.unlabelled = unlabelled
        self.kinds = StreamKinds(
            data_class,
            {key: (number, *_kind(info)) for key, (number, info) in keys.items()},
            any(info.parts is not None for _, info in keys.values()),
        )

    def only(self, batch: _core.engine.Batch, keys: Keys) -> tuple[_core.engine.Batch, Self]:
        """Return the pickled form of one minibatch, with only these streams."""
        numbers = np.concatenate([batch.sequences(), batch.banned()])
        ids = _TheirIds(numbers, self.ids.names(numbers), self.ids.corpora(numbers))
        streams = [number for number, _ in keys.values()]
        return batch.with_streams(streams), type(self)(
            self.data_class, dict(keys), self.layout, ids, None, self.unlabelled
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.data_class,
            self.keys,
            self.layout,
            self.ids,
            None,
            self.unlabelled,
        )


def _kind(info: StreamInfo) -> tuple[StreamInfo, np.dtype[Any], tuple[int, ...], bool, bool]:
    """Return how the core shows a stream.

    Its info, the dtype and sample shape of its array, True if sequences have one sample each,
    and True if what it has in Python is that array as it is.
    """
    is_plain = not (info.is_variable or info.transforms)
    if info.is_bytes:
        return info, np.dtype(np.uint8), (), info.is_single, is_plain
    shape = () if info.is_variable else info.shape
    return info, info.dtype, shape, info.is_single, is_plain


class _TheirIds(SequenceIds):
    """The ids of a minibatch's sequences, without their corpus."""

    def __init__(
        self, numbers: NDArray[np.integer], names: list[str], corpora: list[str]
    ) -> None:
        self._names: dict[int, str] = dict(zip(numbers.tolist(), names, strict=True))
        self._corpora: dict[int, str] = dict(zip(numbers.tolist(), corpora, strict=True))

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self._names[number] for number in numbers.tolist()]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return which file or corpus each of these sequences is of."""
        return [self._corpora[number] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        for number, found in self._names.items():
            if found == name:
                return number
        raise KeyError(f"the minibatch has no sequence with the id {name!r}")
