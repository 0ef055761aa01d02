"""The last event of a session says which stage has limited it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh
from sweephand.train.session.session import limiting_stage
from sweephand.train.trainer import trainer as stopwatch

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


def test_without_a_step_there_is_no_verdict() -> None:
    assert limiting_stage(0.0, 0.0, NOTHING, NOTHING) is None


class Slow(sh.UserDeserializer):
    """Chunks of 8 samples that take their time, asleep or at work."""

    def __init__(self, seconds: float, *, is_busy: bool) -> None:
        self._seconds, self._is_busy = seconds, is_busy

    def stream_infos(self) -> list[sh.StreamInfo]:
        return [
            sh.StreamInfo("x", np.float32, (2,)),
            sh.StreamInfo("labels", np.float32, ()),
        ]

    def num_chunks(self) -> int:
        return 10

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        end = time.perf_counter() + self._seconds
        if not self._is_busy:
            time.sleep(self._seconds)
        while time.perf_counter() < end:
            sum(range(100))
        x = np.ones((8, 2), np.float32)
        return {"x": x, "labels": x[:, 0]}


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


@pytest.mark.parametrize(("is_busy", "stage"), [(False, "disk"), (True, "decode")])
@pytest.mark.parametrize("num_threads", [0, 1])
def test_a_slow_deserializer_limits(is_busy: bool, stage: str, num_threads: int) -> None:
    corpus = Slow(0.01, is_busy=is_busy)
    verdicts: list[str] = []
    for _ in range(10):  # a machine that stands still makes another stage the slow one
        verdicts.append(
            verdict_of(
                sh.MinibatchSource(
                    corpus, max_sweeps=1, randomize=False, num_threads=num_threads
                )
            )
        )
        if verdicts[-1].startswith(f"{stage} limits: the model waited "):
            return
    pytest.fail(str(verdicts))


def test_the_source_counts_what_its_threads_took() -> None:
    with sh.MinibatchSource(Slow(0.05, is_busy=False), max_sweeps=1) as source:
        assert sum(minibatch.num_samples for minibatch in source.minibatches(8)) == 80
        stats = source.stats()
    assert stats["read_seconds"] > 0.45
    assert stats["decode_seconds"] < 0.45  # whoever wakes up may wait for a processor
    assert stats["assemble_seconds"] > 0
