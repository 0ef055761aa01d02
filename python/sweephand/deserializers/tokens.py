"""Tokens: bare numbers, ``.npy`` arrays of them, and the pairs of files Megatron writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.base.checks import check_choice, check_int
from sweephand.corpus.casts import as_dtype
from sweephand.corpus.chunks import default_chunk_bytes
from sweephand.corpus.columns import ColumnData, describe_stream, offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.sizes import chunks_between
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams, only_chosen
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.npy import (
    NpyDeserializer,
    NpyHeader,
    has_magic,
    read_row_header,
    streams_at,
)
from sweephand.deserializers.open_path import Wanted
from sweephand.deserializers.units.records import FileColumn, read_columns
from sweephand.errors import DataError
from sweephand.files.find import find_files, list_paths
from sweephand.files.index_file import Advance, Index, Keep, Scan, check_keep, load_index
from sweephand.files.local import access_to
from sweephand.files.paths import AnyPath, files_at
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import Files, SourceFile, empty_corpus
from sweephand.files.urls import swap_suffix

_BLOCK_TOKENS = 1 << 20
_Int64 = NDArray[np.int64]
_TOKEN_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class _Runs:
    """The sequences of a file, and where their tokens are."""

    path: str  # of the file that says so
    dtype: np.dtype[Any]  # of the tokens
    lengths: NDArray[np.int64]  # in tokens; -1 of those that are known to be damaged
    pieces: NDArray[np.int64]  # offset and size in bytes of consecutive tokens


class TokenFiles(Deserializer):
    """Runs of tokens in files of bare numbers, which are one stream."""

    files: Sequence[SourceFile]

    def __init__(self, streams: StreamsLike | None) -> None:
        self._streams = one_stream(streams)

    def make_corpus(
        self,
        runs: Sequence[_Runs],
        ledger: Ledger,
        unit: str = "document",
        index: Index | None = None,
    ) -> StoredCorpus:
        """Return the corpus of the sequences of every file; those without tokens are lost."""
        dtype = runs[0].dtype
        for one in runs:
            if one.dtype != dtype:
                raise DataError(
                    f"the tokens are {one.dtype} here and {dtype} in {runs[0].path}; all files "
                    "of a corpus must agree",
                    one.path,
                )
            for number in np.flatnonzero(one.lengths == 0).tolist():
                error = DataError(f"the {unit} has no tokens", one.path, sequence=number)
                ledger.add(error)
        lengths = np.concatenate([one.lengths for one in runs])
        skipped = np.flatnonzero(lengths <= 0)
        if len(lengths) == len(skipped):
            raise empty_corpus([file.path for file in self.files])
        offsets = offsets_of(np.maximum(lengths, 0))
        ((name, definition),) = self._streams.items()
        column = ColumnData(None, dtype, (), int(offsets[-1]), offsets)
        chunk_bytes = default_chunk_bytes(is_local=access_to(self.files).is_local)
        marks = np.arange(0, int(offsets[-1]), max(1, chunk_bytes // dtype.itemsize))
        starts = np.append(np.searchsorted(offsets[:-1], marks), len(lengths))
        pieces = [np.insert(one.pieces, 0, number, axis=1) for number, one in enumerate(runs)]
        reader = read_columns(
            [FileColumn(column, self.files, np.concatenate(pieces).astype(np.uint64))],
            [describe_stream(name, column, definition)],
            chunks_between(starts[np.diff(starts, append=len(offsets)) > 0]),
            dtype.itemsize,
            skipped=skipped if len(skipped) else None,
        )
        names = [file.name for file in self.files]
        ids = ShardIds(names, offsets_of([len(one.lengths) for one in runs]).tolist())
        path = None if index is None else index.path
        return StoredCorpus([reader], ids, names, files=self.files, index=path)

    def _description(self) -> str:
        return brief([file.name for file in self.files], self._streams)


class RawTokensDeserializer(TokenFiles):
    """Serve files of bare numbers, or of one ``.npy`` array of them, as runs of tokens.

    Parameters
    ----------
    files, index
        As in `ParquetDeserializer`.
    dtype : dtype-like, optional
        Type of the numbers, such as "uint16", in native byte order; a ``.npy`` array has its
        own. With ``offsets`` it may be left out: the unsigned integers that fill the file.
    sequence_length : int, optional
        Numbers in a sequence; the rest at the end of a file is a shorter one. Without it, one
        of the next two options delimits documents.
    offsets : str, path, or sequence of them, optional
        A file for each file, in the same order, with the ends of its documents in tokens: bare
        unsigned integers of 64 bits, as datatrove's ``.ds.index``, or ``.npy``; the first may
        be 0. ".index" means the names of the files with that suffix.
    end_of_document : int, optional
        The token that ends every document, and is a part of it.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "tokens"; by default it has that name too.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.bin"
    >>> np.arange(10, dtype=np.uint16).tofile(path)
    >>> corpus = sh.RawTokensDeserializer(path, "uint16", sequence_length=4)
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(100)["tokens"].as_sequences()[2]
    array([8, 9], dtype=uint16)
    """

    def __init__(
        self,
        files: Files,
        dtype: DTypeLike | None = None,
        sequence_length: int | None = None,
        streams: StreamsLike | None = None,
        *,
        offsets: Files | None = None,
        end_of_document: int | None = None,
        index: Keep = "auto",
    ) -> None:
        super().__init__(streams)
        self._keep = check_keep(index)
        if sum(one is not None for one in (sequence_length, offsets, end_of_document)) != 1:
            raise ValueError(
                "say where sequences end by one of sequence_length, offsets and end_of_document"
            )
        if sequence_length is not None:
            check_int("sequence_length", sequence_length, 1, 2**32)
        if end_of_document is not None:
            check_int("end_of_document", end_of_document, -(2**31), 2**63)
        self._length, self._token = sequence_length, end_of_document
        listed = find_files(files)
        self.files = listed.files
        self._ends: list[SourceFile] = []
        if offsets is not None:
            if isinstance(offsets, str) and offsets.startswith(".") and "/" not in offsets:
                offsets = [f"{file.spec}{offsets}" for file in self.files]
            self._ends = find_files(offsets).files
            if len(self._ends) != len(self.files):
                raise ValueError(
                    f"there are {len(self.files)} files of tokens and {len(self._ends)} of "
                    "offsets: give one for each, in the same order"
                )
        arrays = [(file, header) for file in self.files if (header := _header_of(file))]
        if dtype is None and arrays:
            dtype = arrays[0][1].dtype.newbyteorder("=")
        if dtype is None and self._ends:
            first = next((n for n, file in enumerate(self.files) if file.size), 0)
            ends = _read_ends(self._ends[first])
            dtype = _TOKEN_TYPES.get(self.files[first].size // max([1, *ends[-1:].tolist()]))
        if dtype is None:
            raise ValueError("dtype is needed: bare numbers do not say what they are")
        self._dtype = as_dtype(dtype)
        if self._dtype.kind not in "iuf" or not self._dtype.isnative:
            raise ValueError(f"dtype must be a native integer or float type, got {dtype!r}")
        for file, header in arrays:
            if header.dtype != self._dtype:
                raise DataError(
                    f"the array is of {header.dtype}, not of {self._dtype} as wanted", file.path
                )
        for file in self.files:
            _refuse_tail(file, _begin_of(file), self._dtype)

    def open(self, ledger: Ledger) -> StoredCorpus:
        found: Index | None = None
        if self._token is not None:
            found = load_index(
                self.files,
                {"format": "token bounds 1", "dtype": self._dtype.name, "token": self._token},
                self._scan,
                keep=self._keep,
            )
        runs = []
        for number, file in enumerate(self.files):
            begin = _begin_of(file)
            ends = self._ends_in(number) if found is None else found.scan(number).arrays["ends"]
            pieces = np.array([[begin, file.size - begin]])
            runs.append(_Runs(file.path, self._dtype, np.diff(ends, prepend=0), pieces))
        return self.make_corpus(runs, ledger, index=found)

    def _ends_in(self, number: int) -> NDArray[np.int64]:
        """Return where the sequences of a file end, in tokens."""
        file, item = self.files[number], self._dtype.itemsize
        begin = _begin_of(file)
        count = (file.size - begin) // item
        if self._length is not None:
            return np.append(np.arange(self._length, count, self._length), count)[:count]
        ends = _read_ends(self._ends[number])
        last = int(ends[-1]) if len(ends) else 0
        if last != count:
            raise DataError(
                f"the last document ends with token {last}, and there are {count}; are these "
                "its ends, is the dtype right?",
                file.path,
                min(file.size, begin + last * item),
            )
        return ends

    def _scan(self, file: SourceFile, advance: Advance) -> Scan:
        """Find the ends of documents, each with its token."""
        begin, item = _begin_of(file), self._dtype.itemsize
        num_tokens = (file.size - begin) // item
        parts = [np.empty(0, np.int64)]
        with open_to_scan(file) as stream:
            stream.seek(begin)
            for first in range(0, num_tokens, _BLOCK_TOKENS):
                block = stream.read(min(_BLOCK_TOKENS, num_tokens - first) * item)
                found = np.flatnonzero(np.frombuffer(block, self._dtype) == self._token)
                parts.append(found + first + 1)
                advance(len(block))
        file.check_unchanged()
        ends = np.concatenate(parts)
        if num_tokens and (not len(ends) or ends[-1] < num_tokens):
            ends = np.append(ends, num_tokens)  # the last one lacks its token
        return Scan({"ends": ends})


def open_numbers(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of files of bare numbers, cut into documents."""
    files = [file.with_name(file.stem) if file.suffix == ".index" else file for file in files]
    files = list(dict.fromkeys(files))  # of pairs one each
    have_index = all(
        file.suffix == ".ds" and file.with_name(f"{file.name}.index").exists() for file in files
    )
    if have_index and not wanted.are_documents:
        return _open_tokens(files, wanted, ".index")
    if wanted.dtype is None or not wanted.are_documents:
        raise ValueError(
            f"{str(files[0])!r} holds bare numbers, as it seems: say of which dtype, such as "
            "uint16, and the sequence_length to cut them into, or the end_of_document that "
            "parts them (on the command line --dtype and --sequence-length)"
        )
    return _open_tokens(files, wanted)


