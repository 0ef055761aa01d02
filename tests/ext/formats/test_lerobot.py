"""LeRobot's episodes come with their rows, and clips of their videos by time stamps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.formats.lerobot_folder import Made, write_lerobot
from tests.ext.vision.made_videos import all_frames

import sweephand as sh
from sweephand.ext.vision.decode.video_file import VideoFile

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TOP, WRIST = "observation.images.top", "observation.images.wrist"
LENGTHS = [30, 12, 45, 20, 1, 33, 28]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return write_lerobot(tmp_path / "pusht", LENGTHS, cameras=(TOP, WRIST))


def whole(corpus: sh.Deserializer) -> sh.Minibatch:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return source.next_minibatch(10**6)


def frames_of(made: Made, camera: str, episode: int) -> np.ndarray:
    """All frames of an episode, taken from its whole file by their times."""
    begin = episode // 2 * 2
    path = made.folder / f"videos/{camera}/chunk-001/file-{episode // 2:03d}.mp4"
    found = [pixels for _, pixels in all_frames(str(path))]
    first = sum(made.lengths[begin:episode])
    return np.stack(found[first : first + made.lengths[episode]])


@pytest.mark.parametrize(
    ("group_rows", "fixed_lists"), [(None, True), (7, False), (10**6, True)]
)
def test_an_episode_is_a_sequence_of_its_rows(
    tmp_path: Path, group_rows: int | None, fixed_lists: bool
) -> None:
    made = write_lerobot(
        tmp_path / "x", LENGTHS, fixed_lists=fixed_lists, group_rows=group_rows
    )
    minibatch = whole(sh.open(made.folder))
    assert minibatch.ids == [f"episode_{number:06d}" for number in range(len(LENGTHS))]
    for name, wanted in (("action", made.actions), ("observation.state", made.states)):
        found = minibatch[name].as_sequences()
        assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    numbers = minibatch["episode_index"].as_sequences()
    assert [set(one.tolist()) for one in numbers] == [
        {number} for number in range(len(LENGTHS))
    ]
    assert minibatch["frame_index"].as_sequences()[2].tolist() == list(range(45))
    assert [text.decode() for text in minibatch["task"].values] == made.tasks
    assert minibatch.num_samples == sum(LENGTHS)
    part = minibatch[TOP].values[3]
    assert part["path"] == str(made.folder / f"videos/{TOP}/chunk-001/file-001.mp4")
    assert part["num_frames"] == 20
    assert part["begin"] == pytest.approx((45 - 0.5) / 25)


def test_clips_and_their_actions_are_of_the_same_frames(made: Made) -> None:
    beside = ["action", "frame_index"]
    corpus = sh.open(made.folder, streams=[TOP, WRIST, *beside, "task"])
    clip = sh.decode.video([TOP, WRIST], 4, stride=3, beside=beside, short="drop")
    with sh.MinibatchSource(corpus.map(clip), max_sweeps=2) as source:
        assert source.num_sequences_per_sweep == 6  # of one frame is one
        seen = set()
        for minibatch in source.minibatches(4):
            for at, name in enumerate(minibatch.ids):
                episode = int(name.removeprefix("episode_"))
                found = {stream: minibatch[stream].values[at] for stream in minibatch}
                numbers = found["frame_index"]
                assert numbers.tolist() == list(range(numbers[0], numbers[0] + 10, 3))
                for camera in (TOP, WRIST):
                    assert (found[camera] == frames_of(made, camera, episode)[numbers]).all()
                assert (found["action"] == made.actions[episode][numbers]).all()
                assert found["task"].decode() == made.tasks[episode]
                seen.add(name)
    assert len(seen) == 6


def windows(episode: Any) -> list[dict[str, Any]]:
    """Cut an episode at every fifth frame: a picture, and the eight actions from there."""
    actions = episode["action"]
    return [
        {"action": actions[at : at + 8], TOP: {**episode[TOP], "frames": [at, at + 1]}}
        for at in range(0, len(actions) - 7, 5)
    ]


def test_episodes_are_cut_into_windows_without_decoding(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {"action": sh.StreamDef(defines_mb_size=True), TOP: sh.StreamDef()}
    corpus = sh.open(made.folder, streams=streams).map(windows, size="measured")
    with monkeypatch.context() as patch:
        patch.setattr(VideoFile, "__init__", None)  # an error, if a video is opened
        with sh.MinibatchSource(corpus) as source:
            wanted = sum((n - 8) // 5 + 1 for n in LENGTHS if n > 7)
            assert source.num_sequences_per_sweep == wanted
    minibatch = whole(corpus.map(sh.decode.video(TOP, 1)))
    for name, actions, picture in zip(
        minibatch.ids, minibatch["action"].as_sequences(), minibatch[TOP].values, strict=True
    ):
        episode, window = (int(one) for one in name.removeprefix("episode_").split("#"))
        at = 5 * window
        assert (actions == made.actions[episode][at : at + 8]).all()
        assert (picture[0] == frames_of(made, TOP, episode)[at]).all()


def edit_info(made: Made, **changes: Any) -> None:
    path = made.folder / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_episodes(made: Made, name: str, row: int, value: Any) -> None:
    path = made.folder / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[row][name] = value
    pq.write_table(pa.Table.from_pylist(rows), path)


def test_other_versions_are_refused_by_name(made: Made) -> None:
    edit_info(made, codebase_version="v2.1")
    with pytest.raises(ValueError, match=r"version v2\.1, read is v3: convert it"):
        sh.open(made.folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"fps": "x"},
        {"fps": 0},
        {"features": 3},
        {"data_path": "../{chunk_index}/{file_index}"},
        {"features": {"../../x": {"dtype": "video"}}},
    ],
)
def test_a_wrong_description_is_an_error(made: Made, changes: dict[str, Any]) -> None:
    edit_info(made, **changes)
    with pytest.raises(sh.DataError) as caught:
        sh.LeRobotDeserializer(made.folder)
    assert str(caught.value.file).endswith("info.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("episode_index", 1),
        ("dataset_to_index", 0),
        (f"videos/{TOP}/to_timestamp", 0.0),
        (f"videos/{TOP}/from_timestamp", float("nan")),
        (f"videos/{TOP}/file_index", -1),
        ("episode_index", None),
        ("dataset_to_index", 29),
    ],
)
def test_wrong_episodes_are_an_error(made: Made, name: str, value: Any) -> None:
    edit_episodes(made, name, 0, value)
    with pytest.raises(sh.DataError) as caught:
        whole(sh.open(made.folder))
    assert str(made.folder) in str(caught.value.file)


def test_rows_of_another_episode_are_skipped_or_an_error(made: Made) -> None:
    whole(sh.open(made.folder))  # the index knows nothing of it
    edit_episodes(made, "dataset_to_index", 0, 31)
    edit_episodes(made, "dataset_from_index", 1, 31)
    with pytest.raises(sh.DataError, match=r"a row of episode 0 says that it is of another"):
        whole(sh.open(made.folder))
    with sh.MinibatchSource(sh.open(made.folder), max_errors=1, max_sweeps=1) as source:
        minibatch = source.next_minibatch(10**6)
        assert "episode_000000" not in minibatch.ids
        assert len(minibatch.ids) == len(LENGTHS) - 1


def test_a_video_of_other_frames_is_an_error_with_its_episode(made: Made) -> None:
    edit_episodes(made, f"videos/{TOP}/to_timestamp", 0, 28 / 25)
    corpus = sh.open(made.folder, streams=[TOP, "action"])
    clips = corpus.map(sh.decode.video(TOP, 1, beside=["action"]))
    reason = r"28 frames from -0\.02 s to 1\.1 s, 30 should be there"
    with pytest.raises(sh.DataError, match=reason) as caught:
        whole(clips)
    assert caught.value.sequence == "episode_000000"
    (made.folder / f"videos/{TOP}/chunk-001/file-002.mp4").unlink()
    with sh.MinibatchSource(clips, max_errors=3, max_sweeps=1) as source:
        source.next_minibatch(10**6)
        wrong = {one.sequence for one in source.errors}
        assert wrong == {f"episode_{number:06d}" for number in (0, 4, 5)}


def test_episodes_may_be_listed_in_any_order(made: Made) -> None:
    folder = made.folder / "meta/episodes/chunk-000"
    rows = [row for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]
    for path in folder.iterdir():
        path.unlink()
    rows = [rows[at] for at in (3, 0, 6, 5, 1, 2, 4)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "file-007.parquet")
    minibatch = whole(sh.open(made.folder))
    assert minibatch.ids == [f"episode_{number:06d}" for number in range(len(LENGTHS))]
    found = minibatch["action"].as_sequences()
    assert all((a == b).all() for a, b in zip(found, made.actions, strict=True))
    assert [part["num_frames"] for part in minibatch[TOP].values] == LENGTHS
    assert [text.decode() for text in minibatch["task"].values] == made.tasks


def with_a_null(path: Path) -> None:
    rows = pq.read_table(path)
    actions = rows.column("action").to_pylist()
    actions[5] = None  # of the first episode
    column = pa.array(actions, rows.schema.field("action").type)
    pq.write_table(rows.set_column(0, "action", column), path)


def with_zeros(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[10:60] = bytes(50)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [with_a_null, with_zeros])
def test_damaged_rows_are_an_error_or_skipped(made: Made, damage: Any) -> None:
    damage(made.folder / "data/chunk-000/file-001.parquet")
    corpus = sh.open(made.folder, streams=["action", "observation.state"])
    with pytest.raises(sh.DataError):
        whole(corpus)
    with sh.MinibatchSource(corpus, max_errors=5, max_sweeps=1) as source:
        minibatch = source.next_minibatch(10**6)
        wanted = [f"episode_{number:06d}" for number in (0, 1, 2, 4, 5, 6)]
        assert sorted(minibatch.ids) == wanted
