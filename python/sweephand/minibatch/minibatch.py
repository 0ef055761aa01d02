"""The minibatches that a source delivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.public_names import load_added
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.streams import StreamInfo, name_of
from sweephand.errors import UnquotedMessage, shown
from sweephand.layouts import Layout
from sweephand.minibatch.contents import Contents, Keys, Origin
from sweephand.minibatch.labels import LABELS, LabelKind, kind_of_stream
from sweephand.minibatch.minibatch_data import MinibatchData, marks_of
from sweephand.minibatch.segments import Segments
from sweephand.minibatch.share import Share

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from sweephand.torch import Tensors


class Minibatch(Share, Mapping[Any, MinibatchData]):
    """A worker's share of a minibatch: stream name, or input map's key, to `MinibatchData`.

    A stream is also found by its `StreamInfo`, with any key.

    It is falsy only at the end of the data; a worker with an empty share gets a truthy one with
    0 sequences. It pickles by value. Loaders that rebuild mappings, as in
    ``type(mapping)({key: mapping[key], ...})``, get the same minibatch.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> data = {"tokens": [np.arange(3), np.arange(2)], "label": np.arange(2)}
    >>> source = sh.MinibatchSource(sh.ArrayDeserializer(data), randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(5)
    >>> minibatch.ids, minibatch.num_sequences, minibatch.num_samples, minibatch.end_of_sweep
    (['array__0', 'array__1'], 2, 5, True)
    >>> {name: data.values for name, data in minibatch.items()}
    {'tokens': array([0, 1, 2, 0, 1]), 'label': array([0, 1])}
    """

    __slots__ = ("__weakref__", "_contents", "_data", "_device", "_plan")

    _plan: _core.engine.Batch  # which is a plan, carried out

    def __init__(
        self,
        batch: _core.engine.Batch | Mapping[Any, MinibatchData],
        contents: Contents | None = None,
        device: object = None,
    ) -> None:
        """Make a minibatch of the parts of another, or of all its data."""
        if contents is None:
            batch, contents, device = _parts_of(batch)
        self._plan, self._contents, self._device = batch, contents, device  # type: ignore[assignment]
        self._data: dict[Any, MinibatchData] = {}  # of the streams that were asked for

    def __bool__(self) -> bool:
        return not self._plan.end_of_data

    def __getitem__(self, key: Any) -> MinibatchData:
        found = self._data.get(key)
        if found is not None:
            return found
        if key not in self._keys:
            return self[self._other_key(key)]
        made = MinibatchData(self._plan, self._contents, self._device, key)
        return self._data.setdefault(key, made)  # another thread may have been faster

    def _other_key(self, key: Any) -> Any:
        if isinstance(key, StreamInfo):
            for other, (_, info) in self._keys.items():
                if info.name == key.name and other != key:
                    return other
        raise KeyError(UnquotedMessage(self._described(key)))

    @property
    def _keys(self) -> Keys:
        return {} if self._plan.end_of_data else self._contents.keys

    @property
    def _ids(self) -> SequenceIds:  # type: ignore[override] # an attribute of other shares
        return self._contents.ids

    @property
    def layout(self) -> Layout:
        """The layout of the source."""
        return self._contents.layout

    def __contains__(self, key: object) -> bool:
        if isinstance(key, StreamInfo):
            return super().__contains__(key)
        return key in self._keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def torch(self, device: object = None, non_blocking: bool = False) -> Tensors:
        """Return the streams as tensors, on a CPU over the same memory.

        They come to the device, by default that of `next_minibatch`, or the CPU; to a CUDA
        device through pinned memory, and with `non_blocking` before the copy has ended. See
        also `sweephand.torch.tensors_of`.
        """
        from sweephand.torch import tensors_of

        return tensors_of(self, self._device if device is None else device, non_blocking)

    def to(self, device: object, non_blocking: bool = False) -> Tensors:
        """Return `torch(device)`, for loops that move the minibatches of a loader."""
        return self.torch(device, non_blocking)

    if not TYPE_CHECKING:  # type checkers and editors know that there are none

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError for an unknown name, with its replacement."""
            if name.startswith("_") or hasattr(type(self), name):
                return self.__getattribute__(name)  # the error of a property that raised one
            hint = self._described(name)
            if name in self._keys:
                hint = f"its stream is minibatch[{name!r}]"
            raise AttributeError(f"a minibatch has no attribute {name!r}; {hint}")

    def __setitem__(self, key: Any, value: object) -> NoReturn:
        raise TypeError("a minibatch is read-only; take minibatch.torch(), or dict(minibatch)")

    def _described(self, key: Any) -> str:
        if not self:
            return "this minibatch is the end of the data: leave the loop `if not minibatch`"
        there = ", ".join(map(repr, map(name_of, self._keys)))
        return f"there is no stream {shown(name_of(key))}, there are: {there}"

    def __repr__(self) -> str:
        if not self:
            return "Minibatch(end of data)"
        streams = ", ".join(f"{key}: {data.brief}" for key, data in self.items())
        share = "" if self.num_samples == self.global_num_samples else (
            f" of {self.global_num_samples} over all workers")  # fmt: skip
        return (
            f"Minibatch({self.num_sequences} sequences, {self.num_samples} samples{share}, at "
            f"nominal time {self.nominal_time}; {streams})"
        )

    def show(self, decode: object = None) -> HtmlPage:
        """Return a page of the first rows; `decode` is as in `MinibatchSource.show`."""
        return make_page("minibatch", self, decode)

    def _repr_html_(self) -> str | None:
        make = load_added(PAGES, "minibatch")
        return None if make is None else make(self)._repr_html_()  # else a notebook shows repr

    def __reduce__(self) -> tuple[Any, ...]:
        return Minibatch, (*self._contents.only(self._plan, self._keys), self._device)

    def rows(self, begin: int, end: int) -> Minibatch:
        """Return the rows ``[begin, end)`` of `num_rows`, which share their memory.

        Attributes of the global minibatch, such as `global_num_samples`, keep their values.
        """
        return Minibatch(self._plan.rows_of(begin, end), self._contents, self._device)

    def micro_batches(self) -> list[Minibatch]:
        """Return the share in parts of ``Packed(micro_batch_rows=...)`` rows, for one step.

        They are as many for every worker, the costliest first; none only at the end of data.
        Each describes its sequences as a minibatch of their own would, as `rows` has them.
        """
        most = self.layout.micro_batch_rows
        if most is None:
            raise AttributeError(
                "micro-batches come with layout=Packed(..., micro_batch_rows=n), this is "
                f"{self.layout!r}"
            )
        return [self.rows(first, first + most) for first in range(0, self.num_rows, most)]

    @property
    def num_rows(self) -> int:
        """Rows of the share; sequences, in a layout without rows."""
        return self._plan.num_rows if self.layout.has_rows else self.num_sequences

    @property
    def global_num_label_samples(self) -> int:
        """Labels over all workers, as planned: the divisor of a sum of losses.

        They are the samples of the stream "labels" (ValueError if their number is not known
        before they are read). Without one they are the next tokens that ``labels()`` of the
        size-defining stream gives; or all its samples, if these are no integers or all
        sequences have one. Of another stream there is `MinibatchData.global_num_labels`. Banned
        sequences are not counted; those that are skipped as damaged are.
        """
        if self._labels is LabelKind.UNKNOWN:
            return self[LABELS].global_num_samples
        return self._labels.count(self._plan.counted)

    @property
    def _labels(self) -> LabelKind:  # type: ignore[override] # an attribute of other shares
        labels = self.get(LABELS)
        return self._contents.unlabelled if labels is None else kind_of_stream(labels.info)

    @property
    def num_label_samples(self) -> int:
        """Labels of this share, or of this part of it, as delivered."""
        labels = self.get(LABELS)
        if labels is not None:
            return labels.num_samples
        kind = self._contents.unlabelled
        if kind is LabelKind.MASKED:
            masked = [data for data in self.values() if data.info.is_masked]
            return sum(int(np.count_nonzero(data.loss_mask())) for data in masked)
        if kind is LabelKind.NEXT_TOKENS:
            return self.num_samples - self._plan.share_ends
        return self.num_samples

    @property
    def origin(self) -> Origin | None:
        """The plan that the minibatch is of; None if it came from another process."""
        return self._contents.origin

    @property
    def sweeps_ended_by(self) -> dict[str, int]:
        """The number of sweeps of every corpus of a mixture that end in the global minibatch.

        Of one corpus it is empty: see `sweeps_ended`. AttributeError if the minibatch came from
        another process.
        """
        origin = self.origin
        if origin is None:
            raise AttributeError(
                "it came from another process; source.corpus_positions(time) knows the sweeps"
            )
        start = self.nominal_time
        return origin.sweeps_ended_by(start, start + self.global_num_samples)

    @property
    def bucket_key(self) -> int | None:
        """In a bucketed layout the boundary of the bucket, which is the padded width."""
        return self._plan.row_length if self.layout.is_bucketed else None

    @property
    def provide_data(self) -> list[tuple[Any, tuple[int, ...]]]:
        """(name, shape of `MinibatchData.asarray`) of every stream but "labels"."""
        return [(key, data.dense_shape) for key, data in self.items() if name_of(key) != LABELS]

    @property
    def provide_label(self) -> list[tuple[Any, tuple[int, ...]]]:
        """The same of the stream "labels", if it is there."""
        return [(key, data.dense_shape) for key, data in self.items() if name_of(key) == LABELS]

    @property
    def fill_ratio(self) -> float:
        """Samples of the share over the cells of its dense arrays; 1.0 if it has no gaps."""
        cells = self._plan.num_cells
        return self.num_samples / cells if cells else 1.0

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row, or part of one, every cell holds.

        They come with packed rows, and with padded ones whose sequences have parts: int32,
        shape (rows, row length), 1, 2, ... in every row and 0 in gaps.
        """
        parted = self._parted
        if parted is not None:
            return parted.segment_ids
        return marks_of(self._plan.segment_ids(), self.layout)

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """The place of every cell in its sequence, or part of one: int32, as `segment_ids`.

        It is from 0 in every segment, and 0 in gaps.
        """
        parted = self._parted
        if parted is not None:
            return parted.position_ids
        return marks_of(self._plan.position_ids(), self.layout)

    @property
    def parts(self) -> NDArray[np.int64]:
        """The sequence and the part of each segment: int64, shape (segments, 2).

        In the order of `MinibatchData.cu_seqlens`: the sequence, as the share counts, and the
        number of the part. AttributeError if no stream has parts.
        """
        parted = self._parted
        if parted is None or parted.sequence_parts is None:
            raise AttributeError("parts come with StreamDef(parts=...) on the tokens")
        return parted.sequence_parts.table

    @property
    def starts(self) -> NDArray[np.int64]:
        """The begins of pieces in a layout of rows: int64, shape (sequences,).

        Row after row the column of each piece, or, for a piece that continues a sequence, minus
        the samples delivered before; in `TruncatedBPTT` such a piece is at column 0.
        """
        segments, parted = Segments.of_rows(self._plan, self.layout), self._parted
        if parted is not None and parted.sequence_parts is not None:
            segments = segments.split(parted.sequence_parts)
        return segments.starts(self._plan.row_length)

    @property
    def _parted(self) -> MinibatchData | None:
        for key, (_, info) in self._contents.keys.items():
            if info.definition.parts is not None:
                return self[key]
        return None


def _parts_of(mapping: object) -> tuple[_core.engine.Batch, Contents, object]:
    data = list(mapping.values()) if isinstance(mapping, Mapping) else []
    found = {id(one._batch) if isinstance(one, MinibatchData) else None for one in data}
    if len(found) != 1 or None in found:
        raise TypeError("a minibatch comes from a source, or is made of all data of another")
    return data[0]._batch, data[0]._contents, data[0]._device


PAGES = "sweephand.pages"
"""The group of entry points, each named by what it shows."""


class HtmlPage(Protocol):
    """A page of HTML that needs no other file; a notebook shows it."""

    @property
    def html(self) -> str:
        """The document."""

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the document to a file and return its path."""

    def _repr_html_(self) -> str: ...


def make_page(name: str, *arguments: object, **options: object) -> HtmlPage:
    """Return a page; ImportError if no installed package makes pages of this name."""
    make = load_added(PAGES, name)
    if make is None:
        raise ImportError(
            f"no installed package shows a {name} (no entry point {name!r} of {PAGES}); "
            "`pip install sweephand` brings one, with the metadata that a copied folder lacks"
        )
    page: HtmlPage = make(*arguments, **options)
    return page
