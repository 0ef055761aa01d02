"""The index of files in CNTK's text format: places of sequences, and errors."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.dataclass import replace
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.sizes import sum_chunks
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
from sweephand.files.index_arrays import IndexArrays, PackedArray, stored_in
from sweephand.files.index_file import Advance, Index, Scan
from sweephand.files.inflate import Compression
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile

_PART_BYTES = 16 << 20  # a thread's share of a file, at least
_MOST_CHUNK_BYTES = 1 << 30  # of content that can be entered at its beginning alone


def scan_file(
    file: SourceFile,
    advance: Advance,
    form: _core.formats.CtfFormat,
    max_errors: int,
    contents: FileContents,
) -> Scan:
    """Scan a file once; it gets an index if its errors are within the budget.

    What is compressed is unpacked once before that, as nobody knows how long it is.
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
    dtypes = {"keys": np.uint64, "offsets": np.uint64, "lines": np.uint64, "sizes": np.uint32}
    packed = index.packed
    return Scan(
        IndexArrays(
            {
                **{
                    name: PackedArray.whole(packed[name], np.dtype(dtype))
                    for name, dtype in dtypes.items()
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
    for name in ("keys", "offsets", "lines"):
        require(np.array_equal(index.starts[name], starts), "sequences")
    keys = stored_in(index.arrays)["keys"]
    require(keys.dtype == np.uint64 and len(keys.shape) == 1, "keys")
    file_sizes = np.array([file.size for file in index.files], np.uint64)
    for name in ("offsets", "lines"):
        _check_places(check_array(index, name, np.uint64), starts, file_sizes)
    sizes = check_array(index, "sizes", np.uint32)
    # Every sample is a line of its own, and takes a byte at least.
    num_samples = sum_chunks(sizes, starts)
    require(bool((num_samples <= file_sizes + 1).all()), "sizes")
    require(not sizes.size or sizes.min() > 0, "sizes")
    items, item_starts = (
        check_array(index, "item_offsets", np.uint64),
        index.starts["item_offsets"],
    )
    require(all_follow(items[1:] >= items[:-1], item_starts), "places of items")
    filled, _, ends = check_ends(items, items, item_starts)
    require(bool((ends <= file_sizes[filled]).all()), "places of items")
    require(bool((np.diff(item_starts) <= file_sizes + 1).all()), "items")
    _check_facts(index.facts, num_streams)


def of_contents(index: Index, contents: FileContents) -> Index:
    """Return the index of files, with the content of compressed ones in their place."""
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


def _check_places(
    places: NDArray[np.uint64], starts: NDArray[np.int64], file_sizes: NDArray[np.uint64]
) -> None:
    require(all_follow(places[1:] > places[:-1], starts), "places of sequences")
    filled, _, ends = check_ends(places, places, starts)
    require(bool((ends <= file_sizes[filled]).all()), "places of sequences")


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
    """List the errors in the files.

    Raises
    ------
    DataError
        The first item beyond the budget.
    """
    num_listed = 0
    for file, facts in zip(index.files, index.facts, strict=True):
        for reason, offset, stream, sequence, line, is_charged in facts["items"]:
            error = DataError(reason, file.path, offset, None, stream, sequence, line)
            ledger.add(error, is_charged=is_charged)
            num_listed += is_charged
    ledger.charge(len(index.arrays["item_offsets"]) - num_listed)


def cut_pieces(index: Index, most_bytes: int) -> _core.formats.CtfPieces:
    """Cut files between sequences, and return chunks of pieces that follow each other.

    Large files are cut into several chunks, and small ones share one. What can be unpacked
    from its beginning alone is not cut within.
    """
    starts = index.starts["sizes"]
    sizes = np.array([file.size for file in index.files], np.uint64)
    offsets = index.arrays["offsets"]
    firsts = _core.formats.ctf_chunks(offsets, starts, sizes, most_bytes).view(np.int64)
    files = np.searchsorted(starts, firsts, side="right") - 1  # an empty one shares its start
    can_begin = _can_begin(index, files, offsets[firsts].view(np.int64))
    if not can_begin.all():
        firsts, files = firsts[can_begin], files[can_begin]
    begins = offsets[firsts]
    del offsets  # there may be many
    ends = np.append(begins[1:], np.uint64(0))
    is_last = np.append(files[1:] != files[:-1], True)[: len(files)]
    ends[is_last] = sizes[files[is_last]]
    return _core.formats.CtfPieces(
        files=files.view(np.uint64),
        begins=begins,
        ends=ends,
        first_lines=index.arrays["lines"][firsts],
        num_sequences=np.diff(firsts, append=starts[-1]).view(np.uint64),
        num_items=_count_items(index, files, begins, ends),
        most_bytes=most_bytes,
    )


def _can_begin(
    index: Index, files: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mark the places at which chunks begin: those that need no second decompression."""
    found = np.ones(len(files), np.bool_)
    for number, file in enumerate(index.files):
        if not isinstance(file, ContentFile) or (entries := file.content.entries) is None:
            continue
        own = np.flatnonzero(files == number)
        last, chunk = -1, 0
        for place, entry in zip(
            own.tolist(),
            np.searchsorted(entries, begins[own], side="right").tolist(),
            strict=True,
        ):
            found[place] = entry != last or begins[place] - chunk > _MOST_CHUNK_BYTES
            if found[place]:
                last, chunk = entry, int(begins[place])
    return found


def _count_items(
    index: Index, files: NDArray[np.int64], begins: NDArray[np.uint64], ends: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return how many items were charged in each piece; those at the end of a file too.

    Nothing is returned where there are none.
    """
    items, starts = index.arrays["item_offsets"], index.starts["item_offsets"]
    if not items.size:
        return np.empty(0, np.uint64)
    counts = np.zeros(len(files), np.uint64)
    for number in np.flatnonzero(np.diff(starts)).tolist():
        own = slice(*np.searchsorted(files, [number, number + 1]).tolist())
        places = items[starts[number] : starts[number + 1]]
        after = ends[own] + (ends[own] == index.files[number].size)
        counts[own] = np.searchsorted(places, after) - np.searchsorted(places, begins[own])
    return counts


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