def open_rows(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of ``.npy`` files: of arrays, or of tokens cut into documents."""
    if not wanted.are_documents:
        streams = streams_at(files)
        defined = wanted.definitions(streams)
        return NpyDeserializer(only_chosen(streams, defined), defined, wanted.chunk_size)
    return _open_tokens([one for path in files for one in files_at(path, "*.npy")], wanted)


def _open_tokens(
    files: Sequence[AnyPath], wanted: Wanted, offsets: str | None = None
) -> Deserializer:
    return RawTokensDeserializer(
        files,
        wanted.dtype,
        wanted.sequence_length,
        wanted.choose(partial(one_stream, None)),
        offsets=offsets,
        end_of_document=wanted.end_of_document,
        index=wanted.index,
    )


def one_stream(streams: StreamsLike | None, only: str = "tokens") -> StreamDefs:
    """Return the one stream that is asked for, with the only field that there is."""
    defined = choose_streams(streams, lambda: StreamDefs({only: StreamDef()}))
    if len(defined) != 1:
        raise ValueError(f"there is one field, {only!r}, got streams {', '.join(defined)}")
    ((name, definition),) = defined.items()
    field = definition.field or name
    if field != only:
        raise ValueError(
            f"there is no field {field!r}, only {only!r}: write "
            f"StreamDefs({name}=StreamDef(field={only!r}))"
        )
    return defined


@lru_cache(1 << 14)
def _header_of(file: SourceFile) -> NpyHeader | None:
    """Return the header of an array; files of that name may hold bare numbers, as OLMo's do."""
    is_array = file.name.endswith(".npy") and has_magic(file)
    return read_row_header(file, "iuf") if is_array else None


def _begin_of(file: SourceFile) -> int:
    """Return the byte where the tokens of a file begin."""
    header = _header_of(file)
    return 0 if header is None else header.offset


def _refuse_tail(file: SourceFile, begin: int, dtype: np.dtype[Any]) -> None:
    tail = (file.size - begin) % dtype.itemsize
    if tail:
        raise DataError(
            f"{file.size} bytes are no whole number of {dtype} elements; {tail} are left over: "
            "is the dtype right, is the file whole?",
            file.path,
            file.size - tail,
        )


def _read_ends(file: SourceFile) -> NDArray[np.int64]:
    """Return the ends of documents, in tokens: bare u64 or an array, with or without the 0."""
    bare = NpyHeader((), np.dtype("<u8"), 0)
    header = read_row_header(file) if has_magic(file) else bare
    offset, dtype = header.offset, header.dtype
    _refuse_tail(file, offset, dtype)
    # One that is beyond any file becomes negative.
    ends = file.read(offset, file.size - offset).view(dtype).astype(np.int64)
    for row in np.flatnonzero(ends < np.append(0, ends[:-1])[: len(ends)])[:1].tolist():
        reason = f"document {row} ends before it begins, or beyond any file"
        raise DataError(reason, file.path, offset + row * dtype.itemsize)
    return ends[1:] if len(ends) and ends[0] == 0 else ends


_MAGIC = b"MMIDIDX\0\0"
_HEADER = 34
_DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}


