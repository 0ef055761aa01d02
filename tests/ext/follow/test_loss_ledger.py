"""A ledger has the loss of every sequence at every step, whatever happens to the run."""

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.ext.follow.ledger_workers import LENGTHS as OF_TWO
from tests.ext.follow.ledger_workers import SIZES, make, train
from tests.train.children import run
from tests.train.small import (
    LENGTHS,
    Heard,
    Line,
    line_trainer,
    source_of_lengths,
    trained_back_and_forth,
)
from tests.train.small_torch import torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.ext.follow.loss_ledger import LEDGER

Row = dict[str, Any]


def squared_errors(model: Line, minibatch: sh.Minibatch) -> Any:
    """Return the loss of each sample in place of their sum."""
    x, y = minibatch["x"].values, minibatch["labels"].values
    error = x @ model.w - y
    return 0.5 * error**2, [x.T @ error]


def torch_errors(model: nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    x, y = (torch.from_numpy(minibatch[name].asarray()) for name in ("x", "labels"))
    is_data = torch.from_numpy(minibatch["labels"].valid_mask(np.float32))
    return 0.5 * (model(x).squeeze(-1) - y).square() * is_data


def rows_of(folder: Path) -> list[Row]:
    rows: list[Row] = sh.LossLedger(folder).table().to_pylist()
    return rows


def sums(rows: list[Row]) -> dict[int, float]:
    """Return the sum of the losses of each step."""
    found: Counter[int] = Counter()
    for row in rows:
        found[row["step"]] += row["loss"]
    return dict(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "losses"


@pytest.fixture
def ledger(folder: Path) -> Iterator[sh.LossLedger]:
    with sh.LossLedger(folder) as made:
        yield made


def make_numpy(*writers: Any, **options: Any) -> tuple[sh.Trainer, sh.MinibatchSource]:
    trainer = line_trainer(writers, 0.05, criterion=squared_errors, **options)
    return trainer, source_of_lengths(LENGTHS)


def make_torch(*writers: Any, **options: Any) -> tuple[sh.Trainer, sh.MinibatchSource]:
    _, trainer = torch_trainer(writers, criterion=torch_errors, **options)
    return trainer, source_of_lengths(LENGTHS, layout=sh.Packed(12))


MAKERS = {"numpy": make_numpy, "torch": make_torch}


class TestTrainer:
    @pytest.mark.parametrize("parts", [1, 2])
    @pytest.mark.parametrize("kind", MAKERS)
    def test_its_sums_are_the_losses_of_the_steps(
        self, kind: str, parts: int, ledger: sh.LossLedger
    ) -> None:
        heard = Heard()
        trainer, source = MAKERS[kind](heard, ledger, sub_minibatches=parts)
        wanted = []
        for size in (24, 12, 36, 12):
            minibatch = source.next_minibatch(size)
            step, time = trainer.consumed.steps + 1, minibatch.nominal_time
            wanted += [(step, time, one) for one in minibatch.ids]
            trainer.train_minibatch(minibatch)
        rows = ledger.table().to_pylist()
        assert [(row["step"], row["nominal_time"], row["id"]) for row in rows] == wanted
        for step in heard.steps:
            assert sums(rows)[step.step] == pytest.approx(step.loss, rel=1e-6)


class TestResume:
    @pytest.mark.parametrize("kind", MAKERS)
    def test_a_restored_run_leaves_the_rows_of_one_that_never_stopped(
        self, kind: str, tmp_path: Path
    ) -> None:
        def train(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(12))

        with sh.LossLedger(tmp_path / "whole") as whole:
            train(*MAKERS[kind](whole), 9)
        torn = sh.LossLedger(tmp_path / "torn")
        trainer, source = MAKERS[kind](torn)
        train(trainer, source, 4)
        trainer.save_checkpoint(tmp_path / "saved", source.get_checkpoint_state())
        train(trainer, source, 3)  # of which the checkpoint knows nothing
        torn.close()
        with sh.LossLedger(tmp_path / "torn") as again:
            trainer, source = MAKERS[kind](again)
            source.restore_from_checkpoint(trainer.restore_from_checkpoint(tmp_path / "saved"))
            assert max(row["step"] for row in again.table().to_pylist()) == 4
            train(trainer, source, 5)
        assert rows_of(tmp_path / "torn") == rows_of(tmp_path / "whole")

    @pytest.mark.parametrize("stop", range(7))
    def test_rows_behind_any_step_are_dropped(self, stop: int, ledger: sh.LossLedger) -> None:
        trainer, source = make_numpy(ledger)
        for step in range(6):  # in two blocks, and one that waits
            if step in (2, 5):
                ledger.flush()
            trainer.train_minibatch(source.next_minibatch(12))
        before = ledger.table().to_pylist()
        ledger.rewind(stop)
        assert ledger.table().to_pylist() == [row for row in before if row["step"] <= stop]
        ledger.rewind(stop)
        minibatch = source.next_minibatch(12)
        ledger.record(minibatch, np.ones(minibatch.num_sequences), stop + 1)
        assert ledger.table().to_pylist()[-1]["step"] == stop + 1
        ledger.rewind(max(stop - 1, 0))
        wanted = [row for row in before if row["step"] <= max(stop - 1, 0)]
        assert ledger.table().to_pylist() == wanted

    def test_a_fresh_start_over_rows_is_refused_before_it_trains(self, folder: Path) -> None:
        with sh.LossLedger(folder) as ledger:
            trainer, source = make_numpy(ledger)
            for _ in range(3):
                trainer.train_minibatch(source.next_minibatch(12))
        with sh.LossLedger(folder) as ledger:
            trainer, source = make_numpy(ledger)
            minibatch = source.next_minibatch(12)
            with pytest.raises(FileExistsError, match="has rows up to step 3: restore the run"):
                trainer.train_minibatch(minibatch)
            assert trainer.consumed.steps == 0
            assert not trainer.model._model.w.any()  # type: ignore[attr-defined]
        assert len(sums(rows_of(folder))) == 3
        with sh.LossLedger(folder, overwrite=True) as ledger:
            trainer, _ = make_numpy(ledger)
            trainer.train_minibatch(minibatch)
        assert list(sums(rows_of(folder))) == [1]

    def test_a_session_that_goes_back_or_tries_sizes_leaves_the_rows_it_keeps(
        self, tmp_path: Path, folder: Path
    ) -> None:
        heard = Heard()
        ledger = sh.LossLedger(folder, overwrite=True)
        trainer, _ = trained_back_and_forth(
            [heard, ledger], tmp_path / "saved", criterion=squared_errors
        )
        kept = {
            step.step: step.loss for step in heard.steps if step.step <= trainer.consumed.steps
        }
        assert len(kept) < len(heard.steps), "an epoch was rejected"
        assert sums(ledger.table().to_pylist()) == pytest.approx(kept, rel=1e-6)

    def test_files_of_workers_that_are_no_more_go_back_too(self, folder: Path) -> None:
        corpus = sh.ArrayDeserializer({"x": np.arange(40.0)})
        for index in range(3):
            source = sh.MinibatchSource(corpus)
            with sh.LossLedger(folder, num_data_partitions=3, partition_index=index) as one:
                for _ in range(4):
                    share = source.next_minibatch(9, None, None, 3, index)
                    one.record(share, np.ones(share.num_sequences))
        assert sums(rows_of(folder)) == {1: 9, 2: 9, 3: 9, 4: 9}
        with sh.LossLedger(folder) as alone:
            with pytest.raises(FileExistsError):
                alone.begin(0)
            alone.rewind(2)
            alone.record(source.next_minibatch(9), np.ones(9))
        assert sums(rows_of(folder)) == {1: 9, 2: 9, 3: 9}


class TestReading:
    def test_a_ledger_that_is_written_is_read_by_others(self, ledger: sh.LossLedger) -> None:
        trainer, source = make_numpy(ledger)
        trainer.train_minibatch(source.next_minibatch(24))
        folder = ledger._folder
        assert rows_of(folder) == []  # they wait
        trainer.report("summary", {"loss": 1.0})
        assert rows_of(folder) == ledger.table().to_pylist()

    def test_rows_that_wait_are_written_at_the_end_of_the_process(self, folder: Path) -> None:
        code = f"""
import numpy as np, sweephand as sh
ledger = sh.LossLedger({str(folder)!r})
source = sh.MinibatchSource(sh.ArrayDeserializer({{"x": np.arange(9.0)}}))
ledger.record(source.next_minibatch(5), np.ones(5))
"""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        assert sums(rows_of(folder)) == {1: 5.0}


# -- what a crash, a bad disk or a second writer can do to the files --


def record(ledger: sh.LossLedger, first: int, last: int) -> None:
    """Record steps of three sequences, whose ids are given."""
    ids = [f"number {i}" for i in range(30)]
    corpus = sh.ArrayDeserializer({"x": np.arange(30.0)}, ids=ids)
    source = sh.MinibatchSource(corpus)
    for step in range(first, last + 1):
        source.current_position = 3 * (step - 1)
        ledger.record(source.next_minibatch(3), [step, step + 0.25, step + 0.5], step)


@pytest.fixture
def flushed(folder: Path) -> Path:
    """A ledger of three flushes: steps 1 to 3, 4 to 5, 6 to 8."""
    with sh.LossLedger(folder) as ledger:
        for first, last in ((1, 3), (4, 5), (6, 8)):
            record(ledger, first, last)
            ledger.flush()
    return folder


def test_a_file_of_another_version_is_refused(flushed: Path) -> None:
    file = flushed / "0.losses"
    content = file.read_bytes()
    later = replace(LEDGER, version=9)
    file.write_bytes(later.head + content[16:])
    with pytest.raises(sh.DataError, match="of version 3, or it is damaged"):
        rows_of(flushed)
    file.write_bytes(b"SWLB" + content[20:])  # as it was before there were records
    with pytest.raises(sh.DataError, match="or it is damaged; read it with"):
        rows_of(flushed)
    with (
        sh.LossLedger(flushed) as ledger,
        pytest.raises(sh.DataError, match="or it is damaged"),
    ):
        ledger.rewind(5)


def test_a_full_disk_loses_nothing(flushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        if len(data) > 40:
            return pwrite(descriptor, data[:40], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = rows_of(flushed)
    with sh.LossLedger(flushed) as ledger:
        ledger.rewind(8)
        record(ledger, 9, 10)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                ledger.flush()
        assert rows_of(flushed) == before
        record(ledger, 11, 11)
    rows = rows_of(flushed)
    assert [row["step"] for row in rows] == [step for step in range(1, 12) for _ in range(3)]
    assert all(row["id"].startswith("number ") for row in rows)


def test_two_writers_of_one_file_are_refused(flushed: Path) -> None:
    with sh.LossLedger(flushed) as one, sh.LossLedger(flushed) as other:
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


# -- several workers --


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let two workers train, once for all tests."""
    folder = tmp_path_factory.mktemp("workers")
    run("ledger_workers.py", folder)
    return folder


def test_the_rows_of_all_workers_add_up_to_the_losses_of_the_steps(shared: Path) -> None:
    losses = json.loads((shared / "losses.json").read_text())
    rows = rows_of(shared / "ledger")
    assert len(losses) == 2 * len(SIZES)
    for step, loss in enumerate(losses, 1):
        found = sum(row["loss"] for row in rows if row["step"] == step)
        assert found == pytest.approx(loss, rel=1e-6)
    assert sorted(path.name for path in (shared / "ledger").iterdir()) == [
        "0.losses",
        "1.losses",
    ]


def test_one_worker_alone_goes_on_and_has_the_rows_of_a_run_alone(shared: Path) -> None:
    again, alone = shared / "ledger", shared / "alone"
    for path, saved in ((alone, None), (again, shared / "saved")):
        with sh.LossLedger(path) as ledger:
            trainer = make(ledger, Heard())
            if saved is None:
                train(trainer, 0, 1)
            else:
                trainer.restore_from_checkpoint(saved)
                assert max(row["step"] for row in rows_of(path)) == len(SIZES)
            train(trainer, 0, 1)
    wanted = {(row["step"], row["id"]): row["loss"] for row in rows_of(alone)}
    found = {(row["step"], row["id"]): row["loss"] for row in rows_of(again)}
    assert found == pytest.approx(wanted, rel=1e-4)


def test_receipts_of_two_workers_are_those_of_the_minibatches(shared: Path) -> None:
    source, steps = source_of_lengths(OF_TWO), 2 * len(SIZES)
    for kind in ("receipts", "planned"):
        assert [path.name for path in (shared / kind).iterdir()] == ["0.receipts"]
        audit = sh.train.Receipts(shared / kind).audit(source, content=kind == "receipts")
        assert audit.mismatch is None
        assert audit.num_steps == steps
    with sh.train.Receipts(shared / "receipts", content=True) as receipts:
        trainer = make(sh.LossLedger(shared / "other"), Heard(), receipts)
        trainer.restore_from_checkpoint(shared / "saved")
        train(trainer, 0, 1, loops=1)
    audit = sh.train.Receipts(shared / "receipts").audit(source, content=True)
    assert audit.mismatch is None
    assert audit.num_steps == steps
