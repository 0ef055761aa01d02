"""CNTK's checkpoints were files; the name of one is refused before anything is trained."""

from pathlib import Path

import pytest
from tests.train.small import line_trainer, source_of_lengths

import sweephand as sh


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.dnn"
    path.write_bytes(b"a model of CNTK")
    return path


@pytest.mark.parametrize("restore", ["auto", True, False])
def test_a_session_refuses_a_file_before_it_trains(file: Path, restore: bool | str) -> None:
    trainer = line_trainer()
    session = sh.training_session(
        trainer,
        source_of_lengths([2, 3], max_sweeps=1),
        4,
        checkpoint_config=sh.CheckpointConfig(file, restore=restore),
    )
    with pytest.raises(NotADirectoryError, match="kept in a folder"):
        session.train()
    assert trainer.total_number_of_samples_seen == 0
    assert file.read_bytes() == b"a model of CNTK"


def test_a_trainer_refuses_a_file(file: Path) -> None:
    trainer = line_trainer()
    with pytest.raises(NotADirectoryError, match="kept in a folder") as caught:
        trainer.save_checkpoint(file)
    assert caught.value.filename == str(file)
    with pytest.raises(sh.StateError, match="what CNTK saved in files cannot be read"):
        trainer.restore_from_checkpoint(file)
    assert file.read_bytes() == b"a model of CNTK"