def _read_pair(file: SourceFile, data: SourceFile, unit: str, ledger: Ledger) -> _Runs:
    """Read the index of a pair, and check every sequence in it before it is used."""
    dtype, lengths, offsets, bounds = _read_index(file)
    count, item = len(lengths), dtype.itemsize
    sizes = lengths * item  # at most 2^31 * 8: no overflow
    is_good = np.ones(count, np.bool_)

    def refuse(is_wrong: NDArray[np.bool_], reason: str, begin: int, step: int) -> None:
        wrong = np.flatnonzero(is_wrong & is_good)
        for number in wrong.tolist():
            ledger.add(DataError(reason, file.path, begin + step * number, sequence=number))
        is_good[wrong] = False

    refuse(lengths < 0, "the length is negative", _HEADER, 4)
    offsets_at = _HEADER + 4 * count
    reason = f"the offset is negative, or no multiple of the {item} bytes of a token"
    refuse((offsets < 0) | (offsets % item != 0), reason, offsets_at, 8)
    reason = f"the sequence ends after the {data.size} bytes of the .bin file"
    refuse((offsets > data.size) | (sizes > data.size - offsets), reason, offsets_at, 8)
    good = np.flatnonzero(is_good)  # in any order, as in merged sets
    good = good[np.argsort(offsets[good], kind="stable")]
    ends = np.maximum.accumulate(offsets[good] + sizes[good])
    overlaps = np.zeros(count, np.bool_)
    overlaps[good[1:]] = offsets[good[1:]] < ends[:-1]
    refuse(overlaps, "the sequence overlaps another one", offsets_at, 8)
    lengths = np.where(is_good, lengths, 0)
    is_used = lengths > 0
    if unit == "document":  # which is damaged with one of its sequences
        is_good = np.diff(offsets_of(is_good.astype(np.int64))[bounds]) == np.diff(bounds)
        lengths = np.diff(offsets_of(lengths)[bounds])
        is_used &= np.repeat(is_good, np.diff(bounds))
    begins, ends = offsets[is_used], (offsets + sizes)[is_used]
    first = np.flatnonzero(np.append(True, begins[1:] != ends[:-1])[: len(begins)])
    last = np.append(first[1:], len(begins))[: len(first)] - 1
    pieces = np.stack([begins[first], ends[last] - begins[first]], axis=1)
    return _Runs(file.path, dtype, np.where(is_good, lengths, -1), pieces)


