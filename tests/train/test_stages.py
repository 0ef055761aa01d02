"""The last event of a session says which stage has limited it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh
from sweephand.train.session.session import limiting_stage
from sweephand.train.trainer import trainer_state as stopwatch

NOTHING = dict.fromkeys(
    ("waited_seconds", "read_seconds", "decode_seconds", "assemble_seconds"), 0.0
)


@pytest.mark.parametrize(
    ("waited", "spent", "says"),
    [
        (0.4, {}, "the model limits: it took 96% of the time, and waited for data 4%"),
        (5.0, {"waited_seconds": 1.0}, "what is done between steps limits: 50% of the time"),
        (
            6.0,
            {"waited_seconds": 6.0, "read_seconds": 8.0, "decode_seconds": 2.0},
            "disk limits: the model waited 60% of the time for data; of the 10.0 s that the "
            "loader worked, waiting for disk or network 80%, decoding 20%, assembling 0%",
        ),
        (6.0, {"waited_seconds": 6.0, "decode_seconds": 2.0}, "decode limits: "),
        (6.0, {"waited_seconds": 6.0, "assemble_seconds": 2.0}, "assemble limits: "),
    ],
)
def test_the_verdict_is_by_the_figures(
    waited: float, spent: dict[str, float], says: str
) -> None:
    verdict = limiting_stage(10.0, waited, NOTHING, NOTHING | spent)
    assert verdict is not None
    assert verdict.startswith(says)


def verdict_of(source: sh.MinibatchSource, **options: Any) -> str:
    heard = Heard()
    with source:
        sh.training_session(line_trainer([heard], **options), source, 8).train()
    return str(heard.of("event")[-1].figures["message"])


class Clock:
    """A clock that every look at it moves on a little."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 0.001
        return self.now


def test_a_slow_model_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(stopwatch, "time", clock)

    def slow(model: Line, minibatch: sh.Minibatch) -> Any:
        clock.now += 0.05
        return squared_error(model, minibatch)

    verdict = verdict_of(source_of_lengths([1] * 80, max_sweeps=1), criterion=slow)
    assert verdict.startswith("the model limits: it took 9")
