"""HTK's feature files (the HTK Book, "HTK Format Parameter Files"), and lists of them (SCP).

    int32 frames | int32 period, in 100 ns | int16 bytes of a frame | int16 kind
    frame | frame | ... [| uint16 checksum]

Written big-endian, or in the machine's order. A value is a float32.

A line of a list says which frames of which file a sequence is:

    speaker/one.mfc        the id is the path without its suffix
    one=all.chunk[0,34]    or the key; of an archive the first and the last frame
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from io import BytesIO
from os import fsdecode
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Deserializer, StreamDef, StreamDefs
from sweephand.extend import (
    AnyPath,
    ColumnData,
    Columns,
    Corpus,
    DerivedDeserializer,
    FileList,
    Files,
    Index,
    Keep,
    KnownRows,
    OpenContext,
    PathLike,
    RowRun,
    RunDeserializer,
    SampleType,
    SelfDescribed,
    SourceFile,
    StreamsLike,
    Wanted,
    brief,
    check_int,
    empty_corpus,
    find_files,
    guarded,
    is_url,
    join,
    offsets_of,
    printable,
)

_CHUNK_FRAMES = 90_000  # 15 minutes, as CNTK has it
_HEADER_BYTES = 12
_FLOATS = (1, 2, 3, 4, 6, 7, 8, 9, 11)  # others are waveforms, int16 and codebook indices
_BASE = 0o77
_NO_FLOATS = 0o42000  # compressed, or with a codebook index after the values
_CHECKSUM = 0o10000
_HERE = ".../"  # as CNTK writes the folder of the list
_RANGE = re.compile(rb"(.+)\[(\d{1,10}),(\d{1,10})\]", re.DOTALL)


@dataclass(frozen=True, init=False, repr=False)
class HTKStreamDef(StreamDef):
    """Definition of a stream, also of HTK's files: ``sweephand.io.StreamDef``.

    Parameters
    ----------
    field, shape, is_sparse
        As `sweephand.StreamDef` has them.
    scp, mlf : path, or sequence of them, optional
        HTK's lists of feature files, and its master label files: see `HTKFeatureDeserializer`
        and `HTKMLFDeserializer`.
    context : tuple of int, optional
        The frames before and after a frame of HTK's features that are joined to it in a sample.
    **options
        All others that `sweephand.StreamDef` has.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.io.StreamDef(scp="train.scp", context=(5, 5)).context
    (5, 5)
    """

    scp: PathLike | Sequence[PathLike] | None = None
    mlf: PathLike | Sequence[PathLike] | None = None
    context: tuple[int, int] | None = None

    def __init__(
        self,
        field: str | None = None,
        shape: int | Sequence[int] | None = None,
        is_sparse: bool = False,
        *,
        scp: PathLike | Sequence[PathLike] | None = None,
        mlf: PathLike | Sequence[PathLike] | None = None,
        context: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(field, shape, is_sparse, **options)
        for name, paths in (("scp", scp), ("mlf", mlf)):
            if not (paths is None or isinstance(paths, str | os.PathLike)):
                paths = tuple(paths)
            object.__setattr__(self, name, paths)
        if context is not None:
            before, after = context
            check_int("every part of context", before, 0, 2**16)
            check_int("every part of context", after, 0, 2**16)
            context = before, after
        object.__setattr__(self, "context", context)

    @classmethod
    def of(cls, definition: StreamDef, **lists: Any) -> HTKStreamDef:
        """Return the definition of a stream, with its lists of files."""
        given = {one.name: getattr(definition, one.name) for one in fields(StreamDef)}
        return cls(**given, **lists)

    @property
    def only_for(self) -> str:
        """Options that one deserializer alone takes, and which; "": there are none."""
        if self.mlf is not None:
            return "mlf= is for HTKMLFDeserializer"
        if self.scp is not None or self.context is not None:
            return "scp= and context= are for HTKFeatureDeserializer"
        return ""


def speech_streams(streams: StreamsLike, lists: str) -> dict[str, HTKStreamDef]:
    """Return the definitions of streams, each with the lists of its files."""
    how = f"give StreamDefs(NAME=sh.io.StreamDef({lists}=...))"
    if not isinstance(streams, Mapping) or not streams:
        raise TypeError(f"the streams of HTK's files have no names there: {how}")
    chosen = {}
    for name, one in StreamDefs(streams).items():
        if not isinstance(one, HTKStreamDef) or getattr(one, lists) is None:
            raise ValueError(f"stream {name!r} needs {lists}=, its files: {how}")
        if one.field is not None:
            raise ValueError(f"stream {name!r}: HTK's files have no fields; leave field= out")
        chosen[name] = one
    return chosen


class HTKFeatureDeserializer(DerivedDeserializer, SelfDescribed):
    r"""Serve frames of features from HTK's files, each utterance a sequence.

    Of each stream ``scp`` is a list whose lines are ``PATH``, ``KEY=PATH``, or, for frames of
    an archive, ``KEY=PATH[FIRST,LAST]``. The id of a sequence, by which labels are joined to
    it, is the key, or path, without its suffix. Several streams are joined by it; the first one
    defines the sequences.

    Parameters
    ----------
    streams : StreamDefs or dict of StreamDef
        Stream name to `StreamDef` with ``scp``, a path or several; ``shape``, the number of
        values in a stored frame, which is checked; and ``context``, the numbers of frames
        before and after to add to each. A sample is float32 of shape
        (values * (1 + before + after),) in the order of time; the first and the last frame are
        repeated at the ends. A chunk is of 15 minutes, as in CNTK, and fewer with ``context``.
    root : path or URL, optional
        The folder that relative paths in lists are relative to; by default each list's. Paths
        that begin with ``.../`` are always relative to the list's.
    index
        As in `ParquetDeserializer`.

    Raises
    ------
    ValueError
        If a stream has no ``scp``, or names a field; when it is opened, if a key occurs twice,
        or a stream lacks an utterance of the first.
    DataError
        If a line of a list names no frames; when it is opened, if files differ in kind, period
        or dimension; beyond ``max_errors`` if a header does not fit its file or declares no
        floats, or an archive lacks the frames of an utterance.

    Notes
    -----
    All kinds of floats are served, such as MFCC, FBANK, PLP and USER, without compression
    (``_C``) and codebooks (``_V``); checksums (``_K``) are not verified. The byte order follows
    from the size of the file.

    References
    ----------
    S. Young et al., The HTK Book, "HTK Format Parameter Files".

    Examples
    --------
    >>> import numpy as np, sweephand as sh, struct, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> frames = np.arange(10, dtype=">f4")  # five frames of two values
    >>> header = struct.pack(">iihh", 5, 100_000, 8, 9)
    >>> _ = (folder / "all.chunk").write_bytes(header + frames.tobytes())
    >>> _ = (folder / "train.scp").write_text("a=all.chunk[0,1]\nb=all.chunk[2,4]\n")
    >>> features = sh.io.StreamDef(scp=folder / "train.scp", shape=2, context=(1, 0))
    >>> corpus = sh.HTKFeatureDeserializer(sh.StreamDefs(features=features))
    >>> sh.MinibatchSource(corpus, randomize=False).next_minibatch(2)["features"].values
    array([[0., 1., 0., 1.],
           [0., 1., 2., 3.]], dtype=float32)
    """

    def __init__(
        self, streams: StreamsLike, *, root: PathLike | None = None, index: Keep = "auto"
    ) -> None:
        chosen = speech_streams(streams, "scp")
        self.definitions = StreamDefs(chosen)
        self._streams = [_Features(name, one, root, index) for name, one in chosen.items()]

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus for a source, its streams joined by the source's rule."""
        return join([one.open_for(opening) for one in self._streams], opening.missing)

    def _description(self) -> str:
        return brief([one.files[0].name for one in self._streams], self.definitions)


