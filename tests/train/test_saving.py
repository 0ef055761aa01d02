"""Training goes on while a checkpoint is written, and it is told of when it is durable."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.train.small import Heard, line_trainer, source_of_lengths
from tests.train.stores import contents, text_of

import sweephand as sh
from sweephand.run.writing import sync_folder
from sweephand.train.checkpoint import Checkpoint, CheckpointStore


class Releasing(Heard):
    """Lets a save go on that waits, after a step."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.is_released = threading.Event()
        self._after = after
        self.told_before: list[str] = []

    def update(self, step: sh.train.Step) -> None:
        super().update(step)
        if step.step == self._after:
            self.told_before = messages(self)
            self.is_released.set()


def messages(heard: Heard) -> list[str]:
    return [str(record.figures["message"]) for record in heard.of("event")]


def train(folder: Path, heard: Heard, **options: Any) -> None:
    sh.training_session(
        line_trainer([heard]),
        source_of_lengths([1] * 40),
        4,
        max_samples=40,
        checkpoint_config=sh.CheckpointConfig(folder, frequency=(4, "minibatch"), **options),
    ).train()


def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Releasing(after=7)  # the first save begins after step 4
    waited = []

    def slow_sync(folder: Path) -> None:
        waited.append(heard.is_released.wait(timeout=60))
        sync_folder(folder)

    monkeypatch.setattr("sweephand.train.checkpoint.sync_folder", slow_sync)
    train(tmp_path / "store", heard)
    assert all(waited)  # or the loop stood still until the save was given up
    assert not [text for text in heard.told_before if "saved" in text]
    assert len([text for text in messages(heard) if "saved" in text]) == 3  # 4, 8 and the end


def test_an_older_one_is_kept_until_the_newer_was_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path)
    store.write(0, contents("old"))
    rename = Path.rename

    def damaging_rename(path: Path, target: Path) -> Path:
        file = path / "model.npz"
        if path.name.startswith(".writing"):
            file.write_bytes(file.read_bytes()[:-1])  # as a disk that lies may do
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", damaging_rename)
    with pytest.raises(sh.StateError, match=r"model\.npz is damaged"):
        store.write(1, contents("new"))
    monkeypatch.undo()
    assert text_of(Checkpoint(store.path(0))) == "old"
    assert text_of(store.newest()) == "old"
