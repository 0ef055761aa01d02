"""Clips of a LeRobot data set beside their actions: pip install sweephand[parquet,video]."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

try:
    import av
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[parquet,video]'")

import sweephand as sh

FPS, CAMERA, LENGTHS = 10, "observation.images.top", [40, 25, 60]


def write(folder: Path) -> None:
    """Write three episodes as LeRobot lays them out: rows and a video of all of them."""
    ends = np.cumsum(LENGTHS)
    begins = ends - LENGTHS
    place = {f"videos/{CAMERA}/{name}_index": [0] * 3 for name in ("chunk", "file")}
    episodes = {
        "episode_index": range(3),
        "tasks": [["push the block"]] * 3,
        "data/chunk_index": [0] * 3,
        "data/file_index": [0] * 3,
        "dataset_from_index": begins,
        "dataset_to_index": ends,
        **place,
        f"videos/{CAMERA}/from_timestamp": begins / FPS,
        f"videos/{CAMERA}/to_timestamp": ends / FPS,
    }
    actions = np.arange(2.0 * sum(LENGTHS), dtype=np.float32).reshape(-1, 2)
    rows = {"action": list(actions), "episode_index": np.repeat(range(3), LENGTHS)}
    for name, table in (("data", rows), ("meta/episodes", episodes)):
        path = folder / name / "chunk-000" / "file-000.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({key: list(one) for key, one in table.items()}), path)
    features = {
        "action": {"dtype": "float32", "shape": [2]},
        CAMERA: {"dtype": "video", "shape": [48, 64, 3]},
    }
    info = {"codebase_version": "v3.0", "fps": FPS, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    video = folder / "videos" / CAMERA / "chunk-000" / "file-000.mp4"
    video.parent.mkdir(parents=True)
    with av.open(str(video), "w") as out:
        stream = out.add_stream("mpeg4", rate=FPS, width=64, height=48)
        for number in range(sum(LENGTHS)):
            picture = np.full((48, 64, 3), 2 * number, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        out.mux(stream.encode())


def main() -> None:
    """Read clips of 4 frames, 5 apart, with the actions of the same frames."""
    with TemporaryDirectory() as folder:
        write(Path(folder))
        corpus = sh.open(folder, streams=[CAMERA, "action", "task"])
        clips = corpus.map(sh.decode.video(CAMERA, frames=4, stride=5, beside=["action"]))
        with sh.MinibatchSource(clips, max_sweeps=2, randomization_seed=1) as source:
            for minibatch in source.minibatches(3):
                print(minibatch.ids, minibatch["task"].values[0])
                print(minibatch[CAMERA].values.shape, minibatch["action"].values[:, :, 0])


if __name__ == "__main__":
    main()
