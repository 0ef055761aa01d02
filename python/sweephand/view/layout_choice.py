"""Layouts as a page offers them: a name and a length."""

from __future__ import annotations

from collections.abc import Callable

from sweephand.layouts import Bucketed, Frames, Layout, Packed, Padded, Ragged, TruncatedBPTT

_MOST_CELLS = 512  # of a row whose length is not given
_MOST_BUCKETS = 16

_BY_NAME: dict[str, Callable[[int | None, int], Layout]] = {
    "ragged": lambda length, size: Ragged(),
    "padded": lambda length, size: Padded(multiple_of=length or 1),
    "packed": lambda length, size: Packed(length or _row_length(size), split_long="split"),
    "bucketed": lambda length, size: Bucketed("auto", num_buckets=length or _MOST_BUCKETS),
    "bptt": lambda length, size: TruncatedBPTT(length or _row_length(size)),
    "frames": lambda length, size: Frames(),
}
LAYOUTS = tuple(_BY_NAME)


def layout_of(name: str, length: int | None, size: int) -> Layout:
    """Return a layout by its name.

    Parameters
    ----------
    name : str
        One of `LAYOUTS`.
    length : int or None
        Cells of a row of packed rows and of truncated back-propagation, the multiple of padded
        widths, or the number of buckets; None takes one that suits the size.
    size : int
        Samples in a minibatch.

    Raises
    ------
    ValueError
        If there is no such layout, or it has no such length.
    """
    make = _BY_NAME.get(name)
    if make is None:
        raise ValueError(f"there is no layout {name!r}; there are: {', '.join(LAYOUTS)}")
    return make(length, size)


def _row_length(size: int) -> int:
    """Return the greatest power of two that a minibatch has room for, up to a limit."""
    return min(_MOST_CELLS, 1 << (size.bit_length() - 1))
