"""HTK's feature files (the HTK Book, "HTK Format Parameter Files"), and lists of them (SCP).

    int32 frames | int32 period, in 100 ns | int16 bytes of a frame | int16 kind
    [compressed: float32 a[dimension] | float32 b[dimension]]
    frame | frame | ... [| uint16 checksum]

Written big-endian, or in the machine's order. A value is a float32, or, compressed, an int16
that denotes (value + b) / a; the header then counts a and b as four frames.

A line of a list says which frames of which file a sequence is:

    speaker/one.mfc        the id is the path without its suffix
    one=all.chunk[0,34]    or the key; of an archive the first and the last frame
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from os import fsdecode
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Deserializer, StreamDef, StreamDefs
from sweephand.ext.formats.htk_streams import HTKStreamDef, speech_streams
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
    Look,
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

_NO_BYTES: NDArray[np.uint8] = np.empty(0, np.uint8)
_CHUNK_FRAMES = 90_000  # 15 minutes, as CNTK has it
HTK_HEADER_BYTES = 12
_BASE = 0o77
_COMPRESSED = 0o2000
_CHECKSUM = 0o10000
_QUANTIZED = 0o40000  # with a codebook index after the values
_LAST_KIND = 11
_SCALE_FRAMES = 4  # the frames that a and b are counted as
_REFUSED = {
    0: "a waveform, not frames of features",
    5: "reflection coefficients as int16 (IREFC), which are not read",
    10: "indices of a codebook (DISCRETE), which are not read",
}
_HERE = ".../"  # as CNTK writes the folder of the list
_RANGE = re.compile(rb"(.+)\[(\d{1,10}),(\d{1,10})\]", re.DOTALL)


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
        repeated at the ends.
    root : path or URL, optional
        The folder that relative paths in lists are relative to; by default each list's. Paths
        that begin with ``.../`` are always relative to the list's.
    chunk_frames : int, optional
        Frames in a chunk, the unit that a window shuffles; by default 90,000, or 15 minutes, as
        in CNTK, and with ``context`` fewer, for a chunk of the same size.
    index
        As in `ParquetDeserializer`.

    Raises
    ------
    FileNotFoundError
        If a list, or a file in it, is absent.
    ValueError
        If a stream has no ``scp``, or names a field; when it is opened, if a key occurs twice,
        or a stream lacks an utterance of the first.
    DataError
        If a line of a list names no frames; when it is opened, if files differ in kind, period
        or dimension; beyond ``max_errors`` if a header does not fit its file or declares no
        floats, or an archive lacks the frames of an utterance.

    Notes
    -----
    All kinds of floats are served, such as MFCC, FBANK, PLP and USER, with any qualifiers but
    ``_V``; compressed ones (``_C``) are decoded, and checksums (``_K``) are not verified.
    Waveforms, IREFC and DISCRETE are refused. The byte order follows from the size of the file.

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
        self,
        streams: StreamsLike,
        *,
        root: PathLike | None = None,
        chunk_frames: int | None = None,
        index: Keep = "auto",
    ) -> None:
        if chunk_frames is not None:
            check_int("chunk_frames", chunk_frames, 1, 2**40)
        chosen = speech_streams(streams, "scp", "HTKFeatureDeserializer")
        self.definitions = StreamDefs(chosen)
        self._streams = [
            _Features(name, one, root, chunk_frames, index) for name, one in chosen.items()
        ]

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus for a source, its streams joined by the source's rule."""
        return join([one.open_for(opening) for one in self._streams], opening.missing)

    def _description(self) -> str:
        return brief([one.files[0].name for one in self._streams], self.definitions)