class _Features(RunDeserializer):
    """One stream: rows of a file are the utterances in it, in the order of the list."""

    format = "htk 3"
    in_parts = True

    def __init__(
        self, name: str, definition: HTKStreamDef, root: PathLike | None, index: Keep
    ) -> None:
        assert definition.scp is not None
        self._name = name
        self._before, self._behind = definition.context or (0, 0)
        self._dimension = definition.sample_shape
        entries, files = read_lists(definition.scp, root)
        keys, paths, firsts, lengths = zip(*entries, strict=True)
        known = {path: number for number, path in enumerate(dict.fromkeys(paths))}
        numbers = np.array([known[path] for path in paths])
        row_entries = np.argsort(numbers, kind="stable")
        if not np.array_equal(row_entries, np.arange(len(row_entries))):
            self.order = np.argsort(row_entries).astype(np.int64)
        self._firsts = np.array(firsts, np.int64)[row_entries]
        self._lengths = np.array(lengths, np.int64)[row_entries]
        self._starts = offsets_of(np.bincount(numbers, minlength=len(known)))
        streams = {name: replace(definition, shape=None, scp=None, context=None)}
        super().__init__(files, streams, index=index, ids=list(keys))
        self._numbers = {file.path: number for number, file in enumerate(self.files)}
        ranges = [self._starts, self._firsts, self._lengths]
        names = "\0".join(file.path for file in self.files).encode(errors="surrogateescape")
        content = b"".join([names, *(one.astype("<i8").tobytes() for one in ranges)])
        self.options = {
            "ranges": hashlib.sha256(content).hexdigest(),
            "context": [self._before, self._behind],
            "dimension": self._dimension,
        }

    def guess_streams(self) -> StreamDefs:
        """Return the one stream that there is."""
        return StreamDefs({self._name: StreamDef()})

    @property
    def _joined(self) -> int:
        """Frames in a sample."""
        return 1 + self._before + self._behind

    def chunk_bytes(self) -> int:
        """Return the bytes of the frames of a chunk."""
        ((width,),) = (kind.shape for kind in self.kinds.values())
        return max(1, _CHUNK_FRAMES // self._joined) * width * 4

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Read the header of a file, and hold the ranges of frames against it."""
        try:
            header = parse_header(file)
        except DataError as error:
            number = len(self._ranges(file, 0)[0])
            nothing = {self._name: np.zeros(number, np.int64)}
            return KnownRows(
                np.arange(number + 1), lengths=nothing, faults=[(error, range(number))]
            )
        if self._dimension not in (None, (header.dimension,)):
            reason = f"declare shape={header.dimension}, the values of a frame without context"
            raise DataError(reason, file.path, stream=self._name)
        firsts, lengths = self._ranges(file, header.num_frames)
        faults = []
        for row in np.flatnonzero(firsts + lengths > header.num_frames).tolist():
            reason = (
                f"the frames [{firsts[row]},{firsts[row] + lengths[row] - 1}] of the list are "
                f"not among the {header.num_frames} here"
            )
            lost = DataError(reason, file.path, stream=self._name, sequence=row)
            faults.append((lost, [row]))
            lengths[row] = 0
        width = header.dimension * self._joined
        return KnownRows(
            np.arange(len(firsts) + 1),
            lengths * width * 4,
            {self._name: SampleType("float32", (width,), is_ragged=True)},
            {self._name: lengths},
            faults=faults,
            facts=header._asdict(),
        )

    def read_rows(self, run: RowRun) -> Columns:
        """Read utterances, adjacent ones with a single read."""
        header = HtkHeader(**run.facts)
        firsts, lengths = self._ranges(run.file, header.num_frames)
        firsts, lengths = firsts[run.begin : run.end], lengths[run.begin : run.end]
        lengths[firsts + lengths > header.num_frames] = 0  # known to be damaged
        size = 4 * header.dimension
        parts = [
            run.file.fetch(_HEADER_BYTES + first * size, count * size)
            for first, count in _runs(firsts, lengths)
        ]
        content = np.concatenate([np.empty(0, np.uint8), *parts])
        values = content.view(f"{header.order}f4").astype(np.float32)
        values = values.reshape(-1, header.dimension)
        width = header.dimension * self._joined
        if self._joined > 1:
            values = values.take(self._beside(lengths), axis=0).reshape(len(values), width)
        column = ColumnData(values, values.dtype, (width,), len(values), offsets_of(lengths))
        return [column], {}

    def _beside(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the frames around each, within its sequence."""
        ends = np.cumsum(lengths)
        first, last = (np.repeat(one, lengths)[:, None] for one in (ends - lengths, ends - 1))
        rows = np.arange(len(first))[:, None] + np.arange(-self._before, self._behind + 1)
        return rows.clip(first, last)

    def load_index(self) -> Index:
        """Return the index of the files, which must have one kind and period."""
        index = super().load_index()
        known = None
        for file, facts in zip(index.files, index.facts, strict=True):
            if header := facts["format"]:
                found = header["kind"], header["period"]
                known = known or found
                if found != known:
                    reason = (
                        f"the file has the kind and period {found}, files before it {known}; "
                        "all files of a stream must agree"
                    )
                    raise DataError(reason, file.path)
        return index

    def _ranges(
        self, file: SourceFile, num_frames: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first frame of each utterance in a file, and how many it has."""
        number = self._numbers[file.path]
        rows = slice(*self._starts[number : number + 2].tolist())
        firsts, lengths = self._firsts[rows], self._lengths[rows]
        return firsts, np.where(lengths < 0, num_frames - firsts, lengths)


def _runs(firsts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return runs of frames: each where it begins, and how many it has."""
    runs: list[tuple[int, int]] = []
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        if runs and sum(runs[-1]) == first:
            runs[-1] = runs[-1][0], runs[-1][1] + length
        elif length:
            runs.append((first, length))
    return runs


class HtkHeader(NamedTuple):
    """The first bytes of a file."""

    order: str  # of the bytes of a number
    num_frames: int
    period: int  # in 100 ns
    dimension: int  # values in a frame
    kind: int


def parse_header(file: SourceFile) -> HtkHeader:
    """Return the header of a file, whose size also decides its byte order."""
    head = file.head(_HEADER_BYTES)
    if len(head) < _HEADER_BYTES:
        raise DataError("the file ends within its header of 12 bytes", file.path, 0)
    sizes = []
    for order in "><":
        frames, period, frame_bytes, kind = struct.unpack_from(f"{order}IIHH", head)
        size = _HEADER_BYTES + frames * frame_bytes + (2 if kind & _CHECKSUM else 0)
        if size == file.size:
            break
        sizes.append(f"{frames} frames of {frame_bytes} bytes, which are {size} with it")
    else:
        reason = f"the header tells of {sizes[0]}; the file has {file.size}"
        raise DataError(reason, file.path, 0)
    if kind & _BASE not in _FLOATS or kind & _NO_FLOATS or not frame_bytes or frame_bytes % 4:
        raise DataError(
            f"frames of {frame_bytes} bytes of the kind {kind:o} (octal) are not float32: let "
            "HCopy write features that are, without _C and _V",
            file.path,
            10,
        )
    return HtkHeader(order, frames, period, frame_bytes // 4, kind)


class Entry(NamedTuple):
    """A sequence, and the frames of a file that it is."""

    key: str
    path: str
    first: int = 0
    length: int = -1  # all that the file has


def read_lists(scp: Files, root: PathLike | None) -> tuple[list[Entry], FileList]:
    """Return the sequences of lists in their order, and the files of frames, each once.

    Relative paths are those in the folder `root`, by default in that of each list.
    """
    lists = find_files(scp, as_given=True).files
    entries = [entry for file in lists for entry in _read_list(file, root)]
    names = [file.path for file in lists]
    if not entries:
        raise empty_corpus(names)
    with guarded(", ".join(names)):
        paths = list(dict.fromkeys(one.path for one in entries))
        return entries, find_files(paths, as_given=True)


def without_suffix(path: str) -> str:
    """Return a path without the suffix of its last part."""
    stem, dot, suffix = path.rpartition(".")
    return stem if dot and "/" not in suffix and stem.rpartition("/")[2] else path


def quoted(content: bytes) -> str:
    """Return the beginning of a line for an error."""
    return f'"{printable(fsdecode(content[:80]))}"'


def _read_list(file: SourceFile, root: PathLike | None) -> Iterator[Entry]:
    folder, slash, _ = file.spec.rpartition("/")
    folder = folder or slash or "."
    beside = folder if root is None else os.fspath(root)
    joined = cache(lambda path: _join(fsdecode(path), folder, beside))
    offset = 0
    for number, content in enumerate(BytesIO(file.fetch(0, file.size).data), 1):
        if line := content.strip():
            key, path, first, length = _parts(line)
            if not (key and path) or b"\0" in path:
                reason = (
                    f"the line {quoted(line)} names no frames: a line is PATH, or "
                    "KEY=PATH[FIRST,LAST]"
                )
                raise DataError(reason, file.path, offset, line=number)
            yield Entry(without_suffix(fsdecode(key)), joined(path), first, length)
        offset += len(content)


def _parts(line: bytes) -> tuple[bytes, bytes, int, int]:
    """Return key, path, first frame and their number; no path if the range is none."""
    key, equals, path = map(bytes.strip, line.partition(b"="))
    if not equals:
        return line, line, 0, -1
    if not path.endswith(b"]"):
        return key, path, 0, -1
    found = _RANGE.fullmatch(path)
    first, last = (int(found[2]), int(found[3])) if found else (1, 0)
    return key, found[1] if found and first <= last < 2**32 else b"", first, last - first + 1


def _join(path: str, folder: str, root: str) -> str:
    if path.startswith(_HERE):
        path, root = path.removeprefix(_HERE), folder
    if is_url(path) or Path(path).is_absolute():
        return path
    if is_url(root):
        return f"{root.rstrip('/')}/{path}"
    return os.path.normpath(os.path.join(root, path))  # noqa: PTH118 - text stays text


def open_features(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of lists of feature files."""
    definitions = wanted.choose(lambda: StreamDefs(features=StreamDef()))
    streams = {n: HTKStreamDef.of(one, scp=tuple(files)) for n, one in definitions.items()}
    return HTKFeatureDeserializer(StreamDefs(streams), index=wanted.index)
