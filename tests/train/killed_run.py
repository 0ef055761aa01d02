"""A small training run that is killed and started again: run by test_kill.py.

usage: killed_run.py FOLDER STEPS...

It runs in children, so that its libraries are imported once: to the end in one folder; then in
another folder, where it is killed each time when it has told so many steps, then to the end,
and once more. Prints what each of them told, as JSON: for every step its number, and a line of
the number, a hash of the ids of its sequences, the loss, and a hash of the parameters after it.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

SAMPLES = 400


def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
    x, y = minibatch["x"].values, minibatch["labels"].values
    x = x * (np.random.random(x.shape) > 0.1)  # noqa: NPY002
    error = x @ model - y
    return float(error @ error), [2 * x.T @ error]


def digest(model: Any) -> str:
    return hashlib.sha256(bytes(model)).hexdigest()[:16]


class Telling(sh.train.ProgressWriter):
    """Writes a line for every step."""

    def __init__(self, pipe: int, model: Any, ids: list[str]) -> None:
        self._pipe = pipe
        self._model = model
        self._ids = ids

    def update(self, step: sh.train.Step) -> None:
        ids = hashlib.sha256(" ".join(self._ids).encode()).hexdigest()[:16]
        line = f"{step.step} {ids} {step.loss.hex()} {digest(self._model)}\n"
        os.write(self._pipe, line.encode())


def train(folder: Path, pipe: int) -> None:
    model = np.zeros(3, np.float16)
    learner = sh.numpy.Adam([model], 0.01)
    ids: list[str] = []

    def noting(model: Any, minibatch: sh.Minibatch) -> Any:
        ids[:] = sorted(minibatch.ids)
        return criterion(model, minibatch)

    rng = np.random.default_rng(0)
    offsets = np.cumsum([0, *rng.integers(1, 6, 30)])
    x = rng.normal(size=(offsets[-1], 3)).astype(np.float32)
    corpus = sh.ArrayDeserializer({"x": (x, offsets), "labels": (x.sum(1), offsets)})
    np.random.seed(4)  # noqa: NPY002
    sh.training_session(
        sh.Trainer(model, noting, learner, Telling(pipe, model, ids)),
        sh.MinibatchSource(corpus, randomization_seed=3),
        8,
        max_samples=SAMPLES,
        checkpoint_config=sh.CheckpointConfig(folder, frequency=(3, "minibatch")),
    ).train()


def run(folder: Path, kill_after: int | None = None) -> list[tuple[int, str]]:
    """Run to the end, or until it has told so many steps and is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        train(folder, writing)
        os._exit(0)
    os.close(writing)
    told = []
    with os.fdopen(reading) as lines:
        for line in lines:
            told.append((int(line.split()[0]), line))
            if len(told) == kill_after:
                os.kill(child, signal.SIGKILL)  # and read what it had told before
    _, code = os.waitpid(child, 0)
    was_killed = kill_after is not None and len(told) >= kill_after
    assert os.waitstatus_to_exitcode(code) == (-signal.SIGKILL if was_killed else 0)
    return told


def main() -> None:
    root, steps = Path(sys.argv[1]), map(int, sys.argv[2:])
    told = [run(root / "golden")]
    told += [run(root / "killed", kill_after) for kill_after in (*steps, None, None)]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
