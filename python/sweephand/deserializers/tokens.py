"""Tokens: bare numbers, ``.npy`` arrays of them, and the pairs of files Megatron writes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from sweephand.corpus.streams import StreamsLike, choose_streams
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.npy import has_magic, open_arrays, read_row_header
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
_TOKEN_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class TokenFiles(Deserializer):
    """Runs of tokens in files of bare numbers, which are one stream."""

    files: Sequence[SourceFile]

    def __init__(self, streams: StreamsLike | None, chunk_size_in_bytes: int | None) -> None:
        if chunk_size_in_bytes is not None:
            check_int("chunk_size_in_bytes", chunk_size_in_bytes, 1, 2**63)
        self._chunk_bytes = chunk_size_in_bytes
        self._streams = one_stream(streams)

    def make_corpus(
        self,
        dtype: np.dtype[Any],
        pieces: Sequence[NDArray[np.int64]],
        lengths: Sequence[NDArray[np.int64]],
        skipped: NDArray[np.int64],
        index: Index | None = None,
    ) -> StoredCorpus:
        """Return the corpus: of every file where its tokens are, and those of a sequence.

        A piece is its offset and size in bytes; sequences that are `skipped` have no tokens.
        """
        offsets = offsets_of(np.concatenate(lengths))
        if len(offsets) == 1 + len(skipped):
            raise empty_corpus([file.path for file in self.files])
        ((name, definition),) = self._streams.items()
        column = ColumnData(None, dtype, (), int(offsets[-1]), offsets)
        is_local = access_to(self.files).is_local
        chunk_bytes = self._chunk_bytes or default_chunk_bytes(is_local=is_local)
        marks = np.arange(0, int(offsets[-1]), max(1, chunk_bytes // dtype.itemsize))
        starts = np.append(np.searchsorted(offsets[:-1], marks), len(offsets) - 1)
        numbered = [np.insert(one, 0, number, axis=1) for number, one in enumerate(pieces)]
        reader = read_columns(
            [FileColumn(column, self.files, np.concatenate(numbered).astype(np.uint64))],
            [describe_stream(name, column, definition)],
            chunks_between(starts[np.diff(starts, append=len(offsets)) > 0]),
            dtype.itemsize,
            skipped=skipped if len(skipped) else None,
        )
        names = [file.name for file in self.files]
        ids = ShardIds(names, offsets_of([len(one) for one in lengths]).tolist())
        path = None if index is None else index.path
        return StoredCorpus([reader], ids, names, files=self.files, index=path)

    def _description(self) -> str:
        return brief([file.name for file in self.files], self._streams)


class RawTokensDeserializer(TokenFiles):
    """Serve files of bare numbers, or of one ``.npy`` array of them, as runs of tokens.

    Local files are mapped into memory and read in place, in any order. With a window of the
    source they are read in chunks that are held, as remote files always are.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Each file is cut by itself: the rest at its end is a shorter
        sequence.
    dtype : dtype-like, optional
        Type of the numbers, such as "uint16", in native byte order; a ``.npy`` array has its
        own. With ``offsets`` it may be left out: unsigned integers, whose width follows from
        the number of tokens.
    sequence_length : int, optional
        Numbers in a sequence. Without it, one of the next two options delimits documents.
    offsets : str, path, or sequence of them, optional
        A file of offsets for each file, in the same order, with the ends of its documents in
        tokens: bare unsigned integers of 64 bits, as datatrove's ``.ds.index``, or ``.npy``;
        the first may be 0. ".index" means the names of the files with that suffix.
    end_of_document : int, optional
        The token that ends every document, and is a part of it. All tokens are read once for an
        index.
    index
        As in `ParquetDeserializer`.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "tokens"; by default it has that name too.
    chunk_size_in_bytes : int, optional
        Bytes in a chunk, which a window shuffles; by default 8 MiB, or 1 MiB in a store.

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
        chunk_size_in_bytes: int | None = None,
        index: Keep = "auto",
    ) -> None:
        super().__init__(streams, chunk_size_in_bytes)
        self._keep = check_keep(index)
        _check_cut(sequence_length, offsets, end_of_document)
        self._length, self._token = sequence_length, end_of_document
        listed = find_files(files)
        self.files, self.leftovers = listed.files, listed.leftovers
        self._offsets: list[SourceFile] | None = None
        if offsets is not None:
            if isinstance(offsets, str) and offsets.startswith(".") and "/" not in offsets:
                offsets = [f"{file.spec}{offsets}" for file in self.files]
            self._offsets = find_files(offsets).files
            if len(self._offsets) != len(self.files):
                raise ValueError(
                    f"there are {len(self.files)} files of tokens and {len(self._offsets)} of "
                    "offsets: give one for each, in the same order"
                )
        # Files of that name may hold bare numbers, as OLMo's do.
        headers = {
            number: read_row_header(file, "iuf")
            for number, file in enumerate(self.files)
            if file.name.endswith(".npy") and has_magic(file)
        }
        own = next((header.dtype.newbyteorder("=") for header in headers.values()), None)
        self._dtype = self._dtype_of(own if dtype is None else dtype)
        self._begins = []  # the byte where the tokens of a file begin
        for number, file in enumerate(self.files):
            header = headers.get(number)
            self._begins.append(0 if header is None else header.offset)
            if header is not None and header.dtype != self._dtype:
                raise DataError(
                    f"the array is of {header.dtype}, and {self._dtype} is asked for or in "
                    "others",
                    file.path,
                )
            _refuse_tail(file, self._begins[-1], self._dtype)

    def _dtype_of(self, dtype: DTypeLike | None) -> np.dtype[Any]:
        if dtype is None and self._offsets is not None:
            first = next((n for n, file in enumerate(self.files) if file.size), 0)
            return _type_of_tokens(self.files[first], _read_ends(self._offsets[first]))
        if dtype is None:
            raise ValueError("dtype is needed: bare numbers do not say what they are")
        found = as_dtype(dtype)
        if found.kind not in "iuf" or not found.isnative:
            raise ValueError(f"dtype must be a native integer or float type, got {dtype!r}")
        return found

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        found: Index | None = None
        if self._token is not None:
            found = self._find_ends(self._token)
        lengths = []
        for number, file in enumerate(self.files):
            own = np.diff(self._ends_in(number, found), prepend=0)
            lengths.append(own)
            for sequence in np.flatnonzero(own == 0).tolist():
                ledger.add(
                    DataError("the document has no tokens", file.path, sequence=sequence)
                )
        begins = zip(self._begins, self.files, strict=True)
        pieces = [np.array([[begin, file.size - begin]]) for begin, file in begins]
        skipped = np.flatnonzero(np.concatenate(lengths) == 0)
        return self.make_corpus(self._dtype, pieces, lengths, skipped, found)

    def _ends_in(self, number: int, found: Index | None) -> NDArray[np.int64]:
        """Return where the sequences of a file end, in tokens."""
        if found is not None:
            return found.scan(number).arrays["ends"]
        file, begin, item = self.files[number], self._begins[number], self._dtype.itemsize
        count = (file.size - begin) // item
        if self._offsets is None:
            assert self._length is not None
            starts = np.arange(0, count, self._length, dtype=np.int64)
            return np.append(starts, count)[1:] if count else starts
        ends = _read_ends(self._offsets[number])
        last = int(ends[-1]) if len(ends) else 0
        if last != count:
            raise DataError(
                f"the last document ends with token {last}, and there are {count}; are these "
                "its ends, is the dtype right?",
                file.path,
                min(file.size, begin + last * item),
            )
        return ends

    def _find_ends(self, token: int) -> Index:
        """Return an index of where documents end, each with its token; array "ends"."""
        meaning = {"format": "token bounds 1", "dtype": self._dtype.name, "token": token}
        places = {file.path: at for file, at in zip(self.files, self._begins, strict=True)}
        scan = partial(_scan, begins=places, dtype=self._dtype, token=token)
        return load_index(self.files, meaning, scan, keep=self._keep)


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


