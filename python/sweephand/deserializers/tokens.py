"""Token files, as nanoGPT, OLMo and datatrove write them: bare numbers, or ``.npy`` arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus import chunks
from sweephand.corpus.casts import as_dtype
from sweephand.corpus.columns import ColumnData, describe_stream, offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.sizes import chunks_between
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.format import Wanted
from sweephand.deserializers.npy import NpyHeader, has_magic, open_arrays, read_header
from sweephand.deserializers.units.file_columns import FileColumn, read_columns
from sweephand.errors import DataError
from sweephand.files.find import find_files
from sweephand.files.index_file import Advance, Index, Keep, Scan, check_keep, load_index
from sweephand.files.local import access_to
from sweephand.files.paths import AnyPath, files_at
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import Files, SourceFile, empty_corpus

_BLOCK_TOKENS = 1 << 20
_TOKEN_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class RawTokensDeserializer(Deserializer):
    """Serve files of bare numbers, or of one ``.npy`` array of them, as runs of tokens.

    The sequences are of equal length, or documents.

    Local files are mapped into memory and read in place, in any order. With a window of the
    source they are read in chunks that are held, as remote files always are. A file that is cut
    or changed meanwhile is an error, not a crash.

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
        Bytes in a chunk, the unit that a window shuffles and a store is asked for; by default 8
        MiB of local files and 1 MiB of those in a store.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If the size of a file is no multiple of the dtype's, a ``.npy`` array is not one row of
        numbers of that dtype, or the offsets do not ascend to its end.

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
        self._chunk_bytes = check_chunk_bytes(chunk_size_in_bytes)
        self._keep = check_keep(index)
        check_cut(sequence_length, offsets, end_of_document)
        self._length = sequence_length
        self._token = end_of_document
        self._streams = one_stream(streams)
        listed = find_files(files)
        self.files = listed.files
        self.leftovers = listed.leftovers
        self._offsets = None if offsets is None else self._find_offsets(offsets)
        if self._offsets is not None and len(self._offsets) != len(self.files):
            raise ValueError(
                f"there are {len(self.files)} files of tokens and {len(self._offsets)} of "
                "offsets: give one for each, in the same order"
            )
        # Files of that name may hold bare numbers, as OLMo's do.
        are_arrays = [file.name.endswith(".npy") and has_magic(file) for file in self.files]
        headers = [
            _row_header(file, "tokens", "iuf") if is_array else None
            for file, is_array in zip(self.files, are_arrays, strict=True)
        ]
        self._begins = [0 if header is None else header.offset for header in headers]
        stored = next((header.dtype for header in headers if header is not None), None)
        self._dtype = self._dtype_of(stored if dtype is None else dtype)
        for file, header in zip(self.files, headers, strict=True):
            self._check(file, header)

    def _find_offsets(self, offsets: Files) -> list[SourceFile]:
        if isinstance(offsets, str) and offsets.startswith(".") and "/" not in offsets:
            return find_files([f"{file.spec}{offsets}" for file in self.files]).files
        return find_files(offsets).files

    def _dtype_of(self, dtype: DTypeLike | None) -> np.dtype[Any]:
        if dtype is None and self._offsets is not None:
            first = next((n for n, file in enumerate(self.files) if file.size), 0)
            return type_of_tokens(self.files[first], read_ends(self._offsets[first]))
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
            found = find_ends(self.files, self._begins, self._dtype, self._token, self._keep)
        ends = [self._ends_in(number, found) for number in range(len(self.files))]
        lengths = np.concatenate([np.diff(own, prepend=0) for own in ends])
        counts = [len(own) for own in ends]
        empty = np.flatnonzero(lengths == 0)
        starts = offsets_of(counts)
        for number in empty.tolist():
            file = int(np.searchsorted(starts, number, side="right")) - 1
            at = number - int(starts[file])
            ledger.add(
                DataError("the document has no tokens", self.files[file].path, sequence=at)
            )
        pieces = [
            (number, self._begins[number], file.size - self._begins[number])
            for number, file in enumerate(self.files)
        ]
        corpus = open_tokens(
            self._streams,
            ShardIds([file.name for file in self.files], starts.tolist()),
            self.files,
            np.array(pieces, np.uint64),
            offsets_of(lengths),
            self._dtype,
            skipped=empty if len(empty) else None,
            chunk_size_in_bytes=self._chunk_bytes,
        )
        return corpus if found is None else replace(corpus, index=found.path)

    def _ends_in(self, number: int, found: Index | None) -> NDArray[np.int64]:
        """Return where the sequences of a file end, in tokens."""
        file = self.files[number]
        if found is not None:
            return found.scan(number).arrays["ends"]
        if self._offsets is not None:
            ends = read_ends(self._offsets[number])
            check_ends_of(file, ends, self._dtype.itemsize, self._begins[number])
            return ends
        count = (file.size - self._begins[number]) // self._dtype.itemsize
        assert self._length is not None
        begins = np.arange(0, count, self._length, dtype=np.int64)
        return np.append(begins, count)[1:] if count else begins

    def _description(self) -> str:
        return brief([file.name for file in self.files], self._streams)

    def _check(self, file: SourceFile, header: NpyHeader | None) -> None:
        if header is not None and header.dtype != self._dtype:
            raise DataError(
                f"the array is of {header.dtype}, and {self._dtype} is asked for or in others",
                file.path,
            )
        tail = file.size % self._dtype.itemsize
        if header is None and tail:
            raise DataError(
                f"{file.size} bytes are no whole number of {self._dtype} elements; {tail} are "
                "left over: is the dtype right, is the file whole?",
                file.path,
                file.size - tail,
            )


