"""CNTK's text format as a corpus, and sequences written in it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.casts import as_array, element_type
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo, StreamsLike, choose_streams
from sweephand.deserializers.deserializer import brief
from sweephand.deserializers.open_path import Look, SelfDescribed
from sweephand.deserializers.units.unit_scan import known_fields
from sweephand.errors import DataError
from sweephand.files.find import find_shards
from sweephand.files.index_file import Advance, Keep, Scan, check_keep, load_index
from sweephand.files.inflate import (
    PACKINGS,
    ContentFile,
    FileContents,
    head_of_content,
)
from sweephand.files.local import LocalFile, access_to, look_again
from sweephand.files.source_file import Files, SourceFile, empty_corpus

_CHUNK_BYTES = 32 << 20
_MAX_LINE_BYTES = 256 << 20
_HEAD_BYTES = 1 << 20
_FREE = (2**31 - 1,)  # the shape of a sparse stream until all its indices are known


_PART_BYTES = 16 << 20  # a thread's share of a file, at least


class CTFDeserializer(SelfDescribed):
    r"""Read files in CNTK's text format.

    Parameters
    ----------
    filename : path, glob, URL, or a list of them
        Files of one corpus, plain or compressed by gzip or zstd, read one after the other in
        the order of their names; a list keeps its order.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        Stream name to `StreamDef` with ``field``, the name in the file, and ``shape``, the
        dimension. Values are float32 unless ``dtype`` is float64 or an integer type. Missing
        declarations follow from the first lines; the dimension of a sparse stream from all of
        them, as the largest index and one more.
    skip_sequence_ids : bool
        Every line is a sequence of one sample, and ids are ignored.
    chunk_size_in_bytes : int
        Bytes of text in a chunk: large files are cut, small ones joined.
    index
        As in `ParquetDeserializer`.
    allow_blank_lines, allow_nonfinite : bool
        Accept lines without a sample; accept ``inf`` and ``nan``.

    Notes
    -----
    The grammar is CNTK's::

        line     = [seq-id] item* [CR] LF       the last line may lack CR LF
        seq-id   = digit+                       at the beginning of the line; below 2^64
        item     = blank* ( sample | comment )  blank = space | tab
        sample   = "|" name ( blank+ value )*
        comment  = "|#" anything up to the next "|" or LF
        value    = real, or of a sparse stream index ":" real
        real     = [sign] digit+ ["." digit*] [("e" | "E") [sign] digit+]

    A line with another id than the line before begins a sequence, and a line without an id
    continues it. If the first byte of a file is a bar, each line is a sequence. Numbers are
    rounded once, to the nearest of their type.

    Within ``max_errors``, which counts a line once, and a sequence whose lines are correct, a
    sequence is skipped that has a sample with wrong syntax, a number out of
    range, an index or a count beyond the shape, text that is no id, or no sample of a declared
    stream. A dense sample with too few numbers is padded with zeros; an index that occurs
    twice, and more samples than streams or lines, are kept, as in CNTK. No budget allows
    UTF-16, a stream that no line has, a line above 256 MiB, or a sequence of 2^32 samples.

    Examples
    --------
    >>> import pathlib, sweephand as sh
    >>> path = pathlib.Path("train.ctf")
    >>> _ = path.write_text("0 |words 3:1 |label 0 1\n0 |words 9:1\n1 |words 4:1 |label 1 0")
    >>> source = sh.MinibatchSource(sh.CTFDeserializer(path), randomize=False, max_sweeps=1)
    >>> source.streams.words.shape, source.streams.label.shape
    ((10,), (2,))
    """

    def __init__(
        self,
        filename: Files,
        streams: StreamsLike | None = None,
        skip_sequence_ids: bool = False,
        chunk_size_in_bytes: int = _CHUNK_BYTES,
        index: Keep = "auto",
        *,
        allow_blank_lines: bool = False,
        allow_nonfinite: bool = False,
    ) -> None:
        self._contents = FileContents()
        check_int("chunk_size_in_bytes", chunk_size_in_bytes, 1, 2**63)
        self._keep = check_keep(index)
        self._files = find_shards(filename, as_given=True).files
        self._chunk_bytes = chunk_size_in_bytes
        self.definitions = self._complete(choose_streams(streams, self._guess))
        self._infos = [
            StreamInfo(
                name=name,
                dtype=np.dtype(one.dtype or np.float32),
                shape=_FREE if one.sample_shape is None else one.sample_shape,
                is_sparse=one.is_sparse,
                definition=one,
            )
            for name, one in self.definitions.items()
        ]
        self._flags = skip_sequence_ids, allow_blank_lines, allow_nonfinite
        self._make_format(self._infos)  # refuses invalid streams
        sized = [info.name for info in self._infos if info.defines_mb_size]
        carried = [info.name for info in self._infos if info.carried]
        if carried and not sized:
            raise ValueError(f"beside {carried[0]!r} a stream must say defines_mb_size=True")
        self._meaning = {
            "format": "ctf 4",
            "streams": [
                [self._field(info), info.shape, info.is_sparse, info.dtype.name]
                for info in self._infos
            ],
            "size": sized,
            "flags": list(self._flags),
        }

    def _guess(self) -> StreamDefs:
        """Return the streams of the first lines: dense, of the width found, or sparse."""
        file = next((file for file in self._files if file.size), self._files[0])
        streams: dict[str, StreamDef] = {}
        content = head_of_content(file, _HEAD_BYTES, PACKINGS)
        for line in (content.rpartition(b"\n")[0] or content).splitlines():
            for sample in line.decode(errors="replace").split("|")[1:]:
                name, *values = sample.split() or ["#"]
                if not name.startswith("#") and name not in streams and values:
                    is_sparse = ":" in values[0]
                    shape = None if is_sparse else len(values)
                    streams[name] = StreamDef(shape=shape, is_sparse=is_sparse)
        if not streams:
            raise DataError("the first lines have no sample that tells a stream", file.path)
        return StreamDefs(streams)

    def _complete(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams, completed by the file."""
        lacking = [name for name, one in streams.items() if one.shape is None]
        if all(streams[name].is_sparse for name in lacking):
            return streams
        guessed = self._guess()
        completed = dict(streams)
        for name in lacking:
            field = streams[name].field or name
            if field not in guessed:
                reason = (
                    f"no field {field!r}, there are: {', '.join(guessed)}; declare its shape"
                )
                raise DataError(
                    f"the first lines have {reason}", self._files[0].path, stream=name
                )
            found = guessed[field]
            completed[name] = replace(
                streams[name], shape=found.shape, is_sparse=found.is_sparse
            )
        return StreamDefs(completed)

    def _field(self, info: StreamInfo) -> str:
        return info.definition.field or info.name

    def _make_format(self, infos: Sequence[StreamInfo]) -> _core.formats.CtfFormat:
        """Return the core's reader, which unlike this object does not pickle."""
        streams = [
            _core.formats.CtfStream(
                field=self._field(info),
                dimension=int(np.prod(info.shape, dtype=np.int64)),
                is_sparse=info.is_sparse,
                type=element_type(info.dtype),
                defines_mb_size=info.defines_mb_size,
            )
            for info in infos
        ]
        return _core.formats.CtfFormat(streams, *self._flags, _MAX_LINE_BYTES)

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        local = access_to(self._files).local  # as they are now; objects as they were listed
        listed: Sequence[SourceFile] = self._files if local is None else look_again(local)
        scan = partial(self._scan, self._make_format(self._infos), ledger.max_errors)
        index = load_index(listed, self._meaning, scan, keep=self._keep)
        listed = [
            self._contents.as_file(file, **facts["content"]) if "content" in facts else file
            for file, facts in zip(index.files, index.facts, strict=True)
        ]
        index = replace(index, files=listed)
        is_empty = not index.starts["sizes"][-1]
        found = [
            list(zip(facts["met"], facts["num_indices"], facts["single"], strict=True))
            for facts in index.facts
            if facts["met"]  # of files with lines
        ]
        infos = []
        for info, *own in zip(self._infos, *found, strict=True):
            if not is_empty and not any(met for met, _, _ in own):  # misspelt
                known = known_fields(self._guess)
                reason = f"no line has the field {self._field(info)!r}{known}"
                raise DataError(reason, index.files[0].path, stream=info.name)
            shape = info.shape
            if info.definition.shape is None:
                shape = (max([1, *(reach for _, reach, _ in own)]),)
            is_single = all(single for _, _, single in own)
            infos.append(replace(info, shape=shape, is_single=is_single))
        num_listed = 0
        for file, facts in zip(index.files, index.facts, strict=True):
            for reason, offset, stream, sequence, line, is_charged in facts["items"]:
                error = DataError(reason, file.path, offset, None, stream, sequence, line)
                ledger.add(error, is_charged=is_charged)
                num_listed += is_charged
        ledger.charge(len(index.arrays["item_offsets"]) - num_listed)
        ignored = [facts["ignores_ids"] for facts in index.facts]
        if is_empty:
            raise empty_corpus([file.path for file in listed])
        chunks = _core.formats.CtfChunks(  # what is unpacked from its begin alone is not cut
            offsets=index.arrays["offsets"],
            lines=index.arrays["lines"],
            starts=index.starts["sizes"],
            sizes=np.array([file.size for file in listed], np.uint64),
            item_offsets=index.arrays["item_offsets"],
            item_starts=index.starts["item_offsets"],
            most_bytes=self._chunk_bytes,
            entries=[
                one.content.entries if isinstance(one, ContentFile) else None for one in listed
            ],
        )
        starts = chunks.sequences
        names = [file.name for file in listed]
        sizing = Sizing.of(index.arrays["sizes"], starts)
        num_samples = sizing.samples.total
        reader = StoredReader(
            core=self._make_core(infos, listed, ignored, chunks),
            streams=infos,
            chunks=starts,
            measure=lambda: sizing,
            resident=False,
            sample_bytes=sum(file.size for file in listed) / num_samples,
            is_parsed=True,
            load_threads=access_to(listed).threads(),
            holds_stored=not access_to(listed).is_local,
        )
        return StoredCorpus(
            [reader],
            ids=ShardIds(names, index.starts["sizes"].tolist()),
            names=names,
            keys=None if all(ignored) else partial(np.asarray, index.arrays["keys"]),
            index=index.path,
            files=listed,
        )

    def _scan(
        self, form: _core.formats.CtfFormat, max_errors: int, file: SourceFile, advance: Advance
    ) -> Scan:
        """Scan a file once; it gets an index if its errors are within the budget."""
        content: dict[str, Any] = {}
        stream, compression = self._contents.open_text(file)
        with stream:
            if compression is None and isinstance(file, LocalFile):
                start, index = _index_in_parts(_core.read.File(file.path), form, max_errors)
            elif compression is None:
                start, index = _index_in_order(stream, file.path, file.size, form, max_errors)
        if compression is not None:
            size, members = self._contents.measure(file, compression)  # unpacked once for that
            told = {"compression": compression, "size": size, "members": members}
            content = {"content": told}
            with self._contents.open(file, compression) as stream:
                start, index = _index_in_order(stream, file.path, size, form, max_errors)
        advance(file.size)
        index.ledger.check()
        file.check_unchanged()
        items = [
            [one.reason, one.offset, one.stream, one.sequence, one.line, one.caused_by is None]
            for one in index.ledger.items
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
                **content,
            },
        )

    def _description(self) -> str:
        known = [info.name if info.shape == _FREE else info for info in self._infos]
        return brief([file.name for file in self._files], known)

    def _make_core(
        self,
        infos: Sequence[StreamInfo],
        files: Sequence[SourceFile],
        ignored: Sequence[bool],
        chunks: _core.formats.CtfChunks,
    ) -> _core.read.Deserializer:
        form = self._make_format(infos)
        local = access_to(files).local
        if local is not None:
            named = [
                _core.formats.CtfFile(file.path, file.core_tag, ignores_ids)
                for file, ignores_ids in zip(local, ignored, strict=True)
            ]
            return _core.formats.CtfDeserializer(form, named, chunks)

        def load(number: int) -> _core.read.Chunk:
            pieces = chunks.of(number)
            reader = _core.formats.CtfReader(form, sum(piece.bytes for piece in pieces))
            for piece in pieces:
                file = files[piece.file]
                text = file.fetch(piece.offset, piece.bytes)
                file.check_unchanged()
                reader.read(file.path, text, piece, ignored[piece.file])
            return reader.take()

        return _core.read.CallbackDeserializer(load)


