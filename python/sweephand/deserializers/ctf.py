"""CNTK's text format as a corpus."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from sweephand import _core
from sweephand.casts import element_type
from sweephand.checks import check_int
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.streams import StreamDef, StreamDefs, StreamInfo
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.units.kept_scans import check_array, require
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Index, Keep, Scan, check_keep, load_index
from sweephand.files.range_reader import open_to_scan
from sweephand.files.remote_path import AnyPath, files_at, head_of
from sweephand.files.source_file import (
    REMOTE_LOAD_THREADS,
    Files,
    LocalFile,
    SourceFile,
    are_local,
    find_files,
    stat_file,
)

_CHUNK_BYTES = 32 << 20
_PART_BYTES = 16 << 20  # a thread's share of a file, at least
_MAX_LINE_BYTES = 256 << 20
_HEAD_BYTES = 1 << 20
_FREE_DIMENSION = 2**31 - 1  # of sparse streams, whose text does not tell it


class CTFDeserializer(Deserializer):
    """Read files in CNTK's text format.

    Parameters
    ----------
    filename : path, glob, URL, or a list of them
        Files of one corpus, read one after the other in the order of their names; a list keeps
        its order.
    streams : StreamDefs
        Stream name to `StreamDef` with ``field``, the name in the file, and ``shape``, the
        dimension. Values are float32 unless ``dtype`` says float64 or an integer type.
    skip_sequence_ids : bool
        Every line is a sequence of one sample, whatever id it has.
    chunk_size_in_bytes : int
        Bytes of text in a chunk, the unit that a window shuffles: large files are cut, small
        ones joined; a longer sequence is a chunk alone.
    index : {"auto", "cache", None}
        Where the index is kept: beside the files, or in a cache folder where they cannot be
        written; only there; nowhere, so that it is built again each time.
    allow_blank_lines, allow_nonfinite : bool
        Accept lines without a sample; accept ``inf`` and ``nan``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the text is wrong and ``max_errors`` of the source does not allow it, with file,
        line, offset, stream and sequence.
    ValueError
        If a stream has no field or no shape.
    """

    def __init__(
        self,
        filename: Files,
        streams: StreamDefs,
        skip_sequence_ids: bool = False,
        chunk_size_in_bytes: int = _CHUNK_BYTES,
        index: Keep = "auto",
        *,
        allow_blank_lines: bool = False,
        allow_nonfinite: bool = False,
    ) -> None:
        check_int("chunk_size_in_bytes", chunk_size_in_bytes, 1, 2**63)
        self._keep = check_keep(index)
        self._files = find_files(filename, as_given=True).files
        self._chunk_bytes = chunk_size_in_bytes
        self._infos = [_describe(name, streams) for name in streams]
        self._streams = streams
        self._flags = [skip_sequence_ids, allow_blank_lines, allow_nonfinite]
        self._make_format()  # refuses what cannot be
        described = [
            [streams[info.name].field, info.shape, info.is_sparse, info.dtype.name]
            for info in self._infos
        ]
        sized = [info.name for info in self._infos if info.defines_mb_size]
        self._meaning = {
            "format": "ctf 2",
            "streams": described,
            "size": sized,
            "flags": self._flags,
        }

    def _make_format(self) -> _core.formats.CtfFormat:
        """Return what the core reads; it cannot go to another process, as this can."""
        streams = [
            _core.formats.CtfStream(
                field=self._streams[info.name].field or "",
                dimension=int(np.prod(info.shape, dtype=np.int64)),
                is_sparse=info.is_sparse,
                type=element_type(info.dtype),
                defines_mb_size=info.defines_mb_size,
            )
            for info in self._infos
        ]
        skip_sequence_ids, allow_blank_lines, allow_nonfinite = self._flags
        return _core.formats.CtfFormat(
            streams=streams,
            skip_sequence_ids=skip_sequence_ids,
            allow_blank_lines=allow_blank_lines,
            allow_nonfinite=allow_nonfinite,
            max_line_bytes=_MAX_LINE_BYTES,
        )

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        listed = [_look_again(file) for file in self._files]
        index = load_index(
            listed,
            self._meaning,
            partial(self._scan, max_errors=ledger.max_errors),
            check=partial(_check_scan, num_streams=len(self._infos)),
            keep=self._keep,
        )
        self._refuse_unmet(index)
        _list_errors(index, ledger)
        files = [_IndexedFile(file.size, index.scan(n)) for n, file in enumerate(listed)]
        ignored = [facts["ignores_ids"] for facts in index.facts]
        pieces = [
            piece
            for number, file in enumerate(files)
            for piece in file.pieces(number, self._chunk_bytes)
        ]
        chunks = _join(pieces, self._chunk_bytes)
        chunk_sequences = [sum(piece.num_sequences for piece in chunk) for chunk in chunks]
        sizes = index.arrays["sizes"]
        if not sizes.size:
            raise DataError("there is no sequence: the file is empty", listed[0].path)
        names = [file.name for file in listed]
        keys = index.arrays["keys"]
        reader = Reader(
            core=self._make_core(listed, ignored, chunks),
            streams=self._infos,
            chunk_sequences=np.array(chunk_sequences, dtype=np.uint64),
            measure=partial(Sizing.of, sizes, offsets_of(chunk_sequences)),
            resident=False,
            sample_bytes=sum(file.size for file in listed) / max(1, int(sizes.sum())),
            load_threads=1 if are_local(listed) else REMOTE_LOAD_THREADS,
            holds_stored=not are_local(listed),
        )
        return Corpus(
            [reader],
            ids=ShardIds(names, index.starts["sizes"].tolist()),
            names=names,
            keys=None if all(ignored) else lambda: keys,
            index=index.path,
        )

    def _refuse_unmet(self, index: Index) -> None:
        """Refuse a stream that no line has: its field is misspelt, whatever the budget."""
        met = [facts["met"] for facts in index.facts if facts["met"]]  # of files with lines
        for info, *counts in zip(self._infos, *met, strict=True):
            if index.arrays["sizes"].size and not any(counts):
                field = self._streams[info.name].field
                raise DataError(
                    f"no line has the field {field!r}", index.files[0].path, stream=info.name
                )

    def _make_core(
        self,
        files: Sequence[SourceFile],
        ignored: Sequence[bool],
        chunks: Sequence[list[_core.formats.CtfPiece]],
    ) -> _core.read.Deserializer:
        form = self._make_format()
        if are_local(files):
            named = [
                _core.formats.CtfFile(file.path, file.core_tag, ignores_ids)
                for file, ignores_ids in zip(files, ignored, strict=True)
            ]
            return _core.formats.CtfDeserializer(form, named, chunks)

        def load(number: int) -> _core.read.Chunk:
            reader = _core.formats.CtfReader(form, sum(piece.bytes for piece in chunks[number]))
            for piece in chunks[number]:
                file = files[piece.file]
                text = file.fetch(piece.offset, piece.bytes)
                file.check_unchanged()
                reader.read(file.path, text, piece, ignored[piece.file])
            return reader.take()

        return _core.read.CallbackDeserializer(load)

    def _scan(self, file: SourceFile, advance: Advance, max_errors: int) -> Scan:
        """Scan a file once; it gets an index if what is wrong in it is within the budget."""
        form = self._make_format()
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
            {"ignores_ids": start.ignore_ids, "items": items, "met": index.num_met},
        )


def _check_scan(file: SourceFile, scan: Scan, num_streams: int) -> None:
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
    listed = scan.facts["items"]
    require(isinstance(listed, list) and len(items) <= file.size + 1, "items")
    for reason, offset, stream, sequence, line, is_charged in listed:
        require(isinstance(reason, str) and isinstance(is_charged, bool), "an item")
        require(stream is None or isinstance(stream, str), "the stream of an item")
        numbers = [one for one in (offset, sequence, line) if one is not None]
        require(all(type(one) is int and 0 <= one < 2**63 for one in numbers), "an item")


def _describe(name: str, streams: StreamDefs) -> StreamInfo:
    definition = streams[name]
    if not definition.field:
        raise ValueError(f"stream {name!r} needs its field, the name in the file")
    if definition.sample_shape is None:
        raise ValueError(f"stream {name!r} needs its shape, the dimension of a sample")
    return StreamInfo(
        name=name,
        dtype=np.dtype(definition.dtype or np.float32),
        shape=definition.sample_shape,
        is_sparse=definition.is_sparse,
        defines_mb_size=definition.defines_mb_size,
        broadcast=definition.broadcast,
        transforms=definition.transforms,
    )


def _cause(offset: int | None, line_of: Mapping[int | None, int | None]) -> str:
    """Return which earlier item led to one, in words; nothing if it stands for itself."""
    if offset is None:
        return ""
    return f"; caused by the item @ {offset} in line {line_of.get(offset)}"


def _list_errors(index: Index, ledger: Ledger) -> None:
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


class _IndexedFile:
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


def _join(
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


def _look_again(file: SourceFile) -> SourceFile:
    """Return a file as it is when the corpus is opened; an object as it was listed."""
    if isinstance(file, LocalFile):
        return replace(stat_file(file.path), name=file.name)
    return file


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


def _is_ctf(path: AnyPath) -> bool:
    line = head_of(path, 4096).removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    before, bar, after = line.partition(b"|")
    return bool(bar) and (not before or before.strip().isdigit()) and after[:1].isalpha()


def _guess_streams(path: AnyPath) -> StreamDefs:
    """Return the streams of the first lines: dense ones of their width, or sparse ones."""
    streams: dict[str, StreamDef] = {}
    head, _, _ = head_of(path, _HEAD_BYTES).rpartition(b"\n")
    for line in (head or head_of(path, _HEAD_BYTES)).splitlines():
        for sample in line.decode(errors="replace").split("|")[1:]:
            name, *values = sample.split() or ["#"]
            if name.startswith("#") or name in streams or not values:
                continue
            is_sparse = ":" in values[0]
            shape = _FREE_DIMENSION if is_sparse else len(values)
            streams[name] = StreamDef(field=name, shape=shape, is_sparse=is_sparse)
    if not streams:
        raise DataError("the first lines have no sample that tells a stream", str(path))
    return StreamDefs(**streams)


def _open(path: AnyPath, wanted: Wanted) -> Deserializer:
    files = files_at(path)
    streams = wanted.choose(lambda: _guess_streams(files[0]))
    return CTFDeserializer(files, streams, index=wanted.index)


FORMAT = Format("CNTK text", _is_ctf, _open)