class _Features(RunDeserializer):
    """One stream: rows of a file are the utterances in it, in the order of the list."""

    format = "htk 2"
    in_parts = True

    def __init__(
        self,
        name: str,
        definition: HTKStreamDef,
        root: PathLike | None,
        chunk_frames: int | None,
        index: Keep,
    ) -> None:
        assert definition.scp is not None
        entries, files = read_lists(definition.scp, root)
        self._before, self._behind = definition.context or (0, 0)
        beside = 1 + self._before + self._behind
        self._chunk_frames = chunk_frames or max(1, _CHUNK_FRAMES // beside)
        self._dimension = definition.sample_shape
        keys, paths, firsts, lengths = zip(*entries, strict=True)
        known = {path: number for number, path in enumerate(dict.fromkeys(paths))}
        numbers = np.array([known[path] for path in paths])
        row_entries = np.argsort(numbers, kind="stable")
        if not np.array_equal(row_entries, np.arange(len(row_entries))):
            self.order = np.argsort(row_entries).astype(np.int64)
        self._firsts = np.array(firsts, np.int64)[row_entries]
        self._lengths = np.array(lengths, np.int64)[row_entries]
        self._starts = offsets_of(np.bincount(numbers, minlength=len(known)))
        super().__init__(
            files, StreamDefs({name: definition.plain()}), index=index, ids=list(keys)
        )
        self._name = name
        self._headers: dict[str, tuple[HtkHeader, NDArray[np.uint8]]] = {}
        self._numbers = {file.path: number for number, file in enumerate(self.files)}
        ranges = [self._starts, self._firsts, self._lengths]
        names = "\0".join(file.path for file in self.files).encode(errors="surrogateescape")
        content = b"".join([names, *(one.astype("<i8").tobytes() for one in ranges)])
        self.options = {
            "ranges": hashlib.sha256(content).hexdigest(),
            "context": [self._before, self._behind],
            "dimension": self._dimension,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that open it in another process, the same before and after."""
        return {**super().__getstate__(), "_headers": {}}

    def guess_streams(self) -> StreamDefs:
        """Return the one stream that there is."""
        return StreamDefs({self._name: StreamDef()})

    def chunk_bytes(self) -> int:
        """Return the bytes of the frames of a chunk."""
        ((width,),) = (kind.shape for kind in self.kinds.values())
        return self._chunk_frames * width * 4

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Read the header of a file, and hold the ranges of frames against it."""
        firsts, lengths = self._ranges(file)
        borders = np.arange(len(firsts) + 1)
        try:
            header = _read_header(file)
        except DataError as error:
            nothing = {self._name: np.zeros(len(firsts), np.int64)}
            return KnownRows(borders, lengths=nothing, faults=[(error, range(len(firsts)))])
        if self._dimension not in (None, (header.dimension,)):
            raise DataError(
                f"a frame has {header.dimension} values, and the stream's shape is "
                f"{self._dimension}: declare shape={header.dimension}, that of what is stored, "
                "and frames beside it by context=",
                file.path,
                stream=self._name,
            )
        lengths = _whole(lengths, firsts, header.num_frames)
        faults = []
        for row in np.flatnonzero(firsts + lengths > header.num_frames).tolist():
            last = firsts[row] + lengths[row] - 1
            frames = f"the frames [{firsts[row]},{last}] of the list are not among the "
            reason = f"{frames}{header.num_frames} here"
            lost = DataError(reason, file.path, stream=self._name, sequence=row)
            faults.append((lost, [row]))
            lengths[row] = 0
        width = self._width(header)
        return KnownRows(
            borders,
            lengths * width * 4,
            {self._name: SampleType("float32", (width,), is_ragged=True)},
            {self._name: lengths},
            faults=faults,
            facts={"kind": header.kind, "period": header.period},
        )

    def read_rows(self, run: RowRun) -> Columns:
        """Read utterances, adjacent ones with a single read."""
        file = run.file
        header, scale = self._header(file)
        firsts, lengths = (one[run.begin : run.end] for one in self._ranges(file))
        lengths = _whole(lengths, firsts, header.num_frames)
        lengths[firsts + lengths > header.num_frames] = 0  # known to be damaged
        size = header.frame_bytes
        parts = [
            file.fetch(header.begin + first * size, count * size)
            for first, count in _runs(firsts, lengths)
        ]
        content = parts[0] if len(parts) == 1 else np.concatenate([_NO_BYTES, *parts])
        values = header.decode(content, scale)
        width = self._width(header)
        if width > header.dimension:
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
        known: tuple[int, int] | None = None
        for file, facts in zip(index.files, index.facts, strict=True):
            if "kind" in (header := facts["format"]):
                found = header["kind"], header["period"]
                known = known or found
                if found != known:
                    raise DataError(
                        f"the file is of the kind {found[0]:o} (octal) with a frame in "
                        f"{found[1]} * 100 ns, {index.files[0].path} of {known[0]:o} with one "
                        f"in {known[1]}; all files of a stream must agree",
                        file.path,
                    )
        return index

    def _header(self, file: SourceFile) -> tuple[HtkHeader, NDArray[np.uint8]]:
        """Return the header of a file, and the scale of compressed values; read once."""
        known = self._headers.get(file.path)
        if known is None:
            header = _read_header(file)
            size = 8 * header.dimension if header.is_compressed else 0
            known = header, file.fetch(HTK_HEADER_BYTES, size).copy()
            self._headers[file.path] = known
        return known

    def _width(self, header: HtkHeader) -> int:
        return header.dimension * (1 + self._before + self._behind)

    def _ranges(self, file: SourceFile) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first frame of each utterance in a file, and how many it has."""
        number = self._numbers[file.path]
        rows = slice(*self._starts[number : number + 2].tolist())
        return self._firsts[rows], self._lengths[rows]


def _whole(
    lengths: NDArray[np.int64], firsts: NDArray[np.int64], num_frames: int
) -> NDArray[np.int64]:
    return np.where(lengths < 0, num_frames - firsts, lengths)


def _runs(firsts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return runs of frames: each where it begins, and how many it has."""
    runs: list[tuple[int, int]] = []
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        if runs and sum(runs[-1]) == first:
            runs[-1] = runs[-1][0], runs[-1][1] + length
        elif length:
            runs.append((first, length))
    return runs


def _read_header(file: SourceFile) -> HtkHeader:
    head = file.head(HTK_HEADER_BYTES)
    try:
        return parse_header(head, file.size)
    except DataError as error:
        raise error.within(file=file.path) from None


def _is_list(path: AnyPath) -> bool:
    return path.suffix.lower() == ".scp"


def is_htk(look: Look) -> bool:
    """Return True if a file is a list, by its name, or holds features, by its header."""
    head = look.head[:HTK_HEADER_BYTES]
    if look.file is None or _is_list(look.path):
        return bool(head)
    if b"\0" not in head or len(head) < HTK_HEADER_BYTES:
        return False
    try:
        header = parse_header(head, look.file.size)
    except DataError:
        return False
    return header.num_frames > 0 and header.period > 0


def open_features(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of feature files, or of lists of them."""
    definitions = wanted.choose(lambda: StreamDefs(features=StreamDef()))
    lists = [file for file in files if _is_list(file)]  # which select from the remaining files
    streams = {
        name: HTKStreamDef.of(one, scp=tuple(lists or files))
        for name, one in definitions.items()
    }
    return HTKFeatureDeserializer(StreamDefs(streams), index=wanted.index)


@dataclass(frozen=True)
class HtkHeader:
    """What the first bytes of a file state."""

    order: str  # of the bytes of a number
    # the period in 100 ns
    num_frames: int
    period: int
    frame_bytes: int
    kind: int

    @property
    def is_compressed(self) -> bool:
        """True if values are int16."""
        return bool(self.kind & _COMPRESSED)

    @property
    def dimension(self) -> int:
        """Values in a frame."""
        return self.frame_bytes // (2 if self.is_compressed else 4)

    @property
    def begin(self) -> int:
        """Where the first frame begins."""
        return HTK_HEADER_BYTES + (8 * self.dimension if self.is_compressed else 0)

    def decode(
        self, frames: NDArray[np.uint8], scale: NDArray[np.uint8]
    ) -> NDArray[np.float32]:
        """Return stored frames, shape (frames, dimension); `scale` is a and b as stored."""
        shape = -1, self.dimension
        if not self.is_compressed:
            return frames.view(f"{self.order}f4").astype(np.float32).reshape(shape)
        a, b = scale.view(f"{self.order}f4").astype(np.float32).reshape(2, -1)
        values = frames.view(f"{self.order}i2").astype(np.float32).reshape(shape)
        with np.errstate(all="ignore"):  # a scale of zero, too, is the file's
            values += b
            values /= a
        return values


def parse_header(head: bytes, file_bytes: int) -> HtkHeader:
    """Return the header of a file of `file_bytes`, whose size also decides its byte order."""
    if len(head) < HTK_HEADER_BYTES:
        raise DataError("the file ends within its header of 12 bytes", offset=0)
    sizes = []
    for order in "><":
        frames, period, frame_bytes, kind = struct.unpack_from(f"{order}IIHH", head)
        size = HTK_HEADER_BYTES + frames * frame_bytes + (2 if kind & _CHECKSUM else 0)
        if size == file_bytes:
            break
        sizes.append(f"{frames} frames of {frame_bytes} bytes, which are {size} with it")
    else:
        raise DataError(f"the header tells of {sizes[0]}; the file has {file_bytes}", offset=0)
    if reason := _refusal(kind, frame_bytes):
        raise DataError(f"the file holds {reason}", offset=10)
    if kind & _COMPRESSED:
        if frames < _SCALE_FRAMES:
            raise DataError("the file ends within the scale of its compressed values", offset=0)
        frames -= _SCALE_FRAMES
    return HtkHeader(order, frames, period, frame_bytes, kind)


def _refusal(kind: int, frame_bytes: int) -> str:
    """Return the reason to refuse a kind, as its values are no floats; "" if it is served."""
    base = kind & _BASE
    if base in _REFUSED:
        return _REFUSED[base]
    if base > _LAST_KIND:
        return "frames of a kind that HTK does not define"
    if kind & _QUANTIZED:
        return "indices of a codebook after the values (_V), which are not read"
    if frame_bytes == 0:
        return "frames without values"
    if frame_bytes % (2 if kind & _COMPRESSED else 4):
        return "frames that are no whole number of values"
    return ""


class Entry(NamedTuple):
    """A sequence, and the frames of a file that it is."""

    key: str
    path: str
    first: int = 0
    length: int = -1  # all that the file has


def read_lists(scp: Files, root: PathLike | None) -> tuple[list[Entry], FileList]:
    """Return the sequences of lists in their order, and the files of frames, each once.

    A feature file among the lists is a single sequence. Relative paths are those in the folder
    `root`, by default in that of each list.
    """
    given = find_files(scp, as_given=True).files
    entries: list[Entry] = []
    lists: list[str] = []
    for file in given:
        if is_features(file):
            entries.append(Entry(without_suffix(file.name), file.spec))
        else:
            entries += _read_list(file, root)
            lists.append(file.path)
    if not entries:
        raise empty_corpus([file.path for file in given])
    paths = list(dict.fromkeys(one.path for one in entries))
    with guarded(", ".join(lists)):
        return entries, find_files(paths, as_given=True)


def is_features(file: SourceFile) -> bool:
    """Return True if a file holds features, whose header always has zeros, and is no list.

    An empty one is damaged, unless it has the name of a list.
    """
    if not file.size:
        return not file.name.lower().endswith(".scp")
    return b"\0" in file.head(HTK_HEADER_BYTES)


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
