"""Bare token files, as nanoGPT and OLMo write them: numbers, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from sweephand.casts import as_dtype
from sweephand.checks import check_int
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.units.tokens import (
    check_chunk_bytes,
    one_stream,
    open_tokens,
)
from sweephand.errors import DataError
from sweephand.files.find import find_files
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import Files, SourceFile

_NPY_MAGIC = b"\x93NUMPY"


class RawTokensDeserializer(Deserializer):
    """Serve files of bare numbers, cut into sequences of equal length.

    Local files are mapped into memory and read where they lie, in any order; or, where the
    source is given a window, in chunks that are held, as remote ones always are.
    One that is cut or changed meanwhile is an error, not a crash.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Each file is cut for itself: what is left at its end is a shorter
        sequence.
    dtype : dtype-like
        Of the numbers, such as "uint16"; the file does not say. In native byte order.
    sequence_length : int
        Numbers in a sequence.
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
        If the size of a file is no multiple of the dtype's, or it is a ``.npy`` file with a
        header.

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
        dtype: DTypeLike,
        sequence_length: int,
        streams: StreamsLike | None = None,
        *,
        chunk_size_in_bytes: int | None = None,
    ) -> None:
        self._chunk_bytes = check_chunk_bytes(chunk_size_in_bytes)
        self._dtype = as_dtype(dtype)
        if self._dtype.kind not in "iuf" or not self._dtype.isnative:
            raise ValueError(f"dtype must be a native integer or float type, got {dtype!r}")
        check_int("sequence_length", sequence_length, 1, 2**32)
        self._length = sequence_length
        self._streams = one_stream(streams)
        listed = find_files(files)
        self.files = listed.files
        self.leftovers = listed.leftovers
        for file in self.files:
            self._check(file)

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        item = self._dtype.itemsize
        counts = [file.size // item for file in self.files]  # of numbers
        sequences = [-(-count // self._length) for count in counts]
        starts = offsets_of(counts)
        parts = [
            np.arange(start, start + count, self._length)
            for start, count in zip(starts.tolist(), counts, strict=False)
        ]
        pieces = [(number, 0, file.size) for number, file in enumerate(self.files)]
        return open_tokens(
            self._streams,
            ShardIds([file.name for file in self.files], offsets_of(sequences).tolist()),
            self.files,
            np.array(pieces, np.uint64),
            np.concatenate([*parts, starts[-1:]]),
            self._dtype,
            chunk_size_in_bytes=self._chunk_bytes,
        )

    def _told(self) -> str:
        return brief([file.name for file in self.files], self._streams or ["tokens"])

    def _check(self, file: SourceFile) -> None:
        tail = file.size % self._dtype.itemsize
        if tail:
            raise DataError(
                f"{file.size} bytes are no whole number of {self._dtype} elements; {tail} are "
                "left over: is the dtype right, is the file whole?",
                file.path,
                file.size - tail,
            )
        is_npy = file.name.endswith(".npy") and file.size >= len(_NPY_MAGIC)
        if is_npy and file.read(0, len(_NPY_MAGIC)).tobytes() == _NPY_MAGIC:
            raise DataError(
                "this is a .npy file with a header, not bare numbers; use NpyDeserializer",
                file.path,
                0,
            )


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    if wanted.dtype is None or wanted.sequence_length is None:
        raise ValueError(
            f"{str(files[0])!r} holds bare numbers, as it seems: say of which dtype, such as "
            "uint16, and the sequence_length to cut them into (on the command line --dtype and "
            "--sequence-length)"
        )
    streams = wanted.choose(partial(one_stream, None))
    return RawTokensDeserializer(files, wanted.dtype, wanted.sequence_length, streams)


FORMAT = Format("bare numbers", lambda path: path.suffix in (".bin", ".tokens"), _open)
