"""The headers of ``.npy`` files, checked against their size.

::

    93 "NUMPY" | u8 major | u8 minor | bytes of the header: u16, from version 2 on u32 | header
    header: {'descr': ..., 'fortran_order': ..., 'shape': ...}, blanks, newline | the elements

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BufferedReader
from tokenize import TokenError
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from sweephand.errors import DataError
from sweephand.files.range_reader import RangeReader
from sweephand.files.source_file import SourceFile

_MAX_HEADER = 65536
_HEAD = 4096  # bytes that are asked for at a time


@dataclass(frozen=True)
class NpyHeader:
    """The header of a ``.npy`` file: shape, dtype, and the byte where the data begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int


def read_header(file: SourceFile) -> NpyHeader:
    """Read and check the header of a ``.npy`` file against the file's size."""
    with BufferedReader(RangeReader(file), _HEAD) as content:
        return parse_header(content, file.size, file.path)


def header_if_npy(file: SourceFile) -> NpyHeader | None:
    """Read the header of a ``.npy`` file; None if the first bytes are of another."""
    size = min(file.size, len(npy_format.MAGIC_PREFIX))
    is_npy = file.read(0, size).tobytes() == npy_format.MAGIC_PREFIX
    return read_header(file) if is_npy else None


def parse_header(content: BinaryIO, size: int, name: str) -> NpyHeader:
    """Parse the header of an array in a file or in a part of a file."""
    begin = content.tell()
    try:
        version = npy_format.read_magic(content)
        readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
            # In UTF-8, which differs in the names of records alone; they are refused.
            (3, 0): npy_format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"version {version} is not supported, only 1.0, 2.0 and 3.0")
        shape, fortran_order, dtype = readers[version](content, max_header_size=_MAX_HEADER)
    except (
        ValueError,
        EOFError,
        SyntaxError,
        TokenError,
        TypeError,
        KeyError,
        MemoryError,
        RecursionError,
    ) as error:
        raise DataError(
            f"this is no .npy file, or its header is damaged: {error}", name
        ) from None
    offset = content.tell() - begin
    if dtype.hasobject:
        raise DataError(
            "the file holds pickled objects, which are never loaded; save numbers", name
        )
    if fortran_order and len(shape) > 1:
        raise DataError(
            "the array is in Fortran order; save numpy.ascontiguousarray of it", name
        )
    if dtype.itemsize == 0:
        raise DataError(f"the file holds elements of no bytes ({dtype.str})", name)
    # As NumPy has it, no extent is so large that a place in the array has no number.
    reach = math.prod(max(n, 1) for n in shape) * dtype.itemsize
    if any(n < 0 or type(n) is not int for n in shape) or reach >= 2**63:
        raise DataError(f"the header says shape {shape}, which cannot be", name, offset)
    wanted = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size != wanted:
        state = "cut short" if size < wanted else "longer than its array"
        raise DataError(
            f"the file is {state}: {shape} of {dtype} needs {wanted} bytes, there are {size}",
            name,
            min(size, wanted),
        )
    return NpyHeader(shape, dtype, offset)
