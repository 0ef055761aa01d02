"""Layouts: how minibatches are composed, and how they are stored in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.streams import StreamInfo, name_of

LongPolicy = Literal["error", "split", "drop"]
OverLimit = Literal["error", "drop", "alone"]
PadValue = float | Mapping[str, float] | Mapping[StreamInfo, float]

_MOST_CELLS = 512  # of a row whose length is not given


def row_length_for(size: int) -> int:
    """Return the greatest power of two that a minibatch has room for, up to a limit."""
    return min(_MOST_CELLS, 1 << (size.bit_length() - 1))


@dataclass(frozen=True)
class LengthLimit:
    """Limit of the length of sequences, and the policy for longer ones."""

    longest: int  # samples of the longest sequence that fits
    what: str  # what does not hold more, for errors
    policy: LongPolicy  # what happens to longer sequences
    advice: str  # what else a caller can do, for errors


class Layout:
    """The composition of minibatches, and their form in memory.

    A layout with options is a frozen dataclass of them.

    By default minibatches take as many whole sequences as fit, one after the other.

    Examples
    --------
    >>> import sweephand as sh
    >>> isinstance(sh.Packed(128), sh.Layout), sh.Padded() == sh.Padded(multiple_of=1)
    (True, True)
    """

    # The form of minibatches in memory, and if rows come with segment and position ids.
    form: ClassVar[_core.engine.Form] = _core.engine.Form.RAGGED
    has_segments: ClassVar[bool] = False
    # Minibatches are of one bucket each, and as wide as its boundary.
    is_bucketed: ClassVar[bool] = False
    # A piece that does not end with its row goes on in the same row of the next minibatch.
    rows_go_on: ClassVar[bool] = False
    # Every sample is a sequence of its own.
    cuts_sequences: ClassVar[bool] = False
    # When a sequence comes depends on the minibatch sizes that are asked for.
    depends_on_size: ClassVar[bool] = False

    # Options that some layouts have, as `Packed` explains them.
    cu_seqlens_capacity: int | None = None
    micro_batch_rows: int | None = None
    parts: str | None = None
    limits: Mapping[str, int] | None = None
    over_limit: OverLimit = "error"

    @classmethod
    def of_length(cls, length: int | None, size: int) -> Layout:
        """Return the layout of one number, as commands and pages offer a choice of layouts.

        `length` are the cells of a row, the multiple of padded widths, or the number of
        buckets; None takes one that suits minibatches of `size` samples. ValueError if there
        is no layout of such a length.
        """
        return cls()

    @property
    def has_rows(self) -> bool:
        """True if sequences, or pieces of them, fill rows of a fixed length."""
        return self.form is _core.engine.Form.ROWS

    @property
    def fits_in_order(self) -> bool:
        """True if minibatches take as many whole sequences as fit, in the order of a timeline.

        Who gets a sequence follows from its lane then, so that there are no more workers.
        """
        return not (self.has_rows or self.is_bucketed)

    @property
    def may_cut(self) -> bool:
        """True if sequences may be cut."""
        limit = self.length_limit
        cuts_long = limit is not None and limit.policy == "split"
        return self.cuts_sequences or self.rows_go_on or cuts_long

    def describe(self) -> str:
        """Return the layout with its parameters that are not the default, for fingerprints."""
        kind: Any = type(self)
        options = fields(kind) if is_dataclass(kind) else ()  # one without options need not be
        changed = [one.name for one in options if getattr(self, one.name) != one.default]
        values = [f"{name}={getattr(self, name)!r}" for name in changed]
        return f"{type(self).__name__}({', '.join(values)})"

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse parameters for streams that are not there, with ValueError."""

    def pad_value_of(self, stream: str) -> float:
        """Return the value that fills the gaps of a stream in a dense array."""
        return 0

    @property
    def length_limit(self) -> LengthLimit | None:
        """The longest sequence that the layout holds; None if it holds any."""
        return None

    def settle(
        self, corpus: _core.index.Corpus, counts: Mapping[str, NDArray[np.uint32]]
    ) -> Self:
        """Return the layout with everything decided that follows from the lengths.

        `counts` are those of the limited streams in every sequence.
        """
        return self

    @property
    def assemble_options(self) -> _core.engine.AssembleOptions:
        """Layout of minibatches in memory."""
        return _core.engine.AssembleOptions(self.form, False, 1, self.has_segments)

    @property
    def planner_choices(self) -> Any:
        """Choices of which the core's planner of this layout is made."""
        return _core.compose.Fitting()

    def num_cells(
        self, minibatch_size_in_samples: int, some_sizes: Callable[[], NDArray[np.uint32]]
    ) -> float:
        """Estimate the most cells of a minibatch of a size, by the sizes of a few sequences.

        They may have to be loaded, so they are asked for only where it depends on them.
        """
        return minibatch_size_in_samples

    def samples_at_hand(self, window_samples: int) -> int:
        """Return about how many samples are composed together, beyond a minibatch's."""
        return 0


