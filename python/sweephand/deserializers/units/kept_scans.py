"""Checks of the entries of an index, before they are used.

An index may be damaged, old, or written by another user. Entries that no scan can have found
are refused here; then the file is scanned again. That the bytes match the index is checked when
they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.files.index_file import Index

# Limit of a file: beyond it an index would be useless, and the file is scanned each time.
_FREE_NUMBERS = 1 << 20
_NUMBERS_PER_BYTE = 4096
_MOST_UNIT_BYTES = 1 << 40
_KINDS = "biuf"


def check_index(index: Index, streams: Collection[str]) -> None:
    """Refuse impossible units, rows, streams and errors of files."""
    rows = check_array(index, "rows", np.int64)
    num_bytes = check_array(index, "num_bytes", np.int64)
    starts = index.starts["rows"]
    sizes = np.array([file.size for file in index.files], np.float64)
    most = _FREE_NUMBERS + _NUMBERS_PER_BYTE * sizes
    require(np.array_equal(starts, index.starts["num_bytes"]), "units")
    require(_is_within(rows, spread(most, starts)), "units")
    require(_is_within(num_bytes, _MOST_UNIT_BYTES), "bytes of units")
    num_rows = _totals(rows, starts)
    require(bool((num_rows <= most).all()) and bool(num_rows.sum() < 2**53), "rows")
    _check_damaged(index, num_rows)
    widths, are_ragged = _check_facts(index, streams)
    for name in streams:
        lengths = check_array(index, f"lengths of {name}", np.uint32)
        own_starts = index.starts[f"lengths of {name}"]
        wanted = np.where(are_ragged[name], num_rows, 0)
        require(np.array_equal(np.diff(own_starts), wanted), "lengths")
        num_samples = _totals(lengths, own_starts)
        require(bool((num_samples * widths[name] <= most).all()), "samples")


def _check_damaged(index: Index, num_rows: NDArray[np.float64]) -> None:
    damaged = check_array(index, "damaged_rows", np.int64)
    starts = index.starts["damaged_rows"]
    is_rising = all_follow(damaged[1:] > damaged[:-1], starts)
    require(_is_within(damaged, spread(num_rows - 1, starts)) and is_rising, "damaged rows")
    for number in np.flatnonzero(np.diff(starts)).tolist():
        errors = index.facts[number]["errors"]
        require(bool(errors), "damage without an error")


def _check_facts(
    index: Index, streams: Collection[str]
) -> tuple[dict[str, list[int]], dict[str, list[bool]]]:
    """Return the values in a sample of each stream of each file, and True if it is ragged."""
    widths: dict[str, list[int]] = {name: [] for name in streams}
    are_ragged: dict[str, list[bool]] = {name: [] for name in streams}
    lengths = {name: np.diff(index.starts[f"lengths of {name}"]) for name in streams}
    last: Any = None
    checked: dict[str, tuple[int, bool]] = {}
    for number, facts in enumerate(index.facts):
        require(type(facts["format"]) is dict and type(facts["is_cut"]) is bool, "facts")
        if facts["errors"] != []:
            _check_errors(facts["errors"])
        kinds = facts["kinds"]
        if kinds != last:  # most files are alike
            require(isinstance(kinds, dict) and set(kinds) <= set(streams), "streams")
            checked = {name: _check_kind(kind) for name, kind in kinds.items()}
            last = kinds
        for name in streams:
            width, is_ragged = checked.get(name) or (1, bool(lengths[name][number]))
            widths[name].append(width)
            are_ragged[name].append(is_ragged)
    return widths, are_ragged


def check_array(index: Index, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a flat array of an index, which must be of a dtype."""
    array = index.arrays[name]
    require(array.ndim == 1 and array.dtype == dtype, name)
    return array


