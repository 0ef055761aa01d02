"""The ends of documents in files of bare tokens: by files of offsets, or by a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import check_int
from sweephand.deserializers.npy_header import header_if_npy
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Index, Scan, load_index
from sweephand.files.index_places import Keep
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_BLOCK_TOKENS = 1 << 20
_TOKEN_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def cut_tokens(
    tokens: NDArray[Any], sequence_length: int | None, end_of_document: int | None
) -> NDArray[np.int64]:
    """Return where the sequences of tokens in memory begin, and the end."""
    check_cut(sequence_length, None, end_of_document)
    if sequence_length is not None:
        ends = np.arange(sequence_length, len(tokens), sequence_length, dtype=np.int64)
    else:
        ends = np.flatnonzero(tokens == end_of_document) + 1
    return np.unique(np.concatenate([[0], ends, [len(tokens)]])).astype(np.int64)


def check_cut(
    sequence_length: int | None, offsets: object, end_of_document: int | None
) -> None:
    """Refuse anything but a single rule for the ends of sequences."""
    given = [one is not None for one in (sequence_length, offsets, end_of_document)]
    if sum(given) != 1:
        raise ValueError(
            "say where sequences end by one of sequence_length, offsets and end_of_document, "
            f"got {sum(given)} of them"
        )
    if sequence_length is not None:
        check_int("sequence_length", sequence_length, 1, 2**32)
    if end_of_document is not None:
        check_int("end_of_document", end_of_document, -(2**31), 2**63)


def read_ends(file: SourceFile) -> NDArray[np.int64]:
    """Return the ends of documents, in tokens: bare u64 or an array, with or without the 0."""
    dtype: np.dtype[Any] = np.dtype("<u8")
    offset = 0
    header = header_if_npy(file)
    if header is not None:
        dtype, offset = np.dtype(header.dtype), header.offset
        if len(header.shape) != 1 or dtype.kind not in "iu" or not dtype.isnative:
            raise DataError(
                f"the ends of documents are one row of integers, not {dtype} of shape "
                f"{header.shape}",
                file.path,
            )
    tail = (file.size - offset) % dtype.itemsize
    if tail:
        raise DataError(
            f"the ends of documents are integers of {dtype.itemsize} bytes; {tail} bytes are "
            "left over",
            file.path,
            file.size - tail,
        )
    stored = file.read(offset, file.size - offset).view(dtype)
    if dtype.kind == "u" and stored.size and stored.max() >= 2**62:
        raise DataError(
            "a document ends beyond any file",
            file.path,
            offset + int(stored.argmax()) * dtype.itemsize,
        )
    ends = stored.astype(np.int64)
    wrong = np.flatnonzero(np.diff(ends, prepend=0) < 0)
    if len(wrong):
        raise DataError(
            f"document {int(wrong[0])} ends before it begins",
            file.path,
            offset + int(wrong[0]) * dtype.itemsize,
        )
    return ends[1:] if len(ends) and ends[0] == 0 else ends


def type_of_tokens(file: SourceFile, ends: NDArray[np.int64]) -> np.dtype[np.generic]:
    """Return the type that the tokens of a file have, if all its documents fill it."""
    count = int(ends[-1]) if len(ends) else 0
    known = _TOKEN_TYPES.get(file.size // count if count and file.size % count == 0 else 0)
    if known is None:
        raise DataError(
            f"{file.size} bytes are not {count} tokens, where the last document ends; say of "
            "which dtype they are",
            file.path,
        )
    return np.dtype(known)


def check_ends_of(
    file: SourceFile, ends: NDArray[np.int64], itemsize: int, begin: int = 0
) -> None:
    """Refuse ends of documents that are not those of a file, whose tokens begin there."""
    count = int(ends[-1]) if len(ends) else 0
    if count * itemsize != file.size - begin:
        raise DataError(
            f"the last document ends with token {count}, and there are "
            f"{(file.size - begin) // itemsize}; are these its ends, is the dtype right?",
            file.path,
            min(file.size, begin + count * itemsize),
        )


def find_ends(
    files: Sequence[SourceFile],
    begins: Sequence[int],
    dtype: np.dtype[np.generic],
    token: int,
    keep: Keep,
) -> Index:
    """Return an index of where documents end, each with its token; array "ends".

    `begins` is the byte of every file where its tokens begin.
    """
    meaning = {"format": "token bounds 1", "dtype": dtype.name, "token": token}
    places = {file.path: begin for file, begin in zip(files, begins, strict=True)}
    scan = partial(_scan, begins=places, dtype=dtype, token=token)
    return load_index(files, meaning, scan, keep=keep)


def _scan(
    file: SourceFile,
    advance: Advance,
    begins: Mapping[str, int],
    dtype: np.dtype[np.generic],
    token: int,
) -> Scan:
    num_tokens = (file.size - begins[file.path]) // dtype.itemsize
    parts = [np.empty(0, np.int64)]
    with open_to_scan(file) as stream:
        stream.seek(begins[file.path])
        for begin in range(0, num_tokens, _BLOCK_TOKENS):
            block = stream.read(min(_BLOCK_TOKENS, num_tokens - begin) * dtype.itemsize)
            parts.append(np.flatnonzero(np.frombuffer(block, dtype) == token) + begin + 1)
            advance(len(block))
    file.check_unchanged()
    ends = np.concatenate(parts)
    if num_tokens and (not len(ends) or ends[-1] < num_tokens):
        ends = np.append(ends, num_tokens)  # the last one lacks its token
    return Scan({"ends": ends})