def open_numbers(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of files of bare numbers, cut into documents."""
    files = [file.with_name(file.stem) if file.suffix == ".index" else file for file in files]
    files = list(dict.fromkeys(files))  # of pairs one each
    have_index = all(
        file.suffix == ".ds" and file.with_name(f"{file.name}.index").exists() for file in files
    )
    if have_index and not wanted.are_documents:
        streams = wanted.choose(partial(one_stream, None))
        return RawTokensDeserializer(files, wanted.dtype, streams=streams, offsets=".index")
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
        return open_arrays(files, wanted)
    return _open_tokens([one for path in files for one in files_at(path, "*.npy")], wanted)


def _open_tokens(files: Sequence[AnyPath], wanted: Wanted) -> RawTokensDeserializer:
    return RawTokensDeserializer(
        files,
        wanted.dtype,
        wanted.sequence_length,
        wanted.choose(partial(one_stream, None)),
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


def _check_cut(
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
    dtype: np.dtype[Any] = np.dtype("<u8")
    offset = 0
    if has_magic(file):
        header = read_row_header(file)
        dtype, offset = header.dtype, header.offset
    _refuse_tail(file, offset, dtype)
    # One that is beyond any file becomes negative.
    ends = file.read(offset, file.size - offset).view(dtype).astype(np.int64)
    wrong = np.flatnonzero(ends < np.append(0, ends[:-1])[: len(ends)])
    if len(wrong):
        raise DataError(
            f"document {int(wrong[0])} ends before it begins, or beyond any file",
            file.path,
            offset + int(wrong[0]) * dtype.itemsize,
        )
    return ends[1:] if len(ends) and ends[0] == 0 else ends


def _type_of_tokens(file: SourceFile, ends: NDArray[np.int64]) -> np.dtype[np.generic]:
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


_MAGIC = b"MMIDIDX\0\0"
_HEADER = 34
_DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}


@dataclass(frozen=True)
class _Index:
    """Content of an index, checked to be possible."""

    path: str
    dtype: np.dtype[np.generic]  # of the tokens
    # tokens of every sequence, and the byte of `.bin` where it begins
    lengths: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_good: NDArray[np.bool_]  # false for those that are damaged
    bounds: NDArray[np.int64]  # the first sequence of every document, and the end

    def serve(
        self, unit: str, ledger: Ledger
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Return the tokens of each sequence or document, which are served, and their pieces.

        Those without tokens go into the ledger. A piece is its offset and size in bytes.
        """
        lengths, is_good = self.lengths, self.is_good
        if unit == "document":
            starts = offsets_of(np.where(is_good, lengths, 0))
            bad = offsets_of((~is_good).astype(np.int64))
            lengths, is_good = np.diff(starts[self.bounds]), np.diff(bad[self.bounds]) == 0
        is_served = is_good & (lengths > 0)
        for number in np.flatnonzero(is_good & ~is_served).tolist():
            ledger.add(DataError(f"the {unit} has no tokens", self.path, sequence=number))
        is_used = is_served
        if unit == "document":
            is_used = np.repeat(is_served, np.diff(self.bounds))
        begins = self.offsets[is_used]
        ends = begins + self.lengths[is_used] * self.dtype.itemsize
        first = np.flatnonzero(np.append(True, begins[1:] != ends[:-1])[: len(begins)])
        last = np.append(first[1:], len(begins))[: len(first)] - 1
        pieces = np.stack([begins[first], ends[last] - begins[first]], axis=1)
        return np.where(is_served, lengths, 0), is_served, pieces


def _read_index(file: SourceFile, data: SourceFile, ledger: Ledger) -> _Index:
    """Read an index and check every number in it before it is used."""
    content = file.read(0, file.size)
    head = content[:_HEADER].tobytes()
    if head[: len(_MAGIC)] != _MAGIC:
        reason = f"no Megatron index: it begins with {head[:9]!r}, not {_MAGIC!r}"
        raise DataError(reason, file.path, 0)
    if len(head) < _HEADER:
        raise DataError(f"its header has {len(head)} bytes of {_HEADER}", file.path, len(head))
    version, code = int.from_bytes(head[9:17], "little"), head[17]
    if version != 1:
        raise DataError(f"version {version} is not supported, only 1", file.path, 9)
    if code not in _DTYPES:
        codes = ", ".join(map(str, _DTYPES))
        raise DataError(f"no tokens have the dtype code {code}, only {codes}", file.path, 17)
    count, num_bounds = np.frombuffer(head, "<u8", 2, 18).tolist()
    size = _HEADER + 12 * count + 8 * num_bounds
    if len(content) not in (size, size + count):
        raise DataError(
            f"{count} sequences and {num_bounds} document bounds take {size} bytes, or "
            f"{size + count} with modes, there are {len(content)}",
            file.path,
            min(size, len(content)),
        )
    bounds_at = _HEADER + 12 * count
    index = _Index(
        path=file.path,
        dtype=np.dtype(_DTYPES[code]),
        lengths=np.frombuffer(content, "<i4", count, _HEADER).astype(np.int64),
        offsets=np.frombuffer(content, "<i8", count, _HEADER + 4 * count).astype(np.int64),
        is_good=np.ones(count, np.bool_),
        bounds=np.frombuffer(content, "<i8", num_bounds, bounds_at).astype(np.int64),
    )
    ends = np.append(index.bounds[1:], count)
    is_wrong = index.bounds > ends[:num_bounds]
    is_wrong[:1] |= index.bounds[:1] != 0
    is_wrong[-1:] |= index.bounds[-1:] != count
    if not num_bounds or is_wrong.any():
        at = int(is_wrong.argmax()) if num_bounds else 0
        raise DataError(
            f"document bound {at} of {num_bounds} is wrong: they ascend from 0 to the number "
            f"of sequences, {count}",
            file.path,
            bounds_at + 8 * at,
        )
    _check_sequences(index, data.size, ledger)
    return index


def _check_sequences(index: _Index, data_size: int, ledger: Ledger) -> None:
    """Take out the sequences that cannot be, one reason after the other."""
    lengths, offsets, is_good = index.lengths, index.offsets, index.is_good
    item = index.dtype.itemsize
    sizes = lengths * item  # at most 2^31 * 8: no overflow
    offsets_at = _HEADER + 4 * len(lengths)

    def refuse(is_wrong: NDArray[np.bool_], reason: str, begin: int, step: int) -> None:
        wrong = np.flatnonzero(is_wrong & is_good)
        for number in wrong.tolist():
            ledger.add(DataError(reason, index.path, begin + step * number, sequence=number))
        is_good[wrong] = False

    refuse(lengths < 0, "the length is negative", _HEADER, 4)
    reason = f"the offset is negative, or no multiple of the {item} bytes of a token"
    refuse((offsets < 0) | (offsets % item != 0), reason, offsets_at, 8)
    reason = f"the sequence ends after the {data_size} bytes of the .bin file"
    refuse((offsets > data_size) | (sizes > data_size - offsets), reason, offsets_at, 8)
    good = np.flatnonzero(is_good)  # in any order, as in merged sets
    good = good[np.argsort(offsets[good], kind="stable")]
    ends = np.maximum.accumulate(offsets[good] + sizes[good])
    overlaps = np.zeros(len(lengths), np.bool_)
    overlaps[good[1:]] = offsets[good[1:]] < ends[:-1]
    refuse(overlaps, "the sequence overlaps another one", offsets_at, 8)


class MegatronDeserializer(TokenFiles):
    """Serve tokens that Megatron's tools prepared, without converting them.

    They are read as by `RawTokensDeserializer`. The begin of each sequence is kept in memory,
    in 8 bytes.

    Parameters
    ----------
    prefix_or_prefixes : str, path, or sequence of them
        Paths, globs or URLs, without ``.bin`` and ``.idx``, or with one of them.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "tokens"; by default it has that name too.
    unit : {"sequence", "document"}
        The unit of a sequence: an entry of the index, which is a sentence or a document by
        decision of the preparer, or all entries of a document.
    chunk_size_in_bytes : int, optional
        As in `RawTokensDeserializer`.

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
        chunk_size_in_bytes: int | None = None,
    ) -> None:
        super().__init__(streams, chunk_size_in_bytes)
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
        """Return the corpus, ready to be planned and read."""
        indexes = [
            _read_index(index, data, ledger)
            for index, data in zip(self._indexes, self.files, strict=True)
        ]
        for index in indexes[1:]:
            if index.dtype != indexes[0].dtype:
                raise DataError(
                    f"the tokens are {index.dtype} here and {indexes[0].dtype} in "
                    f"{indexes[0].path}; all files of a corpus must agree",
                    index.path,
                )
        served = [index.serve(self._unit, ledger) for index in indexes]
        lengths, are_served, pieces = zip(*served, strict=True)
        skipped = np.flatnonzero(~np.concatenate(are_served))
        return self.make_corpus(indexes[0].dtype, pieces, lengths, skipped)


def _beside(spec: str, suffix: str) -> str:
    return swap_suffix(spec, suffix, known=(".idx", ".bin"))


def _index_of(path: AnyPath) -> AnyPath:
    name = _beside(path.name, ".idx")
    return path if path.name == name else path.with_name(name)


def open_pairs(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of pairs of files."""
    indexes = list(dict.fromkeys(_index_of(file) for file in files))  # of pairs one each
    return MegatronDeserializer(indexes, wanted.choose(partial(one_stream, None)))
