"""HTK's master label files (MLF): the classes of the frames of every utterance, run by run.

    #!MLF!#
    "*/an4/cen5-fjam-b.lab"
    0 1200000 sil_s2 -812.1 sil       begin, end in 100 ns; state; what follows is passed over
    1200000 1500000 ah_s2
    .

CNTK also reads begin and end in frames: they are taken as such in an utterance no run of which
is as long as a frame in 100 ns. Without names of states a run's class is its fourth word.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from os import fsdecode, fsencode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Deserializer, StreamDef, StreamDefs
from sweephand.ext.formats.htk import HTKStreamDef, quoted, speech_streams, without_suffix
from sweephand.extend import (
    AnyPath,
    Columns,
    GivenIds,
    Index,
    Keep,
    KnownRows,
    Ledger,
    PathLike,
    RowRun,
    RunDeserializer,
    SampleType,
    SourceFile,
    StoredCorpus,
    StreamsLike,
    Wanted,
    as_path,
    check_flag,
    check_int,
    find_shards,
    in_few_bytes,
    offsets_of,
    read_file,
)

_HEADER = b"#!MLF!#"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_FRAMES = 2**24  # of an utterance: 46 hours
_MOST_DIGITS = 20  # of 64 bits
_MOST_CLASS = 2**31 - 1
_PHONE_BEGINS = 2.0  # the mark in CNTK's criterion of connectionist temporal classification


class HTKMLFDeserializer(RunDeserializer):
    r"""Serve the labels of frames from HTK's master label files, each utterance a sequence.

    They are joined to features by the names of utterances: that of ``"*/an4/cen5.lab"`` is
    ``an4/cen5``. A line is ``BEGIN END STATE ...``, with times in 100 ns, or in frames; without
    a label mapping the fourth word is the number of the class.

    Parameters
    ----------
    label_mapping_file : path or URL, or None
        A file with the name of a state in every line; the class of a frame is the number of
        its state's line, from 0.
    streams : StreamDefs or dict of StreamDef
        One stream with ``mlf``, a path or several. Without a shape a sample is the number of
        the class, an int64; with ``shape``, the number of classes, or ``is_sparse``, it is
        sparse, as in CNTK: one float32 at the index of the class.
    phone_boundaries : bool
        Mark the first frame of every line by the value 2 in a sparse stream, as CNTK does for
        connectionist temporal classification.
    frame_period : int
        The time of a frame in 100 ns.
    index
        As in `ParquetDeserializer`.

    Raises
    ------
    ValueError
        If there are several streams, or the options do not fit each other.
    DataError
        If the label mapping has a name twice; when it is opened, if a file does not begin as an
        MLF or an utterance occurs twice; beyond ``max_errors`` if the lines of an utterance
        are damaged, do not follow one another, or name an unknown state.

    References
    ----------
    S. Young et al., The HTK Book, "Master Label Files".

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "states").write_text("sil\nah\n")
    >>> _ = (folder / "a.mlf").write_text(
    ...     '#!MLF!#\n"*/cen5.lab"\n0 200000 sil\n200000 500000 ah\n.\n')
    >>> labels = sh.StreamDefs(labels=sh.io.StreamDef(mlf=folder / "a.mlf"))
    >>> corpus = sh.HTKMLFDeserializer(folder / "states", labels)
    >>> minibatch = sh.MinibatchSource(corpus, max_sweeps=1).next_minibatch(5)
    >>> minibatch.ids, minibatch["labels"].values
    (['cen5'], array([0, 0, 1, 1, 1]))
    """

    format = "mlf 2"
    unit_bytes = 1 << 17
    in_parts = True
    _index: Index | None = None

    def __init__(
        self,
        label_mapping_file: PathLike | None,
        streams: StreamsLike,
        phone_boundaries: bool = False,
        *,
        frame_period: int = 100_000,
        index: Keep = "auto",
    ) -> None:
        chosen = speech_streams(streams, "mlf")
        if len(chosen) != 1:
            raise ValueError(f"HTKMLFDeserializer takes one stream, got {', '.join(chosen)}")
        ((self._name, definition),) = chosen.items()
        assert definition.mlf is not None
        self._states = {} if label_mapping_file is None else read_states(label_mapping_file)
        self._num_classes = self._classes_of(definition)
        self._is_sparse = bool(definition.is_sparse or definition.shape)
        self._has_boundaries = check_flag("phone_boundaries", phone_boundaries)
        if self._has_boundaries and not self._is_sparse:
            raise ValueError(
                "phone_boundaries=True marks sparse labels: give the stream's shape, the "
                "number of classes"
            )
        self._frame_period = check_int("frame_period", frame_period, 1, 2**40)
        super().__init__(
            find_shards(definition.mlf, as_given=True),
            {self._name: replace(definition, shape=None, mlf=None)},
            index=index,
        )
        self.options = {
            "states": hashlib.sha256(b"\0".join(self._states)).hexdigest(),
            "classes": self._num_classes,
            "sparse": self._is_sparse,
            "period": self._frame_period,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that open it in another process, the same before and after."""
        return {**super().__getstate__(), "_index": None}

    def guess_streams(self) -> StreamDefs:
        """Return the one stream that there is."""
        return StreamDefs({self._name: StreamDef()})

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        corpus = super().open(ledger)
        assert self._index is not None
        ends = offsets_of(self._index.arrays["key sizes"]).tolist()
        content = self._index.arrays["key bytes"].tobytes()
        names = [fsdecode(content[begin:end]) for begin, end in pairwise(ends)]
        return replace(corpus, ids=GivenIds(names), keys=lambda: names)

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Parse a file."""
        parsed = _Parser(file, self._name, self._class_of, self._frame_period)
        keys = [fsencode(key) for key in parsed.keys]
        num_runs = np.array(parsed.num_runs, np.uint32)
        frames = np.array(parsed.run_frames, np.uint32)
        lengths = np.diff(offsets_of(frames)[offsets_of(num_runs)])
        return KnownRows(
            np.arange(len(keys) + 1),
            lengths * (16 if self._is_sparse else 4),
            {self._name: self._kind} if keys else {},
            {self._name: lengths},
            faults=[(lost, [lost.args[5]]) for lost in parsed.faults],
            arrays={
                "runs": num_runs,
                "run frames": frames,
                "run classes": np.array(parsed.run_classes, np.int32),
                "key bytes": np.frombuffer(b"".join(keys), np.uint8),
                "key sizes": np.array([len(key) for key in keys], np.int64),
            },
        )

    def read_rows(self, run: RowRun) -> Columns:
        """Repeat the class of every run for its frames; all of it is in the index."""
        num_runs, frames, classes = self._runs_of(run)
        samples = np.repeat(classes, frames)
        bounds = offsets_of(frames)[offsets_of(num_runs)]
        kind = self._kind
        column = replace(
            kind.to_column(), values=samples, num_samples=len(samples), sample_offsets=bounds
        )
        if kind.is_sparse:
            values = np.ones(len(samples), np.float32)
            if self._has_boundaries:
                values[offsets_of(frames)[:-1][frames > 0]] = _PHONE_BEGINS
            each: NDArray[np.int64] = np.arange(len(samples) + 1)
            column = replace(column, values=values, element_offsets=each, indices=samples)
        return [column], {}

    def load_index(self) -> Index:
        """Return the facts of the files, found now or before."""
        self._index = index = super().load_index()
        self._row_runs = offsets_of(index.arrays["runs"])
        rows = offsets_of(index.arrays["rows"])[index.starts["rows"]]
        paths = [file.path for file in index.files]
        self._first_rows = dict(zip(paths, rows.tolist(), strict=False))
        return index

    def _runs_of(self, run: RowRun) -> list[NDArray[Any]]:
        """Return the runs of each utterance, and of each run its frames and its class."""
        assert self._index is not None
        arrays = in_few_bytes(self._index.arrays)
        rows = self._first_rows[run.file.path] + np.array([run.begin, run.end])
        runs = self._row_runs[rows]
        bounds = {"runs": rows, "run frames": runs, "run classes": runs}
        return [arrays.part(name, *one.tolist()) for name, one in bounds.items()]

    def _class_of(self, words: list[bytes]) -> int:
        """Return the class of a line; ValueError if it has none."""
        if self._states:
            number = self._states.get(words[2])
            if number is None:
                raise ValueError(f"the state {quoted(words[2])} is not in the label mapping")
        else:
            number = _integer_of(words[3]) if len(words) > 3 else None
            if number is None or number > _MOST_CLASS:
                raise ValueError(
                    "without label_mapping_file= the fourth word is the number of the class, "
                    f"here stands {quoted(b' '.join(words))}"
                )
        if self._num_classes and number >= self._num_classes:
            raise ValueError(
                f"the class {number} is beyond the {self._num_classes} that are declared"
            )
        return number

    @property
    def _kind(self) -> SampleType:
        if self._is_sparse:
            return SampleType("float32", (self._num_classes,), is_ragged=True, is_sparse=True)
        return SampleType("int64", is_ragged=True)

    def _classes_of(self, definition: StreamDef) -> int:
        shape = definition.sample_shape
        if shape is None and definition.is_sparse and not self._states:
            raise ValueError("sparse labels need a shape, the number of classes")
        if shape is not None and len(shape) != 1:
            raise ValueError(f"the shape of labels is the number of classes, got {shape}")
        if shape is not None and len(self._states) > shape[0] > 0:
            raise ValueError(
                f"the label mapping has {len(self._states)} states, more than the "
                f"{shape[0]} classes of the stream's shape"
            )
        return shape[0] if shape is not None else len(self._states)


class _Parser:
    """The utterances of a file; lines of damaged ones are passed over."""

    def __init__(
        self,
        file: SourceFile,
        stream: str,
        class_of: Callable[[list[bytes]], int],
        frame_period: int,
    ) -> None:
        self.keys: list[str] = []
        self.num_runs = array("I")
        self.run_frames = array("I")
        self.run_classes = array("i")
        self.faults: list[DataError] = []
        self._path = file.path
        self._stream = stream
        self._class_of = class_of
        self._frame = frame_period
        self._lines = BytesIO(file.fetch(0, file.size).data)
        self._content = b""  # of the line that was read last
        self._line = 0
        if self._next_line().removeprefix(_BYTE_ORDER_MARK).strip() != _HEADER:
            raise self._error("the file does not begin with #!MLF!#, as master label files do")
        known = set[str]()
        while self._next_line():
            if name := self._content.strip():
                self._parse_utterance(name, known)

    def _next_line(self) -> bytes:
        self._content = self._lines.readline()
        self._line += bool(self._content)
        return self._content

    def _error(self, reason: str) -> DataError:
        offset = self._lines.tell() - len(self._content)
        return DataError(reason, self._path, offset, line=max(1, self._line))

    def _parse_utterance(self, name: bytes, known: set[str]) -> None:
        if len(name) < 3 or name[:1] != b'"' or name[-1:] != b'"':
            raise self._error(
                f"here stands {quoted(name)}, and the name of an utterance was expected"
            )
        key = without_suffix(fsdecode(name[1:-1]).removeprefix("*/"))
        if key in known:
            raise self._error(f"the utterance {quoted(fsencode(key))} is there twice")
        known.add(key)
        self.keys.append(key)
        try:
            runs = self._read_runs()
        except DataError as error:
            row = len(self.keys) - 1
            place = self._path, error.offset, None, self._stream, row, error.line
            self.faults.append(DataError(error.reason, *place))
            runs = []
            while self._content.strip() != b"." and self._next_line():
                pass
        self.num_runs.append(len(runs))
        self.run_frames.extend([end - begin for begin, end, _ in runs])
        self.run_classes.extend([number for _, _, number in runs])

    def _read_runs(self) -> list[tuple[int, int, int]]:
        """Return begin, end and class of each run of an utterance, in frames."""
        runs: list[tuple[int, int, int]] = []
        while (line := self._next_line().strip()) != b".":
            if not self._content:
                raise self._error("the file ends within the utterance")
            if line:
                runs.append(self._run_of(line))
        frame = self._frame
        if any(end - begin + 1 >= frame for begin, end, _ in runs):
            half = frame // 2
            runs = [((a + half) // frame, (b + half) // frame, n) for a, b, n in runs]
        at = 0
        for begin, end, _ in runs:
            if begin != at:
                raise self._error(
                    f"the runs do not follow one another: one begins at frame {begin}, and "
                    f"{at} was expected"
                )
            at = end
        if not 0 < at <= _MOST_FRAMES:
            found = f"{at} frames" if at else "no frame" if runs else "no line"
            raise self._error(f"the utterance has {found}")
        return runs

    def _run_of(self, line: bytes) -> tuple[int, int, int]:
        words = line.split(None, 4)
        begin, end = map(_time_of, words[:2]) if len(words) > 2 else (None, None)
        if begin is None or end is None or end < begin:
            raise self._error(
                f"a line is BEGIN END STATE ..., with times that ascend, here is {quoted(line)}"
            )
        try:
            return begin, end, self._class_of(words)
        except ValueError as error:
            raise self._error(str(error)) from None


def _integer_of(word: bytes) -> int | None:
    return int(word) if word.isdigit() and len(word) <= _MOST_DIGITS else None


def _time_of(word: bytes) -> int | None:
    """Return a time, without the fraction that certain writers add; None if it is none."""
    if not word.isdigit():
        word, _, fraction = word.partition(b".")
        if fraction and not fraction.isdigit():
            return None
    return _integer_of(word)


def read_states(place: PathLike) -> dict[bytes, int]:
    """Return the numbers of states, by their names: the lines of a label mapping file."""
    path = as_path(place)
    names = [line for line in map(bytes.strip, read_file(path).splitlines()) if line]
    if not names:
        raise DataError("the label mapping is empty: every line names a state", f"{path}")
    if len(states := {name: number for number, name in enumerate(names)}) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise DataError(f"the state {quoted(twice)} is there twice", f"{path}")
    return states


def open_labels(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of label files."""
    definitions = wanted.choose(lambda: StreamDefs(labels=StreamDef()))
    streams = {n: HTKStreamDef.of(one, mlf=tuple(files)) for n, one in definitions.items()}
    return HTKMLFDeserializer(None, StreamDefs(streams), index=wanted.index)
