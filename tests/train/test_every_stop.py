"""A session with everything on, stopped at every place: it goes on as if it had not stopped.

SWEEPHAND_STOPS=all stops it at every call of the criterion; by default at some of each kind.
"""

import csv
import json
import os
import signal
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.train.small import Heard, Line, source_of_lengths, squared_error_and_misses

import sweephand as sh

ALL = extent.exhaustive or os.environ.get("SWEEPHAND_STOPS") == "all"
# What depends on the clock.
TIMES = {"samples_per_second", "waiting"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing is saved any more."""


def kill() -> None:
    raise Killed


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Everything:
    """A session with every feature, and what it said; `stop` is called in call `stop_at`."""

    def __init__(
        self, folder: Path, stop_at: int | None = None, stop: Callable[[], None] = kill
    ) -> None:
        self.heard = Heard()
        self.calls: list[str] = []
        self.sizes: list[int] = []
        self.model = Line(np.float16)  # type: ignore[arg-type]
        rate = sh.learning_parameter_schedule_per_sample(0.02)
        optimizer = sh.LossScaleOptimizer(
            sh.numpy.MomentumSGD([self.model.w], rate, 0.9), dynamic_growth_steps=9
        )
        rng = np.random.default_rng(5)

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            if len(self.calls) == stop_at:
                stop()
            self.calls.append(self.kind(model, minibatch))
            loss, metric, [gradient] = squared_error_and_misses(model, minibatch)
            scale = optimizer.get_scaled_loss(1.0)
            jitter = np.random.normal(scale=1e-3, size=2) + rng.normal(scale=1e-3)  # noqa: NPY002
            return loss, metric, [((gradient + jitter) * scale).astype(np.float32)]

        log = folder.parent / f"{folder.name} log"
        log.mkdir(exist_ok=True)
        self.json, self.csv = log / "log.jsonl", log / "log.csv"
        self.trainer = sh.Trainer(
            self.model,
            criterion,
            optimizer,
            [
                self.heard,
                sh.JSONLProgressWriter(self.json, freq=4),
                sh.CSVProgressWriter(self.csv, freq=3),
                sh.train.GradientNoiseScale(frequency=2),
            ],
            sub_minibatches=2,
            stateful={"rng": rng},
        )
        self.session = sh.training_session(
            self.trainer,
            source_of_lengths([1, 3, 2, 5, 1, 1, 4] * 4),
            "6*2 + 8",
            max_samples=300,
            epoch_size=60,
            progress_frequency=50,
            checkpoint_config=sh.CheckpointConfig(folder, frequency=(7, "minibatch")),
            cv_config=sh.CrossValidationConfig(
                source_of_lengths([1] * 7, max_sweeps=1), frequency=90, minibatch_size=3
            ),
            lr_control=sh.LearningRateControl(0.3, min_learning_rate=0.002),
            mb_scaling=sh.MinibatchScaling(trial_minibatches=3, max_size=14),
            activities=[sh.train.CriticalBatchSize(70, frequency=(3, "epoch"))],
            test_config=sh.TestConfig(source_of_lengths([2] * 4, max_sweeps=1), 4),
        )

    def kind(self, model: Line, minibatch: sh.Minibatch) -> str:
        if not model.training:
            return "evaluation"
        return "step" if self.heard in self.trainer.writers else "trial"

    def train(self) -> bool:
        """Train, and return whether it came to its end."""
        try:
            self.session.train()
        except Killed:
            return False
        except SystemExit:  # preempted
            return False
        return True

    def end(self) -> list[Any]:
        """Return where it stands in the end."""
        snapshot = self.session._run.capture_session()
        state = json.loads(json.dumps(snapshot.state))
        del state["session"]["seconds"], state["session"]["steering"]["accepted"]
        state["run"]["figures"] = {
            name: {k: v for k, v in window.items() if "seconds" not in k}
            for name, window in state["run"]["figures"].items()
        }
        del state["writers"]  # with times
        arrays = [a.tobytes() for f in snapshot.files.values() for a in f.arrays.values()]
        return [state, arrays]


def steps_of(heard: Heard) -> list[Any]:
    return [step[:6] for step in heard.steps]


def told(records: list[sh.train.Record]) -> list[Any]:
    """Return what does not depend on time or on having been stopped."""
    return [
        (r.kind, r.step, r.samples, {k: v for k, v in r.figures.items() if k not in TIMES})
        for r in records
        if r.kind not in ("event", "change")
    ]


def changes(records: list[sh.train.Record]) -> list[Any]:
    """Return each value that changed, in order; a start tells all of them again."""
    found: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.figures.items() if record.kind == "change" else ():
            values = found.setdefault(name, [])
            if values[-1:] != [value]:
                values.append(value)
    return sorted(found.items())


def lines_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            lines: list[dict[str, Any]] = list(csv.DictReader(file))
    else:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in lines
        if line["kind"] not in ("event", "change")
    ]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)  # nothing here cuts the power
        np.random.seed(3)  # noqa: NPY002
        whole = Everything(tmp_path_factory.mktemp("whole") / "run")
        assert whole.train()
        yield whole


def places(calls: list[str]) -> list[int]:
    """Return where to stop: at all calls, or at the first, second and last in a row."""
    if ALL:
        return list(range(len(calls)))
    chosen = []
    begin = 0
    for _, group in groupby(calls):
        end = begin + len(list(group))
        chosen += sorted({begin, min(begin + 1, end - 1), end - 1})
        begin = end
    return chosen[:: max(1, len(chosen) // 7)]


def test_the_unbroken_run_has_everything(unbroken: Everything) -> None:
    events = [str(record.figures.get("message")) for record in unbroken.heard.of("event")]
    assert any("rejected" in message for message in events)
    assert set(unbroken.calls) == {"step", "trial", "evaluation"}
    names = dict(changes(unbroken.heard.records))
    assert names.keys() >= {
        *("minibatch_size", "learning_rate", "loss_scale", "critical_batch_size"),
    }
    kinds = {record.kind for record in unbroken.heard.records}
    assert kinds == {"summary", "validation", "test", "change", "event"}
    rejections = sum("rejected" in message for message in events)
    assert sum(later.step <= one.step for one, later in pairwise(unbroken.heard.steps)) > 0
    assert rejections > 0


@pytest.mark.parametrize("stop", [pytest.param(terminate, marks=pytest.mark.exhaustive), kill])
def test_stopped_anywhere_it_goes_on_as_if_it_had_not(
    unbroken: Everything, tmp_path: Path, stop: Callable[[], None]
) -> None:
    for place in places(unbroken.calls):
        folder = tmp_path / str(place)
        np.random.seed(3)  # noqa: NPY002
        first = Everything(folder, place, stop)
        is_done = first.train()
        np.random.seed(4)  # noqa: NPY002
        rest = first if is_done else Everything(folder)
        if not is_done:
            assert rest.train()
        assert rest.end() == unbroken.end(), place
        check_told(first, rest, unbroken, is_exact=stop is terminate)


def check_told(
    first: Everything, rest: Everything, unbroken: Everything, *, is_exact: bool
) -> None:
    """Check that both told what the unbroken run told; after a kill some of it twice."""
    parts = [first] if first is rest else [first, rest]
    for get in (
        lambda one: steps_of(one.heard),
        lambda one: told(one.heard.records),
    ):
        wanted = get(unbroken)
        found = [get(one) for one in parts]
        if is_exact:
            assert [one for part in found for one in part] == wanted
        else:
            assert found[0] == wanted[: len(found[0])]
            assert found[-1] == wanted[len(wanted) - len(found[-1]) :]
            assert sum(map(len, found)) >= len(wanted)
    if is_exact:
        both = [record for one in parts for record in one.heard.records]
        assert changes(both) == changes(unbroken.heard.records)
        for name in ("json", "csv"):
            mine, wanted = getattr(rest, name), getattr(unbroken, name)
            assert lines_of(mine) == lines_of(wanted)
