"""The index of files in CNTK's text format: where sequences are, and what is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from sweephand import _core
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.units.kept_scans import check_array, require
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Index, Scan
from sweephand.files.local import LocalFile
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_PART_BYTES = 16 << 20  # a thread's share of a file, at least


def scan_file(
    file: SourceFile, advance: Advance, form: _core.formats.CtfFormat, max_errors: int
) -> Scan:
    """Scan a file once; it gets an index if what is wrong in it is within the budget."""
    if isinstance(file, LocalFile):
        start, index = _index_in_parts(_core.read.File(file.path), form, max_errors)
        advance(file.size)
    else:
        start, index = _index_in_order(file, form, max_errors, advance)
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
    return Scan(
        {
            "keys": index.keys,
            "offsets": index.offsets,
            "lines": index.lines,
            "sizes": index.sizes,
            "item_offsets": index.ledger.offsets,
        },
        {
            "ignores_ids": start.ignore_ids,
            "items": items,
            "met": index.num_met,
            "num_indices": index.num_indices,
            "single": index.is_single,
        },
    )


def check_scan(file: SourceFile, scan: Scan, num_streams: int) -> None:
    """Refuse what is kept of a file if no scan of it can have found that."""
    keys, offsets, lines, items = (
        check_array(scan, name, np.uint64)
        for name in ("keys", "offsets", "lines", "item_offsets")
    )
    sizes = check_array(scan, "sizes", np.uint32)
    require(len(keys) == len(offsets) == len(lines) == len(sizes), "sequences")
    # Every sample is a line of its own, and takes a byte at least.
    num_samples = int(sizes.sum(dtype=np.uint64))
    require(not sizes.size or (sizes.min() > 0 and num_samples <= file.size + 1), "sizes")
    is_rising = bool((offsets[1:] > offsets[:-1]).all() and (lines[1:] > lines[:-1]).all())
    ends = [*offsets[-1:].tolist(), *items[-1:].tolist()]
    is_within = all(end <= file.size for end in ends) and lines[-1:].max(initial=0) <= file.size
    require(is_rising and is_within, "places of sequences")
    require(bool((items[1:] >= items[:-1]).all()), "places of items")
    require(isinstance(scan.facts["ignores_ids"], bool), "ids")
    met = scan.facts["met"]
    require(isinstance(met, list) and len(met) in (0, num_streams), "streams")
    require(all(type(one) is int and one >= 0 for one in met), "streams")
    reach = scan.facts["num_indices"]
    require(isinstance(reach, list) and len(reach) in (0, num_streams), "indices")
    require(all(type(one) is int and 0 <= one < 2**31 for one in reach), "indices")
    single = scan.facts["single"]
    require(isinstance(single, list) and len(single) in (0, num_streams), "streams")
    require(all(isinstance(one, bool) for one in single), "streams")
    listed = scan.facts["items"]
    require(isinstance(listed, list) and len(items) <= file.size + 1, "items")
    for reason, offset, stream, sequence, line, is_charged in listed:
        require(isinstance(reason, str) and isinstance(is_charged, bool), "an item")
        require(stream is None or isinstance(stream, str), "the stream of an item")
        numbers = [one for one in (offset, sequence, line) if one is not None]
        require(all(type(one) is int and 0 <= one < 2**63 for one in numbers), "an item")


def _cause(offset: int | None, line_of: Mapping[int | None, int | None]) -> str:
    """Return which earlier item led to one, in words; nothing if it stands for itself."""
    if offset is None:
        return ""
    return f"; caused by the item @ {offset} in line {line_of.get(offset)}"


def list_errors(index: Index, ledger: Ledger) -> None:
    """List what is wrong in the files.

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


class IndexedFile:
    """One file, with the place and the size of every sequence."""

    def __init__(self, size: int, scan: Scan) -> None:
        self.size = size
        self.offsets = scan.arrays["offsets"]
        self.lines = scan.arrays["lines"]
        self.item_offsets = scan.arrays["item_offsets"]

    def pieces(self, number: int, most_bytes: int) -> list[_core.formats.CtfPiece]:
        """Cut the file, which is number `number`, between sequences."""
        if not len(self.offsets):
            return []
        firsts = _core.formats.ctf_chunks(self.offsets, self.size, most_bytes).tolist()
        ends = [*firsts[1:], len(self.offsets)]
        begins = self.offsets[firsts].astype(np.int64)
        num_bytes = np.diff(begins, append=self.size)
        # The end of the file belongs to its last piece.
        edges = np.append(begins, self.size + 1)
        num_items = np.diff(np.searchsorted(self.item_offsets.astype(np.int64), edges))
        return [
            _core.formats.CtfPiece(
                file=number,
                offset=int(begins[piece]),
                bytes=int(num_bytes[piece]),
                first_line=int(self.lines[first]),
                num_sequences=end - first,
                num_items=int(num_items[piece]),
            )
            for piece, (first, end) in enumerate(zip(firsts, ends, strict=True))
        ]


def join_small(
    pieces: Sequence[_core.formats.CtfPiece], most_bytes: int
) -> list[list[_core.formats.CtfPiece]]:
    """Return chunks of pieces that follow each other, so that small files share one."""
    chunks: list[list[_core.formats.CtfPiece]] = []
    num_bytes = 0
    for piece in pieces:
        if not chunks or num_bytes + piece.bytes > most_bytes:
            chunks.append([])
            num_bytes = 0
        chunks[-1].append(piece)
        num_bytes += piece.bytes
    return chunks


def _index_in_order(
    file: SourceFile, form: _core.formats.CtfFormat, max_errors: int, advance: Advance
) -> tuple[_core.formats.CtfStart, _core.formats.CtfIndex]:
    """Index an object in one pass, by few requests."""
    with open_to_scan(file) as stream:

        def read_into(offset: int, out: memoryview) -> None:
            stream.seek(offset)
            stream.readinto(out)
            advance(len(out))

        source = _core.read.CallbackBytes(file.path, file.size, read_into)
        start = _core.formats.ctf_start(source, form)
        return start, _core.formats.ctf_index(
            source, form, start, start.offset, file.size, max_errors
        )


def _index_in_parts(
    file: _core.read.File, form: _core.formats.CtfFormat, max_errors: int
) -> tuple[_core.formats.CtfStart, _core.formats.CtfIndex]:
    """Index a file on several threads; what comes out does not depend on their number."""
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
