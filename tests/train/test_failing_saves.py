"""Whatever fails in a save, the checkpoints that were there stay."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.train.stores import contents, text_of

from sweephand.train.checkpoint import CheckpointStore


class TestFailingSystemCalls:
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
    def test_whichever_call_fails_the_last_one_stays_and_the_next_succeeds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        failures = 0
        for failing in range(1, 100):
            store = CheckpointStore(tmp_path / str(failing))
            store.write(0, contents("old"))
            with monkeypatch.context() as patch:
                count = fail_call(patch, failing, code)
                error = failure_of(lambda store=store: store.write(1, contents("new")))
            if error is None:
                assert text_of(store.newest()) == "new"
            else:
                assert error.errno == code
                assert "those that were there stay" in str(error)
                found = text_of(store.newest())
                assert found in ("old", "new")
                says_none = "no checkpoint could be saved" in str(error)
                assert says_none == (found == "old"), str(error)
                failures += 1
            store.write(store.next_number(), contents("next"))
            assert text_of(store.newest()) == "next"
            if count() < failing:
                break
        assert failures >= 10

    def test_an_error_while_writing_leaves_nothing_behind(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)

        def fail(sink: Any) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.write(0, contents("new") | {"more.json": fail})
        assert list(tmp_path.iterdir()) == []


def failure_of(action: Callable[[], object]) -> OSError | None:
    """Return the error that an action raises."""
    try:
        action()
    except OSError as error:
        return error
    return None


def fail_call(patch: pytest.MonkeyPatch, failing: int, code: int) -> Callable[[], int]:
    """Let one system call of a save fail, and return what counts them."""
    count = 0

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == failing:
                raise OSError(code, os.strerror(code))
            return call(*args, **options)

        return wrapper

    module = "sweephand.train.checkpoint"
    patch.setattr(f"{module}.os.fsync", guarded(os.fsync))
    patch.setattr(f"{module}.Path.mkdir", guarded(Path.mkdir))
    patch.setattr(f"{module}.Path.rename", guarded(Path.rename))
    opened = Path.open

    def open_guarded(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode != "xb":
            return opened(path, mode, *args, **options)
        file = guarded(opened)(path, mode, 0)  # unbuffered: each write is a system call
        return WriteGuard(file, guarded(file.write))

    patch.setattr(f"{module}.Path.open", open_guarded)
    return lambda: count


class WriteGuard:
    """A file whose writes are counted and may fail."""

    def __init__(self, file: Any, write: Callable[..., Any]) -> None:
        self._file = file
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "WriteGuard":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