def check_runs(runs: Sequence[Any], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return runs of files: lists of counts, two of which are begin and end in bytes."""
    require({*map(type, runs)} <= {list}, "runs")
    flat: list[Any] = list(chain.from_iterable(runs))
    require({*map(type, flat)} <= {list} and {*map(len, flat)} <= {width}, "a run")
    numbers: list[Any] = list(chain.from_iterable(flat))
    require({*map(type, numbers)} <= {int}, "numbers of a run")
    found = np.array(numbers, np.int64).reshape(-1, width)
    require(_is_within(found, 2**62 - 1), "numbers of a run")
    return found, offsets_of([len(one) for one in runs])


def check_row_runs(index: Index) -> None:
    """Refuse units that are not consecutive runs of a file's rows."""
    units, starts = check_units(index, 2)
    begins, ends = units.T
    _, first_begins, _ = check_ends(begins, ends, starts)
    require(not first_begins.any(), "units")
    require(np.array_equal(ends - begins, index.arrays["rows"]), "units")


def check_units(
    index: Index, width: int, *, may_be_empty: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the units of files as `check_runs` does; they must be consecutive."""
    units, starts = check_runs([facts["format"]["units"] for facts in index.facts], width)
    require(np.array_equal(starts, index.starts["rows"]), "units")
    begins, ends = units[:, 0], units[:, 1]
    require(all_follow(begins[1:] == ends[:-1], starts), "units")
    require(bool((ends > begins - may_be_empty).all()), "units")
    return units, starts


def check_first_rows(index: Index, first_rows: NDArray[np.int64]) -> None:
    """Refuse units with a wrong number for their first row."""
    starts = index.starts["rows"]
    rows = offsets_of(index.arrays["rows"])
    own = rows[:-1] - spread(rows[starts[:-1]], starts)
    require(np.array_equal(first_rows, own), "units")


def check_places(
    index: Index, stream: str, file_bytes: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sizes of values in files, which must be within their file.

    `starts` is the first entry of each file, and the end.
    """
    begins = check_array(index, f"begins of {stream}", np.int64)
    sizes = check_array(index, f"sizes of {stream}", np.int64)
    for one in ("begins", "sizes"):
        require(np.array_equal(index.starts[f"{one} of {stream}"], starts), one)
    most = spread(file_bytes, starts)
    are_there = (begins >= 0) & (sizes >= 0) & (sizes <= most) & (begins <= most - sizes)
    require(bool(are_there.all()), "the places of values")
    return sizes


def check_members(members: Any, size: int) -> None:
    """Refuse impossible offsets of the members of a compressed file."""
    found, _ = check_runs([members], 2)
    require(bool((np.diff(found, axis=0) > 0).all()), "the members")
    require(bool((found[:, 1] < max(size, 1)).all()), "the members")


def spread(values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """Repeat the value of each file for all entries of the file."""
    return np.repeat(values, np.diff(starts))


def all_follow(are: NDArray[np.bool_], starts: NDArray[np.int64]) -> bool:
    """Return True if a relation holds between all neighbours within a file.

    Parameters
    ----------
    are : ndarray of bool, shape (entries - 1,)
        Whether it holds between an entry and the next, of whichever file; it is changed.
    """
    borders = starts[(starts > 0) & (starts <= len(are))]
    are[borders - 1] = True
    return bool(are.all())


def check_ends(
    firsts: NDArray[np.integer],
    lasts: NDArray[np.integer],
    starts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return which files have entries, and of each the first and the last."""
    filled = np.flatnonzero(np.diff(starts))
    return filled, firsts[starts[filled]], lasts[starts[filled + 1] - 1]


def require(is_so: bool, what: str) -> None:
    """Refuse an index."""
    if not is_so:
        raise ValueError(f"the index says what cannot be: {what}")


def _is_within(numbers: NDArray[np.integer], most: NDArray[np.float64] | int) -> bool:
    return bool((numbers >= 0).all() and (numbers <= most).all())


def _totals(numbers: NDArray[np.integer], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Add the numbers of each file, without an overflow."""
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))  # for an empty one reduceat gives the next item
    sums[filled] = (
        np.add.reduceat(numbers, starts[filled], dtype=np.float64) if filled.size else 0
    )
    return sums


def _check_kind(kind: Any) -> tuple[int, bool]:
    """Return the values in a sample of a stream, and True if it is ragged."""
    dtype, shape, is_ragged, *sparse = kind
    require(isinstance(dtype, str) and len(dtype) < 16, "dtype")
    is_known = dtype in ("bytes", "objects") or np.dtype(dtype).kind in _KINDS
    require(is_known and isinstance(shape, list) and len(shape) <= 32, "kind")
    width = 1
    for count in shape:
        require(type(count) is int and 0 < count < 2**31, "shape")
        width *= count
    require(width < 2**31 and isinstance(is_ragged, bool), "shape")
    require(sparse in ([], [True]), "kind")
    return 1 if sparse else width, is_ragged  # a sparse sample may hold one number, or none


def _check_errors(errors: Iterable[Any]) -> None:
    require(isinstance(errors, list), "errors")
    for error in errors:
        reason, file, offset, chunk, stream, sequence, line = error
        require(isinstance(reason, str), "a reason")
        require(all(one is None or isinstance(one, str) for one in (file, stream)), "a place")
        numbers = [one for one in (offset, chunk, sequence, line) if one is not None]
        require(all(type(one) is int and 0 <= one < 2**63 for one in numbers), "a place")
