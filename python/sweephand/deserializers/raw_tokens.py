"""Token files, as nanoGPT, OLMo and datatrove write them: bare numbers, or ``.npy`` arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.corpus.casts import as_dtype
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.formats import Wanted
from sweephand.deserializers.npy_header import NpyHeader, header_if_npy
from sweephand.deserializers.token_bounds import (
    check_cut,
    check_ends_of,
    find_ends,
    read_ends,
    type_of_tokens,
)
from sweephand.deserializers.units.tokens import (
    check_chunk_bytes,
    one_stream,
    open_tokens,
)
from sweephand.errors import DataError
from sweephand.files.find import find_files
from sweephand.files.index_file import Index
from sweephand.files.index_places import Keep, check_keep
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import Files, SourceFile


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
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
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
        headers = [_header_of(file) for file in self.files]
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


def _header_of(file: SourceFile) -> NpyHeader | None:
    """Return the header of a ``.npy`` file; None if the numbers are bare, as OLMo's are."""
    header = header_if_npy(file) if file.name.endswith(".npy") else None
    if header is None:
        return None
    if len(header.shape) != 1 or header.dtype.kind not in "iuf" or not header.dtype.isnative:
        raise DataError(
            f"tokens are one row of numbers of native byte order, not {header.dtype} of shape "
            f"{header.shape}",
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