def _read_index(file: SourceFile) -> tuple[np.dtype[Any], _Int64, _Int64, _Int64]:
    """Return the type of tokens, the length and offset of each sequence, and documents."""
    content = file.read(0, file.size)
    head = content[:_HEADER].tobytes()
    version, code = int.from_bytes(head[9:17], "little"), int.from_bytes(head[17:18])
    if head[:9] != _MAGIC or len(head) < _HEADER or version != 1 or code not in _DTYPES:
        reason = f"no Megatron index of version 1 and a known dtype: it begins with {head!r}"
        raise DataError(reason, file.path, 0)
    count, num_bounds = np.frombuffer(head, "<u8", 2, 18).tolist()
    bounds_at = _HEADER + 12 * count
    size = bounds_at + 8 * num_bounds
    if len(content) not in (size, size + count):
        raise DataError(
            f"{count} sequences and {num_bounds} document bounds take {size} bytes, or "
            f"{size + count} with modes, there are {len(content)}",
            file.path,
            min(size, len(content)),
        )
    lengths = np.frombuffer(content, "<i4", count, _HEADER).astype(np.int64)
    offsets = np.frombuffer(content, "<i8", count, _HEADER + 4 * count).astype(np.int64)
    bounds = np.frombuffer(content, "<i8", num_bounds, bounds_at).astype(np.int64)
    if bounds[:1].any() or bounds[-1:].tolist() != [count] or (bounds[:-1] > bounds[1:]).any():
        reason = f"the bounds of documents do not ascend from 0 to {count}, that of sequences"
        raise DataError(reason, file.path, bounds_at)
    return np.dtype(_DTYPES[code]), lengths, offsets, bounds


