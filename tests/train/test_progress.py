"""What progress writers are told, and what they make of it: lines, tables, events."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.small import (
    Heard,
    Line,
    line_trainer,
    source_of_lengths,
    squared_error,
    squared_error_and_misses,
)

import sweephand as sh
from sweephand.train.writers import ProgressBar


def step(
    number: int, loss: float = 6.0, *, applied: bool = True, size: int = 4
) -> sh.train.Step:
    """Return a step of half a second, a tenth of it spent waiting."""
    return sh.train.Step(number, number * size, size, loss, None, applied, 0.5, 0.05)


def told(writer: Any, steps: int) -> list[int]:
    """Return the steps after which a periodic writer writes."""
    written: list[int] = []
    writer.write = lambda record: written.append(record.step)
    for number in range(1, steps + 1):
        writer.update(step(number))
    return written


def constant(model: Line, minibatch: sh.Minibatch) -> Any:
    return 1.0, [np.zeros(2, np.float32)]


class TestWhen:
    @pytest.mark.parametrize(
        ("options", "wanted"),
        [
            ({"freq": None}, []),
            ({"freq": 4}, [4, 8, 12, 16]),
            ({"freq": 5, "first": 2}, [1, 2, 5, 10, 15]),
            ({"freq": 0}, [1, 3, 7, 15]),
            ({"freq": None, "first": 3}, []),
        ],
    )
    def test_lines_come_every_so_often_or_in_geometric_windows(
        self, options: dict[str, Any], wanted: list[int]
    ) -> None:
        assert told(sh.ProgressPrinter(**options), 17) == wanted


class TestPrinter:
    def test_lines_say_what_when_and_how_much(self, capsys: pytest.CaptureFixture[str]) -> None:
        printer = sh.ProgressPrinter(freq=2, tag="run", num_epochs=3)
        printer.update(step(1, 8.0))
        printer.update(step(2, math.inf, applied=False))
        figures = {"loss": 0.5, "metric": 0.25, "num_samples": 8}
        for kind in ("summary", "validation", "test"):
            printer.write(sh.train.Record(kind, 2, 8, figures))
        printer.write(sh.train.Record("change", 3, 8, {"learning_rate": 0.01}))
        printer.write(sh.train.Record("event", 3, 8, {"message": "saved"}))
        assert capsys.readouterr().out.splitlines() == [
            "run:  Minibatch[    1-    2]: loss = 2 * 4, 1 steps skipped and left out, "
            "8 samples/s, waiting 10%",
            "run: Summary[1 of 3], 8 samples: loss = 0.5 * 8, metric = 25.00%",
            "run: Validation at 8 samples: loss = 0.5 * 8, metric = 25.00%",
            "run: Test at 8 samples: loss = 0.5 * 8, metric = 25.00%",
            "run: learning_rate = 0.01 from step 3 on",
            "run: saved",
        ]

    def test_lines_go_to_a_file_named_by_the_rank(self, tmp_path: Path) -> None:
        for rank, name in ((None, "log"), (3, "logrank3")):
            printer = sh.ProgressPrinter(freq=1, log_to_file=tmp_path / "log", rank=rank)
            printer.update(step(1))
            printer.update(step(2))
            assert len((tmp_path / name).read_text().splitlines()) == 2


class TestFiles:
    def test_tensorboard_reads_what_was_written(self, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard")
        from tensorboard.backend.event_processing.event_file_loader import (
            LegacyEventFileLoader,
        )

        writer = sh.TensorBoardProgressWriter(freq=2, log_dir=tmp_path)
        for number in range(1, 5):
            writer.update(step(number))
        writer.write(sh.train.Record("summary", 4, 16, {"loss": 0.5}))
        writer.write(sh.train.Record("validation", 4, 16, {"metric": 0.25}))
        writer.write(sh.train.Record("change", 5, 16, {"learning_rate": 0.01}))
        writer.close()
        [file] = tmp_path.iterdir()
        found = [
            (value.tag, event.step, value.simple_value)
            for event in LegacyEventFileLoader(str(file)).Load()
            for value in event.summary.value
        ]
        assert ("minibatch/avg_loss", 2, 1.5) in found
        assert ("minibatch/avg_loss", 4, 1.5) in found
        assert ("summary/avg_loss", 4, 0.5) in found
        assert ("summary/validation_avg_metric", 4, 0.25) in found
        assert ("learning_rate", 5, pytest.approx(0.01)) in found


class TestEveryWriter:
    """Every writer takes everything that a session tells, and again after a restart."""

    def writers(self, folder: Path) -> list[Any]:
        pytest.importorskip("tensorboard")
        pytest.importorskip("rich")
        return [
            sh.ProgressPrinter(freq=1),
            sh.ProgressPrinter(freq=2, log_to_file=folder / "log", metric_is_pct=False),
            ProgressBar(num_samples=100, freq=1, file=io.StringIO()),
            sh.CSVProgressWriter(folder / "log.csv", freq=2),
            sh.JSONLProgressWriter(folder / "log.jsonl", freq=2),
            sh.TensorBoardProgressWriter(freq=2, log_dir=folder / "board"),
        ]

    @pytest.mark.parametrize("criterion", [squared_error, squared_error_and_misses])
    @pytest.mark.parametrize("kinds", [{}, {"validation"}, {"test"}, {"validation", "test"}])
    def test_whatever_is_told_is_written(
        self, tmp_path: Path, criterion: Any, kinds: set[str]
    ) -> None:
        data = source_of_lengths([1] * 6, max_sweeps=1)
        options: dict[str, Any] = {}
        if "validation" in kinds:
            options["cv_config"] = sh.CrossValidationConfig(data, frequency=20)
        if "test" in kinds:
            options["test_config"] = sh.TestConfig(data)
        for limit in (40, 80):
            writers = self.writers(tmp_path)
            sh.training_session(
                line_trainer(writers, criterion=criterion),
                source_of_lengths([1] * 25),
                "5*1 + 10",
                epoch_size=20,
                max_samples=limit,
                progress_frequency=20,
                checkpoint_config=sh.CheckpointConfig(tmp_path / "saved"),
                **options,
            ).train()
            writers[-1].close()
        with (tmp_path / "log.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        lines = [line for line in lines if line["kind"] not in ("change", "event")]
        assert {row["kind"] for row in rows} == {"training", "summary", *kinds}
        assert [
            {name: float(text) for name, text in row.items() if text and name != "kind"}
            for row in rows
        ] == [{name: v for name, v in line.items() if name != "kind"} for line in lines]


class TestTrainer:
    def test_values_are_told_when_they_change_and_only_then(self) -> None:
        # As in a test of CNTK: 4 rates and 3 momenta over 10 steps are 7 records.
        heard, model = Heard(), Line()
        rates = sh.learning_parameter_schedule_per_sample([0.4, 0.3, 0.2, 0.1], epoch_size=20)
        momenta = sh.momentum_schedule([0.9, 0.8, 0.7], epoch_size=30, minibatch_size=1)
        learner = sh.numpy.MomentumSGD([model.w], rates, momenta)
        trainer, source = sh.Trainer(model, constant, learner, [heard]), source_of_lengths([1])
        for _ in range(100):
            trainer.train_minibatch(source.next_minibatch(1))
        names = [name for record in heard.of("change") for name in record.figures]
        assert (names.count("learning_rate"), names.count("momentum"), len(names)) == (4, 3, 7)

    def test_time_outside_of_the_trainer_is_waiting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard = Heard()
        trainer, source = line_trainer([heard]), source_of_lengths([1] * 20)
        clock = iter([0.0, 1.0, 4.0, 5.0])  # entered, left, entered, left
        monkeypatch.setattr("time.perf_counter", lambda: next(clock))
        for _ in range(2):
            trainer.train_minibatch(source.next_minibatch(5))
        assert [(s.seconds, s.waited_seconds) for s in heard.steps] == [(1.0, 0.0), (4.0, 3.0)]
