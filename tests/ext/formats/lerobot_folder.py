"""A LeRobot data set of version 3, written as LeRobot lays it out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.ext.vision.made_videos import video

FPS = 25
EPISODES, VIDEOS = 3, 2  # in a file


@dataclass
class Made:
    """What was written."""

    folder: Path
    lengths: Sequence[int]
    cameras: Sequence[str]
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    states: list[NDArray[np.float32]] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)


def write_lerobot(
    folder: Path,
    lengths: Sequence[int],
    *,
    cameras: Sequence[str] = ("observation.images.top",),
    group_rows: int | None = None,
    fixed_lists: bool = True,
) -> Made:
    """Write a data set.

    The picture of a frame is that of its number among all frames; of the second camera 1,000
    more.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = Made(folder, lengths, cameras)
    rng = np.random.default_rng(0)
    texts = ["push the block", "open the drawer"]
    rows: list[dict[str, Any]] = []
    for episode, length in enumerate(lengths):
        first = sum(lengths[:episode])
        own: dict[str, Any] = {
            "episode_index": episode,
            "length": length,
            "tasks": [texts[episode % 2]],
            "data/chunk_index": 0,
            "data/file_index": episode // EPISODES,
            "dataset_from_index": first,
            "dataset_to_index": first + length,
            "stats/action/max": [1.0, 1.0],
        }
        for camera in cameras:
            begin = episode // VIDEOS * VIDEOS
            frames = sum(lengths[begin:episode])
            own |= {
                f"videos/{camera}/chunk_index": 1,
                f"videos/{camera}/file_index": episode // VIDEOS,
                f"videos/{camera}/from_timestamp": frames / FPS,
                f"videos/{camera}/to_timestamp": (frames + length) / FPS,
            }
        rows.append(own)
        made.tasks.append(texts[episode % 2])
        made.actions.append(rng.random((length, 2), np.float32))
        made.states.append(rng.random((length, 3), np.float32))

    def lists(values: NDArray[np.float32]) -> Any:
        width = values.shape[1] if fixed_lists else -1
        return pa.array(values.tolist(), pa.list_(pa.float32(), width))

    for number in range(0, len(lengths), EPISODES):
        chosen = range(number, min(number + EPISODES, len(lengths)))
        counts = [lengths[one] for one in chosen]
        frames = np.concatenate([np.arange(one) for one in counts])
        first = sum(lengths[:number])
        table = pa.table(
            {
                "action": lists(np.concatenate([made.actions[one] for one in chosen])),
                "observation.state": lists(
                    np.concatenate([made.states[one] for one in chosen])
                ),
                "timestamp": (frames / FPS).astype(np.float32),
                "frame_index": frames,
                "episode_index": np.repeat(chosen, counts),
                "index": np.arange(first, first + sum(counts)),
                "task_index": np.repeat(np.array(chosen) % 2, counts),
            }
        )
        path = folder / f"data/chunk-000/file-{number // EPISODES:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, table.schema) as writer:
            if group_rows:
                writer.write_table(table, row_group_size=group_rows)
            else:  # as LeRobot's own writer: a row group for each episode
                at = 0
                for count in counts:
                    writer.write_table(table.slice(at, count))
                    at += count
    for place, camera in enumerate(cameras):
        for number in range(0, len(lengths), VIDEOS):
            path = folder / f"videos/{camera}/chunk-001/file-{number // VIDEOS:03d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            count = sum(lengths[number : number + VIDEOS])
            first = sum(lengths[:number]) + 1000 * place
            path.write_bytes(video(count, rate=FPS, first=first))
    episodes = folder / "meta/episodes/chunk-000"
    episodes.mkdir(parents=True)
    half = len(rows) // 2
    for number, part in enumerate([rows[:half], rows[half:]]):
        if part:
            pq.write_table(pa.Table.from_pylist(part), episodes / f"file-{number:03d}.parquet")
    tasks = pa.table({"task_index": [0, 1], "task": texts})
    pq.write_table(tasks, folder / "meta/tasks.parquet")
    features: dict[str, Any] = {
        "action": {"dtype": "float32", "shape": [2]},
        "observation.state": {"dtype": "float32", "shape": [3]},
        "timestamp": {"dtype": "float32", "shape": [1]},
    }
    features |= {camera: {"dtype": "video", "shape": [32, 48, 3]} for camera in cameras}
    info = {
        "codebase_version": "v3.0",
        "fps": FPS,
        "total_episodes": len(lengths),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }
    (folder / "meta/info.json").write_text(json.dumps(info))
    return made
