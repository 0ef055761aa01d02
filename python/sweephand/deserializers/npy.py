"""``.npy`` files as a corpus, read in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.chunks import default_chunk_bytes, sequences_per_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.describe import delivered_bytes, describe_stream
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.wanted_streams import StreamsLike, define_streams, only_chosen
from sweephand.deserializers.array import check_same_sequences
from sweephand.deserializers.data_in_memory import check_dict
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.formats import Wanted
from sweephand.deserializers.npy_columns import (
    Column,
    are_sequences,
    open_column,
    warn_of_tokens,
)
from sweephand.deserializers.raw_tokens import open_tokens_of
from sweephand.deserializers.units.file_columns import FileColumn, read_columns
from sweephand.errors import printable
from sweephand.files.access import access_to
from sweephand.files.find import list_paths, paths_like
from sweephand.files.paths import AnyPath, files_at
from sweephand.files.source_file import Files

_OFFSETS = "_offsets"
_MANY = 8  # streams that may be sequences instead

Member = TypeVar("Member")


class NpyDeserializer(Deserializer):
    """Serve ``.npy`` files, reading each sequence in place.

    A local file is mapped into memory, with a guard: a file that is cut or changed meanwhile is
    an error, not a crash. With a window of the source, and from stores always, whole chunks are
    read and held.

    Parameters
    ----------
    streams : dict, path, or list of paths
        Stream name to the path or URL of a ``.npy`` file of shape (sequences, *shape), or to
        ``(values path, offsets path)``: consecutive samples, shape (samples, *shape), and the
        begin of each sequence, shape (sequences + 1,), which is kept in memory, or mapped too
        if it is local, of int64, and more than a million; or to a
        list of paths, each of a file that is one sequence, of shape (samples, *shape). A single
        path gives the stream its name, and ``NAME_offsets.npy`` beside it holds its offsets; in
        a folder each file is a stream, or, if they differ in length, a sequence of ``x``.
        Rows of tokens are for `RawTokensDeserializer`.
    definitions : StreamDefs, dict of StreamDef or list of str, optional
        As in `ArrayDeserializer`.
    chunk_size : int, optional
        Sequences in a chunk, the unit that a window shuffles; by default as many as fill about
        8 MiB, or 1 MiB in a store.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If a file is not a ``.npy`` file, is cut short or too long, or holds anything but
        numbers and texts; pickled objects are never loaded.
    ValueError
        If streams differ in their number of sequences, or offsets do not fit.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> np.save("tokens.npy", np.arange(5))
    >>> np.save("offsets.npy", [0, 3, 5])
    >>> corpus = sh.NpyDeserializer({"tokens": ("tokens.npy", "offsets.npy")})
    >>> minibatch = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1).next_minibatch(5)
    >>> minibatch["tokens"].as_sequences()
    [array([0, 1, 2]), array([3, 4])]
    """

    def __init__(
        self,
        streams: Mapping[str, Column] | Files,
        definitions: StreamsLike | None = None,
        chunk_size: int | None = None,
    ) -> None:
        if not isinstance(streams, Mapping):
            found = [path for one in list_paths(streams) for path in paths_like(one)]
            streams = streams_at(found)
        check_dict("NpyDeserializer takes a dict from stream name to path", streams)
        self._arguments = (streams, definitions, chunk_size)
        if chunk_size is not None:
            check_int("chunk_size", chunk_size, 1, 2**63)
        self._chunk_size = chunk_size
        defined = define_streams(definitions, streams)
        self._columns: dict[str, FileColumn] = {}
        for stream, definition in defined.items():
            field = definition.field or stream
            if field not in streams:
                raise ValueError(
                    f"no file for stream {field!r}, there are: {', '.join(streams)}"
                )
            self._columns[stream] = open_column(stream, streams[field], definition)
        columns = {stream: one.column for stream, one in self._columns.items()}
        self._infos = [
            describe_stream(stream, columns[stream], definition)
            for stream, definition in defined.items()
        ]
        check_same_sequences(columns, _unlike(columns))
        self._num_sequences = next(iter(columns.values())).num_sequences
        if self._num_sequences == 0:
            raise ValueError("the corpus is empty: no sequences")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the paths, which another process opens again."""
        return type(self), self._arguments

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        columns = [one.column for one in self._columns.values()]
        files = [file for one in self._columns.values() for file in one.files]
        names = [file.name for file in files]
        num_sequences = self._num_sequences
        first = next(iter(self._columns.values()))
        bounds = list(range(num_sequences + 1)) if first.is_of_several else [0, num_sequences]
        num_bytes = sum(column.num_samples * column.sample_bytes for column in columns)
        delivered = sum(map(delivered_bytes, columns, self._infos))
        num_samples = max(column.num_samples for column in columns)
        is_local = access_to(files).is_local
        chunk_size = self._chunk_size or sequences_per_chunk(
            num_sequences, num_bytes, default_chunk_bytes(is_local=is_local)
        )
        reader = read_columns(
            list(self._columns.values()),
            self._infos,
            _core.index.Starts.even(num_sequences, chunk_size),
            delivered / max(1, num_samples),
        )
        ids: SequenceIds = ShardIds(names[: len(bounds) - 1], bounds)
        return StoredCorpus([reader], ids, names, files=files)

    def warn_of_tokens(self) -> None:
        """Warn if all that there is seems to be tokens without bounds."""
        first, *others = self._columns.values()
        if not others and first.column.sample_offsets is None:
            shape = first.column.num_samples, *first.column.shape
            warn_of_tokens(first.files[0].path, shape, first.column.dtype)

    def _description(self) -> str:
        names = [file.name for one in self._columns.values() for file in one.files]
        return brief(names, self._infos, self._num_sequences)