def is_ctf(look: Look) -> bool:
    """Return True if the first line of a file, decompressed if necessary, has a sample."""
    head = look.content(4096, PACKINGS).removeprefix(b"\xef\xbb\xbf")
    line = head.partition(b"\n")[0]
    before, bar, after = line.partition(b"|")
    return bool(bar) and (not before or before.strip().isdigit()) and after[:1].isalpha()


def _index_in_order(
    stream: io.BufferedReader,
    path: str,
    size: int,
    form: _core.formats.CtfFormat,
    max_errors: int,
) -> tuple[_core.formats.CtfStart, _core.formats.CtfIndex]:
    """Index a file read from beginning to end: by few requests, or decompressed."""

    def read_into(offset: int, out: memoryview) -> None:
        stream.seek(offset)
        stream.readinto(out)

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

    def scan(part: tuple[int, int]) -> _core.formats.CtfIndex:
        return _core.formats.ctf_index(file, form, start, *part, max_errors)

    index = _core.formats.CtfIndex(max_errors)
    with ThreadPoolExecutor(threads) as pool:
        for part in pool.map(scan, pairwise(sorted({*begins, size}))):
            index.append(part, start)
    return start, index


def sequence_to_cntk_text_format(seq_idx: int, alias_tensor_map: Mapping[str, Any]) -> str:
    r"""Return one sequence as lines of CNTK's text format, without an end after the last.

    Parameters
    ----------
    seq_idx : int
        The id of the sequence.
    alias_tensor_map : mapping of str to samples
        Stream name to its samples, one line each: an array of shape (samples, ...), which is
        written row by row; a list of arrays, numbers, or dicts from index to value, which are
        written sparse; or a SciPy CSR matrix with a row per sample. Streams are sorted by
        name, and every number is the shortest text that is read as the same.

    Examples
    --------
    >>> text = sequence_to_cntk_text_format(7, {"A": [[0.5], [1.5]], "B": [{9: 4, 3: 1}]})
    >>> text.splitlines()
    ['7\t|A 0.5 |B 3:1 9:4', '7\t|A 1.5']
    """
    if seq_idx < 0:
        raise ValueError(f"the id of a sequence must be at least 0, got {seq_idx}")
    streams = {
        name: _samples(name, samples) for name, samples in sorted(alias_tensor_map.items())
    }
    lines = []
    for step in range(max(map(len, streams.values()), default=0)):
        items = [
            f"|{name} {own[step]}".rstrip() for name, own in streams.items() if step < len(own)
        ]
        lines.append(f"{seq_idx}\t{' '.join(items)}")
    return "\n".join(lines)