def _row_header(file: SourceFile, what: str, kinds: str) -> NpyHeader:
    """Return the header of a ``.npy`` file that holds one row of numbers."""
    header = read_header(file)
    dtype, shape = header.dtype, header.shape
    if len(shape) != 1 or dtype.kind not in kinds or not dtype.isnative:
        raise DataError(
            f"{what} are one row of {'numbers' if 'f' in kinds else 'integers'} of native byte "
            f"order, not {dtype} of shape {shape}",
            file.path,
        )
    return header


def open_numbers(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of files of bare numbers, cut into documents."""
    streams = wanted.choose(partial(one_stream, None))
    files = [file.with_name(file.stem) if file.suffix == ".index" else file for file in files]
    files = list(dict.fromkeys(files))  # of pairs one each
    have_index = all(
        file.suffix == ".ds" and file.with_name(f"{file.name}.index").exists() for file in files
    )
    if have_index and not wanted.are_documents:
        return RawTokensDeserializer(files, wanted.dtype, streams=streams, offsets=".index")
    if wanted.dtype is None or not wanted.are_documents:
        raise ValueError(
            f"{str(files[0])!r} holds bare numbers, as it seems: say of which dtype, such as "
            "uint16, and the sequence_length to cut them into, or the end_of_document that "
            "parts them (on the command line --dtype and --sequence-length)"
        )
    return open_tokens_of(files, wanted)


def open_rows(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of ``.npy`` files: of arrays, or of tokens cut into documents."""
    if not wanted.are_documents:
        return open_arrays(files, wanted)
    return open_tokens_of([one for path in files for one in files_at(path, "*.npy")], wanted)


def open_tokens_of(files: Sequence[AnyPath], wanted: Wanted) -> RawTokensDeserializer:
    """Return files of tokens, cut by the given rule."""
    return RawTokensDeserializer(
        files,
        wanted.dtype,
        wanted.sequence_length,
        wanted.choose(partial(one_stream, None)),
        end_of_document=wanted.end_of_document,
        index=wanted.index,
    )


def open_tokens(
    streams: StreamDefs,
    ids: SequenceIds,
    files: Sequence[SourceFile],
    pieces: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    dtype: np.dtype[np.generic],
    *,
    skipped: NDArray[np.int64] | None = None,
    chunk_size_in_bytes: int | None = None,
) -> StoredCorpus:
    """Return the corpus of a stream of numbers."""
    if len(offsets) == 1 + (0 if skipped is None else len(skipped)):
        raise empty_corpus([file.path for file in files])
    ((name, definition),) = streams.items()
    column = ColumnData(None, dtype, (), int(offsets[-1]), offsets)
    is_local = access_to(files).is_local
    chunk_bytes = chunk_size_in_bytes or chunks.default_chunk_bytes(is_local=is_local)
    reader = read_columns(
        [FileColumn(column, files, pieces)],
        [describe_stream(name, column, definition)],
        _cut(offsets, chunk_bytes // dtype.itemsize),
        dtype.itemsize,
        skipped=skipped,
    )
    names = [file.name for file in files]
    return StoredCorpus([reader], ids, names, files=files)


def _cut(offsets: NDArray[np.int64], chunk_elements: int) -> _core.index.Starts:
    """Return the first sequence of every chunk, and the end."""
    marks = np.arange(0, int(offsets[-1]), max(1, chunk_elements))
    starts = np.append(np.searchsorted(offsets[:-1], marks), len(offsets) - 1)
    return chunks_between(starts[np.diff(starts, append=len(offsets)) > 0])


def check_chunk_bytes(given: int | None) -> int | None:
    """Return the option ``chunk_size_in_bytes``; ValueError if it is none."""
    if given is not None:
        check_int("chunk_size_in_bytes", given, 1, 2**63)
    return given


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
    if has_magic(file):
        header = _row_header(file, "the ends of documents", "iu")
        dtype, offset = np.dtype(header.dtype), header.offset
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