def _unlike(columns: Mapping[str, ColumnData]) -> str:
    """Return why files of unequal lengths are streams, and not a sequence each."""
    (first, one), *others = columns.items()
    if len(others) < _MANY:
        return ""
    for name, other in others:
        if (other.dtype, other.shape) != (one.dtype, one.shape):
            return (
                "; files that are alike but for their lengths would be a sequence each, but "
                f"samples of {first!r} are {one.dtype} of shape {one.shape}, of {name!r} "
                f"{other.dtype} of shape {other.shape}"
            )
    return "; if each file is a sequence, write NpyDeserializer({'x': [paths]})"


def open_arrays(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of arrays, or of tokens cut into documents."""
    if wanted.are_documents:
        found = [file for path in files for file in files_at(path, "*.npy")]
        return open_tokens_of(found, wanted)
    streams = streams_at(files)
    definitions = wanted.definitions(streams)
    made = NpyDeserializer(only_chosen(streams, definitions), definitions, wanted.chunk_size)
    made.warn_of_tokens()
    return made


def streams_at(paths: Sequence[AnyPath]) -> dict[str, Column]:
    """Return the streams of files and folders, by the names of the files."""
    files = [file for path in paths for file in files_at(path, "*.npy")]
    beside = [file.with_name(f"{file.stem}{_OFFSETS}.npy") for file in files]
    files = list(dict.fromkeys([*files, *(file for file in beside if file.exists())]))
    # A stream's name is text, which the name of a file need not be.
    members = {printable(file.stem): file for file in files}
    if len(members) < len(files):
        raise ValueError("two files would be one stream: give a dict from stream name to path")
    streams = with_offsets(members)
    if len(streams) == len(files) and are_sequences(files):
        return {"x": [*files]}
    return dict(streams)


def with_offsets(members: dict[str, Member]) -> dict[str, Member | tuple[Member, Member]]:
    """Join every member with the member that holds its offsets, if any."""
    return {
        name: (member, members[name + _OFFSETS]) if name + _OFFSETS in members else member
        for name, member in members.items()
        if not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) in members)
    }
