"""The episodes of a LeRobot data set, version 3: the place of the rows and videos of each.

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
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.extend import OptionalModule, data_errors, open_regular

pq = OptionalModule("pyarrow.parquet", extra="parquet")

_DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_PLACES = ("chunk_index", "file_index", "video_key")
_WIDTH = re.compile(r"(0?\d?d)?")
_MOST_FRAMES = 2**32 - 1


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
