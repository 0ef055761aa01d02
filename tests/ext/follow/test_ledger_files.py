"""The files of a ledger: what a crash, a bad disk or a second writer can do to them."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.ext.follow.loss_ledger import LEDGER

Row = dict[str, Any]


def record(ledger: sh.LossLedger, first: int, last: int) -> None:
    """Record steps of three sequences, whose ids are given."""
    ids = [f"number {i}" for i in range(30)]
    corpus = sh.ArrayDeserializer({"x": np.arange(30.0)}, ids=ids)
    source = sh.MinibatchSource(corpus)
    for step in range(first, last + 1):
        source.current_position = 3 * (step - 1)
        ledger.record(source.next_minibatch(3), [step, step + 0.25, step + 0.5], step)


def rows_of(folder: Path) -> list[Row]:
    rows: list[Row] = sh.LossLedger(folder).table().to_pylist()
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger of three flushes: steps 1 to 3, 4 to 5, 6 to 8."""
    folder = tmp_path / "losses"
    with sh.LossLedger(folder) as ledger:
        for first, last in ((1, 3), (4, 5), (6, 8)):
            record(ledger, first, last)
            ledger.flush()
    return folder


def test_a_file_of_another_version_is_refused(folder: Path) -> None:
    file = folder / "0.losses"
    content = file.read_bytes()
    later = replace(LEDGER, version=9)
    file.write_bytes(later.head + content[16:])
    with pytest.raises(sh.DataError, match="of version 3, or it is damaged"):
        rows_of(folder)
    file.write_bytes(b"SWLB" + content[20:])  # as it was before there were records
    with pytest.raises(sh.DataError, match="or it is damaged; read it with"):
        rows_of(folder)
    with sh.LossLedger(folder) as ledger, pytest.raises(sh.DataError, match="or it is damaged"):
        ledger.rewind(5)


def test_a_full_disk_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        if len(data) > 40:
            return pwrite(descriptor, data[:40], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = rows_of(folder)
    with sh.LossLedger(folder) as ledger:
        ledger.rewind(8)
        record(ledger, 9, 10)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                ledger.flush()
        assert rows_of(folder) == before
        record(ledger, 11, 11)
    rows = rows_of(folder)
    assert [row["step"] for row in rows] == [step for step in range(1, 12) for _ in range(3)]
    assert all(row["id"].startswith("number ") for row in rows)


def test_two_writers_of_one_file_are_refused(folder: Path) -> None:
    with sh.LossLedger(folder) as one, sh.LossLedger(folder) as other:
        one.rewind(8)
        with pytest.raises(BlockingIOError, match="writes to this ledger; close that one"):
            other.rewind(8)
        one.close()
        other.rewind(8)


def test_a_link_in_the_place_of_a_file_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "0.losses").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        record(sh.LossLedger(tmp_path / "losses"), 1, 1)
    assert (tmp_path / "target").read_text() == "mine"