class GapLayout(Layout):
    """A layout whose dense arrays have gaps, which it fills."""

    pad_value: PadValue

    def __post_init__(self) -> None:
        values = self.pad_value
        if isinstance(values, Mapping) and any(isinstance(key, StreamInfo) for key in values):
            named = {name_of(stream): value for stream, value in values.items()}
            object.__setattr__(self, "pad_value", named)

    def check_streams(self, streams: Collection[str]) -> None:
        if isinstance(self.pad_value, Mapping):
            for name in self.pad_value:
                if name not in streams:
                    raise ValueError(
                        f"pad_value names {name!r}, the streams are: {', '.join(streams)}"
                    )

    def pad_value_of(self, stream: str) -> float:
        if isinstance(self.pad_value, Mapping):
            named: Mapping[Any, float] = self.pad_value
            return named.get(stream, 0)
        return self.pad_value


def pad_element(stream: str, dtype: np.dtype[Any], value: float) -> NDArray[Any]:
    """Return the value for gaps as an element of a stream: an array of shape () and its dtype.

    0 is an element whose bytes are 0, whatever the dtype. ValueError if the dtype cannot hold
    the value.
    """
    if value == 0:
        return np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            pad = np.asarray(value).astype(dtype)
    except (TypeError, ValueError, OverflowError, FloatingPointError):
        pad = None
    if pad is None or (dtype.kind in "biu" and int(pad) != value):
        raise ValueError(f"pad_value {value!r} of stream {stream!r} is no {dtype}")
    return pad


def padding_of(layout: Layout, info: StreamInfo) -> bytes:
    """Return the element of a stream that a layout fills gaps with, as bytes."""
    pad_value = 0 if info.is_bytes else layout.pad_value_of(info.name)
    return pad_element(info.name, info.stored_dtype, pad_value).tobytes()


def layout_by_name(name: object, options: Mapping[str, Any]) -> Layout:
    """Return the layout that ``sh.NAME(**options)`` is; KeyError if there is none."""
    return _classes()[str(name)](**options)


def layout_names() -> list[str]:
    """Return the names of all layouts in lower case, as commands and pages offer them."""
    return [name.lower() for name in _classes()]


def layout_of_length(name: str, length: int | None, size: int) -> Layout:
    """Return `Layout.of_length` of a layout by its name in lower case, or ValueError."""
    kinds = {each.lower(): kind for each, kind in _classes().items()}
    if name not in kinds:
        raise ValueError(f"there is no layout {name!r}; there are: {', '.join(kinds)}")
    return kinds[name].of_length(length, size)


def _classes() -> dict[str, type[Layout]]:
    from sweephand import layouts

    found = {name: getattr(layouts, name) for name in dir(layouts) if name != "Layout"}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Layout)
    }
