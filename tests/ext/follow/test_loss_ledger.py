"""A ledger has the loss of every sequence at every step, whatever happens to the run."""

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
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


class TestNames:
    def rows(self, folder: Path, corpus: Any, **options: Any) -> list[Row]:
        source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
        with sh.LossLedger(folder) as ledger:
            for minibatch in source.minibatches(4):
                if options.get("pickled"):
                    minibatch = pickle.loads(pickle.dumps(minibatch))
                ledger.record(minibatch, np.ones(minibatch.num_sequences))
        return rows_of(folder)

    @pytest.mark.parametrize("pickled", [False, True])
    def test_filtered_sequences_keep_name_and_file(self, folder: Path, pickled: bool) -> None:
        corpus = sh.ArrayDeserializer({"x": np.arange(6.0)}).filter(is_odd)
        rows = self.rows(folder, corpus, pickled=pickled)
        assert [row["id"] for row in rows] == ["array__1", "array__3", "array__5"]
        assert {row["corpus"] for row in rows} == {"array"}


def is_odd(sequence: dict[str, Any]) -> bool:
    return bool(sequence["x"][0] % 2)


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
