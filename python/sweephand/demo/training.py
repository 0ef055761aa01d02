"""The training loop of the demonstration, in this process or in a copy that can be killed.

A copy is ``python -m sweephand.demo.training`` and writes one line of JSON per step.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sweephand.numpy
from sweephand.demo.library_text import open_text
from sweephand.demo.model import NextByteModel
from sweephand.minibatch.content_digest import digest_of
from sweephand.minibatch.minibatch import Minibatch
from sweephand.run.strict_json import of_json, to_json
from sweephand.source.source import MinibatchSource
from sweephand.train.loss_scale.loss_scale_optimizer import LossScaleOptimizer
from sweephand.train.progress.record import Record, Step
from sweephand.train.schedules.learning_rates import learning_parameter_schedule
from sweephand.train.trainer.trainer import Trainer

_RATE = 0.03  # of Adam, for a minibatch of 4096 bytes
_FIRST_SCALE = 256.0
_GROWTH_STEPS = 60  # few, so that a short run sees the scale rise and fall


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes
    ----------
    corpus : Path
        The folder that the corpus was written to.
    steps : int
        Steps of the whole run.
    size : int
        Bytes in a minibatch.
    checkpoints : Path, optional
        Where the run saves itself every `checkpoint_steps` steps, and goes on from if it can.
    num_threads, prefetch : int
        As in `MinibatchSource`; they must not matter.
    """

    corpus: Path
    steps: int
    size: int
    seed: int
    num_threads: int
    prefetch: int
    checkpoints: Path | None = None
    checkpoint_steps: int = 1


@dataclass(frozen=True)
class DemoStep:
    """Input and result of one step.

    Attributes
    ----------
    number : int
        From 0.
    nominal_time : int
        Bytes that were seen before.
    digest : str
        Of the ids and the bytes of the minibatch.
    loss : float
        In nats per byte.
    scale : float
        What the loss was multiplied by.
    applied : bool
        Whether the tables were changed: not if a gradient was too large for 16 bits.
    """

    number: int
    nominal_time: int
    digest: str
    loss: float
    scale: float
    applied: bool


@dataclass(frozen=True)
class Resumed:
    """Where a run went on, and how long it took to get there.

    Attributes
    ----------
    step : int
        The first step that is done again.
    state : dict
        What the source was restored from.
    place_seconds : float
        From restoring the source to its first minibatch.
    """

    step: int
    state: dict[str, Any]
    place_seconds: float


class DemoRun:
    """A model in float16 with its trainer and loss scale."""

    def __init__(self) -> None:
        self.model = NextByteModel()
        rates = learning_parameter_schedule(_RATE, minibatch_size=4096)
        self.scale = LossScaleOptimizer(
            sweephand.numpy.Adam(self.model.parameters, rates),
            initial_scale=_FIRST_SCALE,
            dynamic_growth_steps=_GROWTH_STEPS,
        )
        self._is_applied = False
        self.trainer = Trainer(self.model, self._criterion, self.scale, self)

    def step(self, number: int, minibatch: Minibatch) -> DemoStep:
        """Take a step and return its record."""
        scale = self.scale.loss_scale
        self.trainer.train_minibatch(minibatch)
        loss = self.trainer.previous_minibatch_loss_average
        digest = digest_of(minibatch)
        return DemoStep(number, minibatch.nominal_time, digest, loss, scale, self._is_applied)

    def restore(self, checkpoints: Path | None) -> dict[str, Any] | None:
        """Go on from the newest checkpoint; return the state of the source, None for none."""
        if checkpoints is None:
            return None
        try:
            state: dict[str, Any] = self.trainer.restore_from_checkpoint(checkpoints)
        except FileNotFoundError:
            return None
        return state

    def update(self, step: Step) -> None:
        """Note if a step was applied; the trainer calls it after every step."""
        self._is_applied = step.applied

    def write(self, record: Record) -> None:
        """Do nothing."""

    def _criterion(self, model: NextByteModel, minibatch: Minibatch) -> tuple[float, list[Any]]:
        data = minibatch["bytes"]
        scale = float(self.scale.get_scaled_loss(1.0))
        return model.differentiate(data.values, data.offsets, scale)


def train(settings: Settings) -> Iterator[DemoStep | Resumed]:
    """Train step by step; a resumed run yields its place first."""
    run = DemoRun()
    with MinibatchSource(
        open_text(settings.corpus),
        randomization_seed=settings.seed,
        num_threads=settings.num_threads,
        prefetch=settings.prefetch,
    ) as source:
        state = run.restore(settings.checkpoints)
        first = run.trainer.consumed.steps
        restoring = time.perf_counter()
        if state:
            source.restore_from_checkpoint(state)
        for number in range(first, settings.steps):
            minibatch = source.next_minibatch(settings.size)
            if state and number == first:
                found = time.perf_counter()
                yield Resumed(first, state, found - restoring)
            yield run.step(number, minibatch)
            if settings.checkpoints and (number + 1) % settings.checkpoint_steps == 0:
                run.trainer.save_checkpoint(
                    settings.checkpoints, external_state=source.get_checkpoint_state()
                )


def to_line(event: DemoStep | Resumed) -> str:
    """Write a record as a line of JSON, which keeps every bit of a float."""
    return to_json([type(event).__name__, asdict(event)])


def from_line(line: str) -> DemoStep | Resumed:
    """Read a line of `to_line`."""
    kind, fields = of_json(json.loads(line))
    return DemoStep(**fields) if kind == "DemoStep" else Resumed(**fields)


def follow(settings: Settings, *, kill_at: int | None = None) -> Iterator[DemoStep | Resumed]:
    """Train in a copy of this program and yield its records; kill it at a step.

    ChildProcessError if the copy ends otherwise than by the kill, or fails.
    """
    arguments = to_json(asdict(settings), default=str)
    command = [sys.executable, "-m", "sweephand.demo.training", arguments]
    # A group of its own, so that Ctrl-C reaches us alone and we end the copy.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as copy:
        assert copy.stdout is not None
        try:
            for line in copy.stdout:
                if not line.endswith("\n"):
                    break  # the kill cut it
                event = from_line(line)
                if isinstance(event, DemoStep) and event.number == kill_at:
                    copy.send_signal(signal.SIGKILL)
                yield event
        except BaseException:
            copy.kill()
            raise
    if kill_at is None and copy.returncode != 0:
        raise ChildProcessError(f"the copy failed with exit code {copy.returncode}")
    if kill_at is not None and copy.returncode != -signal.SIGKILL:
        raise ChildProcessError("the copy ended before it could be killed; give it more steps")


def main() -> None:
    """Train by the settings of the command line, and print each step."""
    values = of_json(json.loads(sys.argv[1]))
    corpus, checkpoints = Path(values.pop("corpus")), Path(values.pop("checkpoints"))
    for event in train(Settings(corpus=corpus, checkpoints=checkpoints, **values)):
        print(to_line(event), flush=True)


if __name__ == "__main__":
    main()
