"""Checks on what an index says of a file, before any of it is believed.

An index may be damaged, old, or written by somebody else. Here is refused what no scan can have
found; then the file is scanned again. That the bytes are those of the index is compared when
they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.files.index_file import Scan
from sweephand.files.source_file import SourceFile

# What a file can hold: more makes its index useless, and the file is scanned each time.
_FREE_NUMBERS = 1 << 20
_NUMBERS_PER_BYTE = 4096
_MOST_UNIT_BYTES = 1 << 40
_KINDS = "biuf"


def check_scan(file: SourceFile, scan: Scan, streams: Collection[str]) -> None:
    """Refuse what cannot be of a file's units, rows, streams and errors.

    Raises
    ------
    ValueError, TypeError, KeyError
        If anything cannot be.
    """
    rows = check_array(scan, "rows", np.int64)
    num_bytes = check_array(scan, "num_bytes", np.int64)
    most = _FREE_NUMBERS + _NUMBERS_PER_BYTE * file.size
    require(len(rows) == len(num_bytes) and _is_within(rows, most), "units")
    require(_is_within(num_bytes, _MOST_UNIT_BYTES), "bytes of units")
    num_rows = _total(rows)
    require(num_rows <= most, "rows")
    require(isinstance(scan.facts["format"], dict), "facts")
    _check_errors(scan.facts["errors"])
    damaged = check_array(scan, "damaged_rows", np.int64)
    is_rising = bool((damaged[1:] > damaged[:-1]).all())
    require(_is_within(damaged, num_rows - 1) and is_rising, "damaged rows")
    require(not damaged.size or bool(scan.facts["errors"]), "damage of which nothing is told")
    kinds = scan.facts["kinds"]
    require(isinstance(kinds, dict) and set(kinds) <= set(streams), "streams")
    for name in streams:
        lengths = check_array(scan, f"lengths of {name}", np.uint32)
        width, is_ragged = _check_kind(kinds[name]) if name in kinds else (1, len(lengths) > 0)
        require(len(lengths) == (num_rows if is_ragged else 0), "lengths")
        require(_total(lengths) * width <= most, "samples")


def check_array(scan: Scan, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a flat array of an index, which must be of a dtype."""
    array = scan.arrays[name]
    require(array.ndim == 1 and array.dtype == dtype, name)
    return array


def check_runs(runs: Sequence[Any], width: int) -> NDArray[np.int64]:
    """Return lists of so many counts, which begin with the begin and end of bytes."""
    require(isinstance(runs, list), "runs")
    for run in runs:
        require(isinstance(run, list) and len(run) == width, "a run")
        require(all(type(one) is int and 0 <= one < 2**62 for one in run), "numbers of a run")
    return np.array(runs, np.int64).reshape(-1, width)


def require(is_so: bool, what: str) -> None:
    """Refuse an index."""
    if not is_so:
        raise ValueError(f"the index says what cannot be: {what}")


def _is_within(numbers: NDArray[np.integer], most: int) -> bool:
    return not numbers.size or (int(numbers.min()) >= 0 and int(numbers.max()) <= most)


def _total(numbers: NDArray[np.integer]) -> int:
    """Add numbers of which each is below 2^40, without an overflow."""
    return int(numbers.sum(dtype=np.float64)) if numbers.size else 0


def _check_kind(kind: Any) -> tuple[int, bool]:
    """Return the numbers in a sample of a stream, and whether it is ragged."""
    dtype, shape, is_ragged = kind
    require(isinstance(dtype, str) and len(dtype) < 16, "dtype")
    is_known = dtype == "bytes" or np.dtype(dtype).kind in _KINDS
    require(is_known and isinstance(shape, list) and len(shape) <= 32, "kind")
    width = 1
    for count in shape:
        require(type(count) is int and 0 < count < 2**31, "shape")
        width *= count
    require(width < 2**31 and isinstance(is_ragged, bool), "shape")
    return width, is_ragged


def _check_errors(errors: Iterable[Any]) -> None:
    require(isinstance(errors, list), "errors")
    for error in errors:
        reason, file, offset, chunk, stream, sequence, line = error
        require(isinstance(reason, str), "a reason")
        require(all(one is None or isinstance(one, str) for one in (file, stream)), "a place")
        numbers = [one for one in (offset, chunk, sequence, line) if one is not None]
        require(all(type(one) is int and 0 <= one < 2**63 for one in numbers), "a place")
