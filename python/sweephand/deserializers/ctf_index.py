"""The index of files in CNTK's text format: places of sequences, and errors."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.units.kept_scans import (
    all_follow,
    check_array,
    check_ends,
    check_members,
    require,
)
from sweephand.errors import DataError
from sweephand.files.content_file import ContentFile
from sweephand.files.contents import PACKINGS, FileContents
from sweephand.files.index_arrays import IndexArrays, PackedArray, packed_in, stored_in
from sweephand.files.index_file import Advance, Index, Scan
from sweephand.files.inflate import Compression
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


def check_index(index: Index, num_streams: int) -> None:
    """Refuse entries of an index that no scan of its files can have produced."""
    starts = index.starts["sizes"]
    stored = stored_in(index.arrays)
    for name, dtype in _DTYPES.items():
        require(np.array_equal(index.starts[name], starts), "sequences")
        require(stored[name].dtype == dtype and len(stored[name].shape) == 1, name)
    file_sizes = np.array([file.size for file in index.files], np.uint64)
    items, item_starts = (
        check_array(index, "item_offsets", np.uint64),
        index.starts["item_offsets"],
    )
    require(all_follow(items[1:] >= items[:-1], item_starts), "places of items")
    filled, _, ends = check_ends(items, items, item_starts)
    require(bool((ends <= file_sizes[filled]).all()), "places of items")
    require(bool((np.diff(item_starts) <= file_sizes + 1).all()), "items")
    places_in(index).check(packed_in(stored["sizes"]))
    _check_facts(index.facts, num_streams)


def of_contents(index: Index, contents: FileContents) -> Index:
    """Return the index of files; compressed files are replaced by their content."""
    if not any("content" in facts for facts in index.facts):
        return index
    files = [
        contents.as_file(file, *_known_content(facts["content"], file))
        if "content" in facts
        else file
        for file, facts in zip(index.files, index.facts, strict=True)
    ]
    return replace(index, files=files)


def _known_content(
    facts: Mapping[str, Any], file: SourceFile
) -> tuple[Compression, int, list[list[int]]]:
    """Return the entry of an index for the content of a compressed file."""
    compression, size = facts["compression"], facts["size"]
    require(compression in PACKINGS and type(size) is int and size >= 0, "the content")
    check_members(facts["members"], file.size)
    return compression, size, facts["members"]


def _check_facts(facts: Sequence[Mapping[str, Any]], num_streams: int) -> None:
    require({type(one["ignores_ids"]) for one in facts} == {bool}, "ids")
    met, reach, _ = (
        _per_stream([one[name] for one in facts], kind, num_streams)
        for name, kind in (("met", int), ("num_indices", int), ("single", bool))
    )
    require(min(met, default=0) >= 0, "streams")
    require(min(reach, default=0) >= 0 and max(reach, default=0) < 2**31, "indices")
    for one in facts:
        listed = one["items"]
        require(type(listed) is list, "items")
        for reason, offset, stream, sequence, line, is_charged in listed:
            require(isinstance(reason, str) and isinstance(is_charged, bool), "an item")
            require(stream is None or isinstance(stream, str), "the stream of an item")
            numbers = [one for one in (offset, sequence, line) if one is not None]
            require(all(type(one) is int and 0 <= one < 2**63 for one in numbers), "an item")


def _per_stream(by_file: Sequence[Any], kind: type, num_streams: int) -> list[Any]:
    """Return the items of the streams of all files; a file without lines has none."""
    require(
        {*map(type, by_file)} == {list} and {*map(len, by_file)} <= {0, num_streams}, "streams"
    )
    flat = list(chain.from_iterable(by_file))
    require({*map(type, flat)} <= {kind}, "streams")
    return flat


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
