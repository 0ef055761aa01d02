"""LeRobot data sets, version 3: an episode is a sequence, and its videos parts of files.

::

    meta/info.json                            fps, features, templates of paths
    meta/tasks.parquet                        texts of tasks, which rows name by number
    meta/episodes/chunk-000/file-000.parquet  a row for each episode
    data/chunk-000/file-000.parquet           a row for each frame; episodes one after another
    videos/<key>/chunk-000/file-000.mp4       frames of a camera; episodes one after another

https://huggingface.co/docs/lerobot/lerobot-dataset-v3
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import (
    DataError,
    MinibatchSource,
    ParquetDeserializer,
    StaleError,
    StreamDef,
    StreamDefs,
)
from sweephand.extend import (
    ColumnData,
    Columns,
    FileList,
    Keep,
    KnownRows,
    Look,
    OptionalModule,
    PathLike,
    RowRun,
    RunDeserializer,
    SampleType,
    SourceFile,
    StreamsLike,
    column_of_bytes,
    is_url,
    not_found,
    object_text,
    objects_column,
    offsets_of,
    open_regular,
    read_schema,
    spec_of,
    stat_file,
    streams_of,
)

pq = OptionalModule("pyarrow.parquet", extra="parquet")
_TASK = "task"
_EPISODE = "episode_index"
_HIDDEN = "\0episode_index"  # the stream by which rows are held against episodes
_PATHS = {  # as LeRobot's own writer lays them out
    "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
}
_MOST_FRAMES = 2**32 - 1


class LeRobotDeserializer(RunDeserializer):
    """Serve the episodes of a LeRobot data set (version 3), each a sequence of frames.

    The columns of its rows, such as ``action``, are streams with a sample for each frame. A
    camera is a stream of one object a sequence, the part of a file that has its frames, which
    `sweephand.decode.video` makes clips of; no video is opened before. ``task`` is the text of
    the episode's task, if every episode has one. Ids are ``episode_000000``, ``episode_000001``
    and so on, by the numbers of episodes.

    Parameters
    ----------
    folder : path
        With ``meta/info.json``, on this machine.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns that can be served, all cameras, and the task.
    index
        As in `ParquetDeserializer`.

    Attributes
    ----------
    fps : float
        Frames a second.
    cameras : list of str
        The streams that are videos.

    Raises
    ------
    ValueError
        If the data set is of another version, or in a store.
    DataError
        If a file of ``meta`` is damaged. When it is opened: if rows and episodes disagree; else
        as in `ParquetDeserializer`.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.LeRobotDeserializer("pusht")  # doctest: +SKIP
    >>> clip = sh.decode.video("observation.image", frames=8, beside=["action"])
    >>> source = sh.MinibatchSource(corpus.map(clip))  # doctest: +SKIP
    """

    format = "lerobot 2"
    decoder = pq

    def __init__(
        self, folder: PathLike, streams: StreamsLike | None = None, *, index: Keep = "auto"
    ) -> None:
        pq()  # says what to install
        spec = spec_of(folder)
        if is_url(spec):
            raise ValueError(f"{spec!r}: LeRobot data sets are read from a folder, not a store")
        root = Path(spec)
        if not root.is_dir():
            raise not_found(root)
        info = read_info(root / "meta" / "info.json")
        self._features: dict[str, Any] = info["features"]
        self.fps: float = info["fps"]
        self.cameras = [n for n, one in self._features.items() if one.get("dtype") == "video"]
        self._root = root
        self._episodes = read_episodes(root / "meta" / "episodes", self.cameras)
        self.options = {"episodes": self._episodes.digest}
        names = [f"episode_{number:06d}" for number in self._episodes.numbers.tolist()]
        super().__init__(self._list_files(), streams, index=index, ids=names)
        self.definitions = StreamDefs(
            {name: self._with_shape(name, one) for name, one in self.definitions.items()}
        )
        own = {name: one for name, one in self.definitions.items() if self._is_row(name)}
        self._rows = ParquetDeserializer(
            FileList(self.files),
            StreamDefs({**own, _HIDDEN: StreamDef(field=_EPISODE)}),
            index=index,
        )

    def _list_files(self) -> FileList:
        """Return the files of rows, and set the `_spans` of their episodes."""
        places = self._episodes.files
        borders = np.flatnonzero((np.diff(places, axis=0) != 0).any(1)) + 1
        files: list[SourceFile] = []
        self._spans: dict[str, tuple[int, int]] = {}
        for begin, end in pairwise([0, *borders.tolist(), len(places)]):
            chunk, number = places[begin].tolist()
            path = _PATHS["data_path"].format(chunk_index=chunk, file_index=number)
            file = stat_file(str(self._root / path))
            files.append(replace(file, name=f"chunk-{chunk:03d}/file-{number:03d}"))
            self._spans[file.path] = begin, end
        return FileList(files)

    def _is_row(self, name: str) -> bool:
        field = self.fields[name]
        return field not in self.cameras and (field != _TASK or _TASK in self._features)

    def guess_streams(self) -> StreamDefs:
        """Return columns, cameras, and the task."""
        file = self.first_file
        rows, self.left_out = streams_of(read_schema(pq.read_schema, file), file.path)
        names = [*rows, *self.cameras]
        if self._episodes.tasks and _TASK not in rows:
            names.append(_TASK)
        return StreamDefs({name: StreamDef() for name in names})

    def _with_shape(self, name: str, one: StreamDef) -> StreamDef:
        """Return a stream with the shape that a row of its column has, if that is a list."""
        shape = self._features.get(self.fields[name], {}).get("shape")
        if one.shape is None and isinstance(shape, list) and len(shape) == 1 and shape != [1]:
            return replace(one, shape=tuple(shape))
        return one

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Find the runs of row groups that hold whole episodes."""
        rows = self._rows.scan_units(file, lambda num_bytes: None)
        begin, end = self._spans[file.path]
        episodes = offsets_of(self._episodes.lengths[begin:end])
        groups = offsets_of(rows.rows)
        if groups[-1] != episodes[-1]:
            raise DataError(
                f"it has {groups[-1]} rows, its episodes have {episodes[-1]}", file.path
            )
        borders = np.intersect1d(groups, episodes)
        run_bytes = np.diff(offsets_of(rows.num_bytes)[np.searchsorted(groups, borders)])
        damaged = np.searchsorted(episodes, rows.damaged_rows, side="right") - 1
        lost: list[Sequence[int]] = [np.unique(damaged).tolist(), *[()] * len(rows.errors)]
        kinds = self._kinds(rows.kinds, file)
        lengths = self._episodes.lengths[begin:end]
        return KnownRows(
            np.searchsorted(episodes, borders),
            run_bytes,
            kinds,
            {name: lengths for name, kind in kinds.items() if kind.is_ragged},
            faults=list(zip(rows.errors, lost, strict=False)),
        )

    def _kinds(self, rows: Mapping[str, SampleType], file: SourceFile) -> dict[str, SampleType]:
        found = {}
        for name in self.definitions:
            if name not in self._rows.definitions:
                is_task = self.fields[name] == _TASK
                found[name] = SampleType("bytes" if is_task else "objects")
            elif name in rows:
                if rows[name].is_ragged:
                    raise DataError(
                        f"the column {self.fields[name]!r} has lists of any length, and "
                        "meta/info.json no shape of it: leave it out, or give a shape",
                        file.path,
                        stream=name,
                    )
                found[name] = replace(rows[name], is_ragged=True)
        return found

    def read_rows(self, run: RowRun) -> Columns:
        """Read row groups as episodes."""
        file = run.file
        begin, end = self._spans[file.path]
        first, stop = begin + run.begin, begin + run.end
        frames = offsets_of(self._episodes.lengths[begin:end])
        first_row, last_row = frames[[run.begin, run.end]].tolist()
        own_streams = list(self._rows.definitions)
        rows = RowRun(file, {}, first_row, last_row, own_streams, self._rows.kinds)
        (*own, numbers), wrong_rows = self._rows.read_rows(rows)
        lengths = self._episodes.lengths[first:stop]
        offsets = offsets_of(lengths)
        if numbers.num_sequences != offsets[-1]:
            raise StaleError(
                f"{numbers.num_sequences} rows are there for {offsets[-1]} frames", file.path
            )
        wrong = {
            int(np.searchsorted(offsets, row, side="right")) - 1: error
            for row, error in reversed(wrong_rows.items())
        }
        wanted = np.repeat(self._episodes.numbers[first:stop], lengths)
        for row in np.flatnonzero(numbers.values != wanted).tolist():
            episode = int(np.searchsorted(offsets, row, side="right")) - 1
            reason = (
                f"a row of episode {wanted[row]} says that it is of another: meta/episodes is "
                "not of these rows"
            )
            name = f"episode_{wanted[row]:06d}"
            wrong.setdefault(episode, DataError(reason, file.path, sequence=name))
        by_name = {
            name: replace(column, sample_offsets=offsets)
            for name, column in zip(own_streams[:-1], own, strict=True)
        }
        return [
            by_name[name] if name in by_name else self._once(name, range(first, stop))
            for name in run.streams
        ], wrong

    def _once(self, name: str, episodes: range) -> ColumnData:
        """Return a stream that has one sample in every episode."""
        field = self.fields[name]
        if field == _TASK:
            return column_of_bytes([self._episodes.tasks[one] for one in episodes])
        return objects_column([object_text(self._video(field, one)) for one in episodes])

    def _video(self, camera: str, episode: int) -> dict[str, Any]:
        """Return the part of a file that is the video of an episode.

        Its borders lie half a frame before the first frame and after the last one, as times are
        rounded.
        """
        places, times = self._episodes.videos[camera]
        chunk, number = places[episode].tolist()
        path = _PATHS["video_path"].format(
            video_key=camera, chunk_index=chunk, file_index=number
        )
        begin, end = (times[episode] - 0.5 / self.fps).tolist()
        return {
            "path": str(self._root / path),
            "begin": begin,
            "end": end,
            "num_frames": int(self._episodes.lengths[episode]),
        }


