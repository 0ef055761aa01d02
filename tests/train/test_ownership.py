"""A run removes what it has saved itself, and one run at a time saves in a folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.train.small import in_order, line_trainer
from tests.train.stores import contents, text_of

import sweephand as sh
from sweephand.train.checkpoint import (
    LOCK,
    CheckpointStore,
    FolderInUseError,
    FolderLock,
)

HOLD = """
import os, sys
from pathlib import Path
from sweephand.train.checkpoint import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.acquire()
child = os.fork() if sys.argv[2:] else 1
if child == 1:
    print(child, flush=True)
elif child == 0:  # it has let go of the lock
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


def hold(folder: Path, *forking: str) -> "tuple[subprocess.Popen[str], int]":
    """Return a process that holds a folder, and the number of the child that it forked."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder, *forking],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    return holder, int(holder.stdout.readline())


def end(holder: "subprocess.Popen[str]", number: signal.Signals) -> None:
    holder.send_signal(number)
    holder.communicate()


def run(folder: Path, max_samples: int = 20, **options: Any) -> sh.Trainer:
    trainer = line_trainer()
    sh.training_session(
        trainer,
        in_order(),
        4,
        max_samples=max_samples,
        checkpoint_config=sh.CheckpointConfig(folder, (1, "minibatch"), **options),
    ).train()
    return trainer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)


class TestOwnership:
    def test_a_fresh_start_removes_nothing_of_the_run_before(self, tmp_path: Path) -> None:
        run(tmp_path, keep_last=2)
        before = names(tmp_path)
        run(tmp_path, restore=False)
        after = names(tmp_path)
        assert set(before) < set(after)
        assert len(after) == 3
        run(tmp_path, 60)  # goes on with the second run: what that one saved is its own
        assert len(names(tmp_path)) == 3
        assert set(before) < set(names(tmp_path))

    def test_what_goes_on_from_a_path_removes_nothing_that_was_there(
        self, tmp_path: Path
    ) -> None:
        run(tmp_path, keep_last=3)
        before = names(tmp_path)
        run(tmp_path, 60, restore=tmp_path / before[0])
        assert set(before) < set(names(tmp_path))
        assert len(names(tmp_path)) == 4

    def test_a_link_to_a_checkpoint_is_left_alone(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path / "store")
        store.write(0, contents("old"))
        store.path(0).rename(tmp_path / "elsewhere")
        store.path(0).symlink_to(tmp_path / "elsewhere")
        assert text_of(store.newest()) == "old"
        store.write(1, contents("new"))
        assert names(store.folder) == ["checkpoint-00000000", "checkpoint-00000001"]

    def test_trainers_that_save_in_one_folder_remove_their_own(self, tmp_path: Path) -> None:
        one, other = line_trainer(), line_trainer()
        for _ in range(3):
            one.save_checkpoint(tmp_path)
            other.save_checkpoint(tmp_path)
        assert names(tmp_path) == ["checkpoint-00000004", "checkpoint-00000005"]
        again = line_trainer()
        again.restore_from_checkpoint(tmp_path)  # goes on with the other's
        again.save_checkpoint(tmp_path)
        assert names(tmp_path) == ["checkpoint-00000004", "checkpoint-00000006"]
        again = line_trainer()
        again.restore_from_checkpoint(tmp_path / "checkpoint-00000004")  # branches off
        again.save_checkpoint(tmp_path)
        assert len(names(tmp_path)) == 3


class TestLock:
    def test_who_comes_second_is_told_who_is_there(self, tmp_path: Path) -> None:
        holder, _ = hold(tmp_path)
        try:
            for save in (
                lambda: run(tmp_path),
                lambda: line_trainer().save_checkpoint(tmp_path),
            ):
                with pytest.raises(
                    FolderInUseError, match=f"in use by process {holder.pid} on"
                ):
                    save()
            line_trainer().save_checkpoint(tmp_path / "other")
        finally:
            end(holder, signal.SIGKILL)
        assert names(tmp_path) == ["other"]

    def test_nothing_blocks_after_a_kill(self, tmp_path: Path) -> None:
        holder, _ = hold(tmp_path)
        end(holder, signal.SIGKILL)
        run(tmp_path)
        assert names(tmp_path) == ["checkpoint-00000004"]

    def test_a_lock_that_children_of_the_dead_hold_is_taken_over(self, tmp_path: Path) -> None:
        holder, child = hold(tmp_path, "forking")
        assert holder.stdout is not None
        assert holder.stdin is not None
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        try:
            os.kill(child, 0)  # alive, and holds what its parent held
            run(tmp_path)
        finally:
            holder.stdin.close()
            holder.stdout.close()
        assert names(tmp_path) == ["checkpoint-00000004"]

    def test_a_pipe_or_link_in_place_of_the_lock_does_not_hang(self, tmp_path: Path) -> None:
        for make in (os.mkfifo, lambda path: path.symlink_to(tmp_path / "target")):
            make(tmp_path / LOCK)
            with pytest.raises(OSError, match="no checkpoint can be saved in"):
                FolderLock(tmp_path).acquire()
            (tmp_path / LOCK).unlink()
        assert not (tmp_path / "target").exists()


class TestFileNames:
    """CNTK's users give the name of a file: it is a folder here, and works as one."""

    def test_a_file_is_told_from_a_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "model.cp"
        path.write_bytes(b"of CNTK")
        with pytest.raises(sh.StateError, match="is a file: a checkpoint is a folder"):
            line_trainer().restore_from_checkpoint(path)
        for save in (lambda: run(path), lambda: line_trainer().save_checkpoint(path)):
            with pytest.raises(OSError, match="no checkpoint can be saved in"):
                save()
        assert path.read_bytes() == b"of CNTK"
