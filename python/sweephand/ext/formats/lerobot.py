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
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, ParquetDeserializer, StaleError, StreamDef, StreamDefs
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
    data_errors,
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
_LISTS = ("list<", "large_list<")
_DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_PLACES = ("chunk_index", "file_index", "video_key")
_WIDTH = re.compile(r"(0?\d?d)?")
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
    FileNotFoundError
        If the folder or a file of rows is absent.
    ImportError
        If pyarrow is not installed.
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
        self._info = LeRobotInfo.of(root)
        self._episodes = Episodes.of(self._info)
        self.fps = self._info.fps
        self.cameras = self._info.cameras
        self.options = {"episodes": self._episodes.digest}
        super().__init__(self._list_files(), streams, index=index, ids=self._episodes.names)
        self.definitions = self._with_shapes(self.definitions)
        own = {name: one for name, one in self.definitions.items() if self._is_row(name)}
        hidden = _EPISODE
        while hidden in own:
            hidden = f"_{hidden}"
        self._row_streams = list(own)
        self._rows = ParquetDeserializer(
            FileList(self.files, []),
            StreamDefs({**own, hidden: StreamDef(field=_EPISODE)}),
            index=index,
        )

    def _list_files(self) -> FileList:
        """Return the files of rows, and set the `_spans` of their episodes."""
        files: list[SourceFile] = []
        self._spans: dict[str, tuple[int, int]] = {}
        for (chunk, number), span in self._episodes.starts.items():
            path = self._info.data_file(chunk, number)
            file = stat_file(str(path))
            files.append(replace(file, name=f"chunk-{chunk:03d}/file-{number:03d}"))
            self._spans[file.path] = span
        return FileList(files, [])

    def _is_row(self, name: str) -> bool:
        field = self.fields[name]
        return field not in self.cameras and (field != _TASK or _TASK in self._info.features)

    def guess_streams(self) -> StreamDefs:
        """Return columns, cameras, and the task."""
        file = self.first_file
        rows, self.left_out = streams_of(read_schema(pq.read_schema, file), file.path)
        names = [*rows, *self.cameras]
        if self._episodes.has_task_each and _TASK not in rows:
            names.append(_TASK)
        return StreamDefs({name: StreamDef() for name in names})

    def _with_shapes(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams with the shapes that lists of the columns have."""
        schema = read_schema(pq.read_schema, self.first_file)
        found = {}
        for name, one in streams.items():
            field = self.fields[name]
            shape = self._info.features.get(field, {}).get("shape")
            kind = str(schema.field(field).type) if field in schema.names else ""
            are_lists = kind.startswith(_LISTS)
            if one.shape is None and are_lists and isinstance(shape, list):
                one = replace(one, shape=tuple(shape))
            found[name] = one
        return StreamDefs(found)

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
            if name not in self._row_streams:
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
            name = self._episodes.names[first + episode]
            wrong.setdefault(episode, DataError(reason, file.path, sequence=name))
        by_name = {
            name: replace(column, sample_offsets=offsets)
            for name, column in zip(self._row_streams, own, strict=True)
        }
        return [
            by_name[name] if name in by_name else self._once(name, range(first, stop))
            for name in run.streams
        ], wrong

    def _once(self, name: str, episodes: Sequence[int]) -> ColumnData:
        """Return a stream that has one sample in every episode."""
        field = self.fields[name]
        if field != _TASK:
            return objects_column(
                [object_text(self._episodes.video(field, one)) for one in episodes]
            )
        return column_of_bytes([self._episodes.tasks[one][0].encode() for one in episodes])


def is_lerobot(look: Look) -> bool:
    """Return True if a folder is a data set of LeRobot, of whatever version."""
    info = look.path / "meta" / "info.json"
    if not isinstance(info, Path) or not info.is_file():
        return False
    try:
        return "codebase_version" in read_info(info)
    except DataError:
        return False


@dataclass(frozen=True)
class LeRobotInfo:
    """Content of ``meta/info.json``."""

    folder: Path
    fps: float  # frames a second
    features: Mapping[str, Any]  # of each column or camera its type and shape
    # templates of paths in the folder
    data_path: str = _DATA_PATH
    video_path: str = _VIDEO_PATH

    @classmethod
    def of(cls, folder: Path) -> LeRobotInfo:
        """Read it; ValueError if the data set is of another version."""
        path = folder / "meta" / "info.json"
        content = read_info(path)
        version = content.get("codebase_version")
        if not isinstance(version, str) or not version.startswith("v3."):
            raise ValueError(
                f"{str(folder)!r} is a LeRobot data set of version {version}, read is v3: "
                "convert it by LeRobot's script convert_dataset_v21_to_v30"
            )
        try:
            found = cls(
                folder,
                float(content["fps"]),
                dict(content["features"]),
                str(content.get("data_path") or _DATA_PATH),
                str(content.get("video_path") or _VIDEO_PATH),
            )
            cameras = found.cameras
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"the description of the data set is damaged: {error!r}"
            raise DataError(reason, str(path)) from None
        if not 0 < found.fps < 1e6:
            raise DataError(f"there are {found.fps} frames a second", str(path))
        for template in (found.data_path, found.video_path):
            _check_template(template, str(path))
        for camera in cameras:
            if not _is_inside(camera):
                raise DataError(f"the camera {camera!r} is outside of the folder", str(path))
        return found

    @property
    def cameras(self) -> list[str]:
        """The features that are videos."""
        return [name for name, one in self.features.items() if one.get("dtype") == "video"]

    def data_file(self, chunk: int, file: int) -> Path:
        """Return the path of a file of rows."""
        return self.folder / self.data_path.format(chunk_index=chunk, file_index=file)

    def video_file(self, camera: str, chunk: int, file: int) -> Path:
        """Return the path of a file of a camera."""
        name = self.video_path.format(video_key=camera, chunk_index=chunk, file_index=file)
        return self.folder / name


@dataclass(frozen=True)
class Episodes:
    """Episodes in the order of their rows."""

    info: LeRobotInfo
    # of each episode its index, and its frames
    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    files: NDArray[np.int64]  # chunk and file of its rows
    # by camera: chunk and file, and begin and end in seconds there
    videos: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
    tasks: Sequence[Sequence[str]]  # of each episode; empty if they are not listed

    @classmethod
    def of(cls, info: LeRobotInfo) -> Episodes:
        """Read the files of ``meta/episodes``, which must not contradict themselves."""
        folder = info.folder / "meta" / "episodes"
        paths = sorted(folder.glob("*/*.parquet"))
        if not paths:
            raise DataError("there are no episodes: no */*.parquet is there", str(folder))
        tables = [_read_columns(path, info.cameras) for path in paths]
        found = {
            name: np.concatenate([one[name] for one in tables])
            for name in tables[0]
            if name != "tasks"
        }
        tasks = [one for table in tables for one in table["tasks"]]
        files = np.stack([found["data/chunk_index"], found["data/file_index"]], 1)
        begins = found["dataset_from_index"]
        order = np.lexsort((begins, files[:, 1], files[:, 0]))
        videos = {}
        for camera in info.cameras:
            names = [f"videos/{camera}/{one}" for one in ("chunk_index", "file_index")]
            places = np.stack([found[name] for name in names], 1)
            times = [f"videos/{camera}/{one}_timestamp" for one in ("from", "to")]
            videos[camera] = places[order], np.stack([found[name] for name in times], 1)[order]
        made = cls(
            info,
            found["episode_index"][order],
            (found["dataset_to_index"] - begins)[order],
            files[order],
            videos,
            [tasks[at] for at in order.tolist()] if tasks else [],
        )
        made._check(str(folder))
        return made

    def _check(self, path: str) -> None:
        if len(np.unique(self.numbers)) != len(self.numbers):
            raise DataError("two episodes have one number", path)
        numbers = [self.numbers, *self.files.T]
        for places, times in self.videos.values():
            numbers += [*places.T]
            if not np.isfinite(times).all() or not (times[:, 1] > times[:, 0]).all():
                raise DataError("a video of an episode ends before it begins", path)
        if any((one < 0).any() for one in numbers):
            raise DataError("a number of an episode or of a file is negative", path)
        if not ((self.lengths > 0) & (self.lengths <= _MOST_FRAMES)).all():
            raise DataError("an episode has no frames, or more than 2^32 - 1", path)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> list[str]:
        """Ids of the episodes."""
        return [f"episode_{number:06d}" for number in self.numbers.tolist()]

    @property
    def has_task_each(self) -> bool:
        """True if every episode has exactly one task."""
        return bool(self.tasks) and all(len(one) == 1 for one in self.tasks)

    @cached_property
    def starts(self) -> Mapping[tuple[int, int], tuple[int, int]]:
        """First episode and end of each file, by its chunk and number."""
        borders = np.flatnonzero((np.diff(self.files, axis=0) != 0).any(1)) + 1
        begins = [0, *borders.tolist()]
        ends = [*borders.tolist(), len(self)]
        return {
            (int(self.files[begin, 0]), int(self.files[begin, 1])): (begin, end)
            for begin, end in zip(begins, ends, strict=True)
        }

    @cached_property
    def digest(self) -> str:
        """A digest of which rows the episodes are."""
        found = blake2b(digest_size=8)
        for array in (self.numbers, self.lengths, self.files):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def video(self, camera: str, episode: int) -> dict[str, Any]:
        """Return the part of a file that is the video of an episode.

        Its borders lie half a frame before the first frame and after the last one, as times are
        rounded.
        """
        places, times = self.videos[camera]
        half = 0.5 / self.info.fps
        begin, end = times[episode].tolist()
        return {
            "path": str(self.info.video_file(camera, *places[episode].tolist())),
            "begin": begin - half,
            "end": end - half,
            "num_frames": int(self.lengths[episode]),
        }


def read_info(path: Path) -> dict[str, Any]:
    """Return the object in a file of JSON."""
    with open_regular(path) as file:
        text = file.read()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"no JSON: {error}", str(path)) from None
    if not isinstance(content, dict):
        raise DataError("no JSON object", str(path))
    return content


def _read_columns(path: Path, cameras: Sequence[str]) -> dict[str, Any]:
    """Return columns of episodes: int64, times float64, and lists of tasks."""
    integers = [
        *("episode_index", "data/chunk_index", "data/file_index"),
        *("dataset_from_index", "dataset_to_index"),
    ]
    times = []
    for camera in cameras:
        integers += [f"videos/{camera}/{one}" for one in ("chunk_index", "file_index")]
        times += [f"videos/{camera}/{one}_timestamp" for one in ("from", "to")]
    with data_errors(str(path), "the episodes"), open_regular(path) as file:
        there = set(pq.read_schema(file).names)
        missing = [name for name in (*integers, *times) if name not in there]
        if missing:
            raise DataError(f"the episodes lack the column {missing[0]!r}", str(path))
        wanted = [*integers, *times, *(["tasks"] if "tasks" in there else [])]
        table = pq.read_table(file, columns=wanted)
        found: dict[str, Any] = {}
        for name in (*integers, *times):
            column = table.column(name)
            if column.null_count:
                raise DataError(f"the column {name!r} of episodes has nulls", str(path))
            dtype = np.float64 if name in times else np.int64
            found[name] = column.to_numpy().astype(dtype, casting="same_kind")
        found["tasks"] = table.column("tasks").to_pylist() if "tasks" in there else []
    if not all(
        isinstance(one, list) and all(isinstance(text, str) for text in one)
        for one in found["tasks"]
    ):
        raise DataError("the column 'tasks' of episodes has no lists of texts", str(path))
    return found


def _check_template(template: str, path: str) -> None:
    """Refuse a template with unknown fields, or with a path outside the folder."""
    try:
        parts = list(string.Formatter().parse(template))
        is_known = all(
            name is None or (name in _PLACES and _WIDTH.fullmatch(width or "") and not how)
            for _, name, width, how in parts
        )
        filled = (
            template.format(chunk_index=0, file_index=0, video_key="camera") if is_known else ""
        )
    except (ValueError, KeyError, IndexError):
        filled = ""
    if not filled:
        raise DataError(f"no template of paths: {template!r:.200}", path)
    if not _is_inside(filled):
        raise DataError(f"the template {template!r:.200} leads out of the folder", path)


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return bool(path) and not parts.is_absolute() and ".." not in parts.parts
