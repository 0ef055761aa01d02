"""The index of files in CNTK's text format: places of sequences, and errors."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.corpus.ledger import Ledger
from sweephand.errors import DataError
from sweephand.files.content_file import ContentFile
from sweephand.files.contents import FileContents
from sweephand.files.index_arrays import IndexArrays, PackedArray, packed_in, stored_in
from sweephand.files.index_file import Advance, Index, Scan
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile

_PART_BYTES = 16 << 20  # a thread's share of a file, at least
_DTYPES = {"keys": np.uint64, "offsets": np.uint64, "lines": np.uint64, "sizes": np.uint32}


def scan_file(
    file: SourceFile,
    advance: Advance,
    form: _core.formats.CtfFormat,
    max_errors: int,
    contents: FileContents,
) -> Scan:
    """Scan a file once; it gets an index if its errors are within the budget.

    Compressed files are unpacked once before that, as their length is unknown.
    """
    content: dict[str, Any] | None = None
    stream, compression = contents.open_text(file)
    if compression is not None:
        stream.close()
        size, members = contents.measure(file, compression)
        content = {"compression": compression, "size": size, "members": members}
        with contents.open(file, compression) as stream:
            start, index = _index_in_order(stream, file.path, size, form, max_errors)
        advance(file.size)
    elif isinstance(file, LocalFile):
        stream.close()
        start, index = _index_in_parts(_core.read.File(file.path), form, max_errors)
        advance(file.size)
    else:
        with stream:
            start, index = _index_in_order(
                stream, file.path, file.size, form, max_errors, advance
            )
    index.ledger.check()
    file.check_unchanged()
    listed = index.ledger.items
    line_of = {one.offset: one.line for one in reversed(listed)}
    items = [
        [
            one.reason + _cause(one.caused_by, line_of),
            one.offset,
            one.stream,
            one.sequence,
            one.line,
            one.caused_by is None,
        ]
        for one in listed
    ]
    packed = index.packed
    return Scan(
        IndexArrays(
            {
                **{
                    name: PackedArray.whole(packed[name], np.dtype(dtype))
                    for name, dtype in _DTYPES.items()
                },
                "item_offsets": index.ledger.offsets,
            }
        ),
        {
            "ignores_ids": start.ignore_ids,
            "items": items,
            "met": index.num_met,
            "num_indices": index.num_indices,
            "single": index.is_single,
            **({} if content is None else {"content": content}),
        },
    )


def of_contents(index: Index, contents: FileContents) -> Index:
    """Return the index of files; compressed files are replaced by their content."""
    if not any("content" in facts for facts in index.facts):
        return index
    files = [
        contents.as_file(file, **facts["content"]) if "content" in facts else file
        for file, facts in zip(index.files, index.facts, strict=True)
    ]
    return replace(index, files=files)


def _cause(offset: int | None, line_of: Mapping[int | None, int | None]) -> str:
    """Describe the earlier item that caused an error; "" if there is none."""
    if offset is None:
        return ""
    return f"; caused by the item @ {offset} in line {line_of.get(offset)}"


def list_errors(index: Index, ledger: Ledger) -> None:
    """List the errors in the files."""
    num_listed = 0
    for file, facts in zip(index.files, index.facts, strict=True):
        for reason, offset, stream, sequence, line, is_charged in facts["items"]:
            error = DataError(reason, file.path, offset, None, stream, sequence, line)
            ledger.add(error, is_charged=is_charged)
            num_listed += is_charged
    ledger.charge(len(index.arrays["item_offsets"]) - num_listed)


def places_in(index: Index) -> _core.formats.CtfPlaces:
    """Return the places of sequences and errors, packed as they are."""
    stored = stored_in(index.arrays)
    return _core.formats.CtfPlaces(
        offsets=packed_in(stored["offsets"]),
        lines=packed_in(stored["lines"]),
        starts=index.starts["sizes"],
        sizes=np.array([file.size for file in index.files], np.uint64),
        item_offsets=index.arrays["item_offsets"],
        item_starts=index.starts["item_offsets"],
    )


def cut_chunks(index: Index, most_bytes: int) -> _core.formats.CtfChunks:
    """Cut files between sequences, and return chunks of pieces that follow each other.

    Large files are cut into several chunks, and small ones share one. What can be unpacked
    from its beginning alone is not cut within.
    """
    entries = [
        file.content.entries if isinstance(file, ContentFile) else None for file in index.files
    ]
    return _core.formats.CtfChunks(places_in(index), most_bytes, entries)


def _index_in_order(
    stream: io.BufferedReader,
    path: str,
    size: int,
    form: _core.formats.CtfFormat,
    max_errors: int,
    advance: Advance = lambda _: None,
) -> tuple[_core.formats.CtfStart, _core.formats.CtfIndex]:
    """Index a file read from beginning to end: by few requests, or decompressed."""

    def read_into(offset: int, out: memoryview) -> None:
        stream.seek(offset)
        stream.readinto(out)
        advance(len(out))

    source = _core.read.CallbackBytes(path, size, read_into)
    start = _core.formats.ctf_start(source, form)
    return start, _core.formats.ctf_index(source, form, start, start.offset, size, max_errors)


def _index_in_parts(
    file: _core.read.File, form: _core.formats.CtfFormat, max_errors: int
) -> tuple[_core.formats.CtfStart, _core.formats.CtfIndex]:
    """Index a file on several threads; the result does not depend on their number."""
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    start = _core.formats.ctf_start(file, form)
    size = file.tag.size
    threads = max(1, min(os.cpu_count() or 1, (size - start.offset) // _PART_BYTES))
    begins = [
        _core.formats.ctf_part(file, form, start, size * i // threads) for i in range(threads)
    ]
    borders = sorted({*begins, size})
    index = _core.formats.CtfIndex(max_errors)
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(
            lambda part: _core.formats.ctf_index(
                file, form, start, part[0], part[1], max_errors
            ),
            pairwise(borders),
        )
        for part in parts:
            index.append(part, start)
    return start, index