class MegatronDeserializer(TokenFiles):
    """Serve tokens that Megatron's tools prepared, without converting them.

    Parameters
    ----------
    prefix_or_prefixes : str, path, or sequence of them
        Paths, globs or URLs, without ``.bin`` and ``.idx``, or with one of them.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "tokens"; by default it has that name too.
    unit : {"sequence", "document"}
        The unit of a sequence: an entry of the index, which is a sentence or a document by
        decision of the preparer, or all entries of a document.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.MegatronDeserializer("corpus_text_document")  # doctest: +SKIP
    """

    def __init__(
        self,
        prefix_or_prefixes: Files,
        streams: StreamsLike | None = None,
        *,
        unit: Literal["sequence", "document"] = "sequence",
    ) -> None:
        super().__init__(streams)
        check_choice("unit", unit, "sequence", "document")
        self._unit = unit
        given = list_paths(prefix_or_prefixes)
        indexes = find_files([_beside(os.fspath(one), ".idx") for one in given]).files
        files = find_files([_beside(file.spec, ".bin") for file in indexes]).files
        pairs = [
            pair for pair in zip(indexes, files, strict=True) if pair[0].size or pair[1].size
        ]
        if not pairs:
            raise empty_corpus([file.path for file in files])
        self._indexes, self.files = map(list, zip(*pairs, strict=True))

    def open(self, ledger: Ledger) -> StoredCorpus:
        pairs = zip(self._indexes, self.files, strict=True)
        runs = [_read_pair(index, data, self._unit, ledger) for index, data in pairs]
        return self.make_corpus(runs, ledger, self._unit)


def _beside(spec: str, suffix: str) -> str:
    return swap_suffix(spec, suffix, known=(".idx", ".bin"))


def open_pairs(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of pairs of files."""
    # of pairs one each
    indexes = dict.fromkeys(file.with_name(_beside(file.name, ".idx")) for file in files)
    return MegatronDeserializer(list(indexes), wanted.choose(partial(one_stream, None)))