def _samples(name: str, samples: Any) -> list[str]:
    """Return the text of every sample of a stream."""
    if not name or any(c in "|#" or c.isspace() for c in name):
        raise ValueError(f"a stream of CNTK's text cannot be called {name!r}")
    if getattr(samples, "format", None) == "csr":
        indices = samples.indices.tolist()
        return [
            _sparse(name, dict(zip(indices[begin:end], samples.data[begin:end], strict=True)))
            for begin, end in pairwise(samples.indptr.tolist())
        ]
    return [
        _sparse(name, one) if isinstance(one, Mapping) else _dense(name, one) for one in samples
    ]


def _sparse(name: str, sample: Mapping[int, Any]) -> str:
    if (least := min(sample, default=0)) < 0:
        raise ValueError(f"stream {name!r} has the negative index {least}")
    pairs = [f"{index}:{_dense(name, value)}" for index, value in sorted(sample.items())]
    for pair in pairs:
        if " " in pair or pair.endswith(":"):
            raise ValueError(f"stream {name!r} must have one number at an index, got {pair!r}")
    return " ".join(pairs)


def _dense(name: str, sample: Any) -> str:
    array = as_array(f"stream {name!r}", sample)
    if array.dtype.kind not in "biuf" and array.size:
        raise ValueError(f"stream {name!r} must hold numbers, got {array.dtype}")
    if array.dtype == bool:
        array = array.astype(np.uint8)
    # NumPy writes the shortest text that is read as the same number of the type.
    return " ".join(str(value).removesuffix(".0") for value in array.reshape(-1))