def is_lerobot(look: Look) -> bool:
    """Return True if a folder is a data set of LeRobot, of whatever version."""
    info = look.path / "meta" / "info.json"
    if not isinstance(info, Path) or not info.is_file():
        return False
    return b'"codebase_version"' in info.read_bytes()


def read_info(path: Path) -> dict[str, Any]:
    """Return fps and features of ``meta/info.json``; ValueError for another version."""
    with open_regular(path) as file:
        text = file.read()
    try:
        info = json.loads(text)
        version = str(info["codebase_version"])
        fps, features = float(info["fps"]), dict(info["features"])
        cameras = [name for name, one in features.items() if one.get("dtype") == "video"]
        paths = {name: info.get(name) or one for name, one in _PATHS.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"the description of the data set is damaged: {error!r}"
        raise DataError(reason, str(path)) from None
    if not version.startswith("v3."):
        raise ValueError(
            f"{str(path)!r} is of a data set of version {version}, read is v3: convert it by "
            "LeRobot's script convert_dataset_v21_to_v30"
        )
    if not 0 < fps < 1e6:
        raise DataError(f"there are {fps} frames a second", str(path))
    if paths != _PATHS:
        raise DataError(
            f"files lie elsewhere than LeRobot's writer lays them: {paths}", str(path)
        )
    for camera in cameras:
        if not camera or camera.startswith("/") or ".." in camera.split("/"):
            raise DataError(f"the camera {camera!r} is outside of the folder", str(path))
    return {"fps": fps, "features": features}


@dataclass(frozen=True)
class Episodes:
    """Episodes in the order of their rows."""

    # of each episode its index, and its frames
    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    files: NDArray[np.int64]  # chunk and file of its rows
    # by camera: chunk and file, and begin and end in seconds there
    videos: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
    tasks: Sequence[bytes]  # of each episode; empty if one has several, or none

    @property
    def digest(self) -> str:
        """A digest of which rows the episodes are."""
        found = blake2b(digest_size=8)
        for array in (self.numbers, self.lengths, self.files):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def read_episodes(folder: Path, cameras: Sequence[str]) -> Episodes:
    """Read the files of ``meta/episodes``, which must not contradict themselves."""
    paths = sorted(folder.glob("*/*.parquet"))
    if not paths:
        raise DataError("there are no episodes: no */*.parquet is there", str(folder))
    numbers = [_EPISODE, "dataset_from_index", "dataset_to_index"]
    numbers += ["data/chunk_index", "data/file_index"]
    times = []
    for camera in cameras:
        numbers += [f"videos/{camera}/{one}" for one in ("chunk_index", "file_index")]
        times += [f"videos/{camera}/{one}_timestamp" for one in ("from", "to")]
    streams = {name: StreamDef(dtype="int64") for name in numbers}
    streams |= {name: StreamDef(dtype="float64") for name in times}
    if "tasks" in read_schema(pq.read_schema, stat_file(str(paths[0]))).names:
        streams["tasks"] = StreamDef()
    corpus = ParquetDeserializer(paths, StreamDefs(streams), index=None)
    with MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        table = source.next_minibatch(_MOST_FRAMES)

    def columns(kind: str, *names: str) -> NDArray[Any]:
        return np.stack([table[f"{kind}/{name}"].values for name in names], 1)

    begins, ends = table["dataset_from_index"].values, table["dataset_to_index"].values
    files = columns("data", "chunk_index", "file_index")
    order = np.lexsort((begins, files[:, 1], files[:, 0]))
    videos = {
        camera: (
            columns(f"videos/{camera}", "chunk_index", "file_index")[order],
            columns(f"videos/{camera}", "from_timestamp", "to_timestamp")[order],
        )
        for camera in cameras
    }
    tasks: list[bytes] = []
    if "tasks" in streams and (table["tasks"].lengths == 1).all():
        tasks = [table["tasks"].values[at] for at in order.tolist()]
    found = Episodes(
        table[_EPISODE].values[order], (ends - begins)[order], files[order], videos, tasks
    )
    if len(np.unique(found.numbers)) != len(found.numbers):
        raise DataError("two episodes have one number", str(folder))
    for _, spans in videos.values():
        if not np.isfinite(spans).all() or not (spans[:, 1] > spans[:, 0]).all():
            raise DataError("a video of an episode ends before it begins", str(folder))
    if any((one < 0).any() for one in (found.numbers, files, *(v for v, _ in videos.values()))):
        raise DataError("a number of an episode or of a file is negative", str(folder))
    if not ((found.lengths > 0) & (found.lengths <= _MOST_FRAMES)).all():
        raise DataError("an episode has no frames, or more than 2^32 - 1", str(folder))
    return found
