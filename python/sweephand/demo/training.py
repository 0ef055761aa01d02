"""The training loop of the demonstration, in this process or in a copy that can be killed.

A copy is ``python -m sweephand.demo.training`` and writes one line of JSON per step.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweephand.demo.corpus import open_corpus
from sweephand.demo.model import NextByteModel
from sweephand.digest import digest_of
from sweephand.source import MinibatchSource


@dataclass(frozen=True)
class Settings:
    """What a run is told.

    Attributes
    ----------
    corpus : Path
        The folder that the corpus was written to.
    steps : int
        Steps of the whole run.
    size : int
        Bytes in a minibatch.
    checkpoint : Path, optional
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
    checkpoint: Path | None = None
    checkpoint_steps: int = 1


@dataclass(frozen=True)
class Step:
    """What one step saw and gave.

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
    """

    number: int
    nominal_time: int
    digest: str
    loss: float


@dataclass(frozen=True)
class Resumed:
    """Where a run went on, and how long it took to get there.

    Attributes
    ----------
    step : int
        The first step that is done again.
    state : dict
        What the source was restored from.
    open_seconds : float
        To open the corpus and make the source.
    place_seconds : float
        From restoring the source to its first minibatch.
    """

    step: int
    state: dict[str, Any]
    open_seconds: float
    place_seconds: float


def train(settings: Settings) -> Iterator[Step | Resumed]:
    """Train step by step; a run that goes on tells first where."""
    model = NextByteModel()
    opening = time.perf_counter()
    with MinibatchSource(
        open_corpus(settings.corpus),
        randomization_seed=settings.seed,
        num_threads=settings.num_threads,
        prefetch=settings.prefetch,
    ) as source:
        opened = time.perf_counter()
        first, state = load_checkpoint(settings.checkpoint, model)
        restoring = time.perf_counter()
        if state:
            source.restore_from_checkpoint(state)
        for number in range(first, settings.steps):
            minibatch = source.next_minibatch(settings.size)
            if state and number == first:
                found = time.perf_counter()
                yield Resumed(first, state, opened - opening, found - restoring)
            data = minibatch["bytes"]
            loss = model.update(data.values, data.offsets)
            yield Step(number, minibatch.nominal_time, digest_of(minibatch), loss)
            if settings.checkpoint and (number + 1) % settings.checkpoint_steps == 0:
                state_after = source.get_checkpoint_state()
                save_checkpoint(settings.checkpoint, model, number + 1, state_after)


def save_checkpoint(path: Path, model: NextByteModel, step: int, state: dict[str, Any]) -> None:
    """Write a checkpoint so that a kill at any moment leaves the old one or the new one."""
    arrays: dict[str, Any] = {f"table{i}": table for i, table in enumerate(model.tables)}
    arrays |= {f"squares{i}": squares for i, squares in enumerate(model.squares)}
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, step=step, state=json.dumps(state), **arrays)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def load_checkpoint(
    path: Path | None, model: NextByteModel
) -> tuple[int, dict[str, Any] | None]:
    """Fill the model; return the next step and the state of the source, (0, None) for none."""
    if path is None or not path.exists():
        return 0, None
    with np.load(path, allow_pickle=False) as saved:
        for i in range(len(model.tables)):
            model.tables[i][:] = saved[f"table{i}"]
            model.squares[i][:] = saved[f"squares{i}"]
        return int(saved["step"]), json.loads(str(saved["state"]))


def to_line(event: Step | Resumed) -> str:
    """Write what happened as a line of JSON, which keeps every bit of a float."""
    return json.dumps([type(event).__name__, asdict(event)])


def from_line(line: str) -> Step | Resumed:
    """Read what `to_line` wrote."""
    kind, fields = json.loads(line)
    return Step(**fields) if kind == "Step" else Resumed(**fields)


def follow(settings: Settings, *, kill_at: int | None = None) -> Iterator[Step | Resumed]:
    """Train in a copy of this program and yield what it tells; at a step, kill it.

    Raises
    ------
    ChildProcessError
        If the copy ends otherwise than by the kill, or fails.
    """
    told = json.dumps(asdict(settings), default=str)
    command = [sys.executable, "-m", "sweephand.demo.training", told]
    # A group of its own, so that Ctrl-C reaches us alone and we end the copy.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as copy:
        assert copy.stdout is not None
        try:
            for line in copy.stdout:
                if not line.endswith("\n"):
                    break  # the kill cut it
                event = from_line(line)
                if isinstance(event, Step) and event.number == kill_at:
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
    """Train as the command line says, and tell each step on standard output."""
    told = json.loads(sys.argv[1])
    corpus, checkpoint = Path(told.pop("corpus")), Path(told.pop("checkpoint"))
    for event in train(Settings(corpus=corpus, checkpoint=checkpoint, **told)):
        print(to_line(event), flush=True)


if __name__ == "__main__":
    main()
