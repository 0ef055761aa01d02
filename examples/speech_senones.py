"""Frames of speech to senones, from HTK's files as CNTK's recipes have them.

    python examples/speech_senones.py

A feature archive, the list of its utterances, and a master label file are written, of made-up
speech: states follow one another, and each has a mean of its own under much noise. A frame is
learnt with those beside it, by softmax regression, in frames from all utterances at random.
"""

import argparse
import struct
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

STATES = ("sil", "ah_s2", "ah_s3", "b_s2", "b_s3")
VALUES = 13
CONTEXT = 3  # frames on either side


def write_speech(folder: Path, count: int) -> None:
    """Write `all.chunk`, `train.scp`, `train.mlf` and `states.txt`."""
    random = np.random.default_rng(0)
    means = random.normal(0, 0.5, (len(STATES), VALUES))
    frames: list[NDArray[Any]] = []
    lines, labels = [], ["#!MLF!#"]
    for number in range(count):
        runs = random.integers(3, 12, len(STATES))
        states = np.repeat(random.permutation(len(STATES)), runs)
        begin = sum(map(len, frames))
        frames.append(means[states] + random.normal(0, 1, (len(states), VALUES)))
        lines.append(f"an/{number}.mfc=all.chunk[{begin},{begin + len(states) - 1}]")
        labels.append(f'"*/an/{number}.lab"')
        ends = np.cumsum([0, *runs]) * 100_000  # of 100 ns
        for begin, end in pairwise(ends):
            labels.append(f"{begin} {end} {STATES[states[begin // 100_000]]}")
        labels.append(".")
    stored = np.concatenate(frames).astype(">f4")
    header = struct.pack(">iihh", len(stored), 100_000, 4 * VALUES, 6)  # MFCC
    (folder / "all.chunk").write_bytes(header + stored.tobytes())
    (folder / "train.scp").write_text("\n".join(lines))
    (folder / "train.mlf").write_text("\n".join(labels))
    (folder / "states.txt").write_text("\n".join(STATES))


def open_speech(folder: Path, context: int) -> list[sh.Deserializer]:
    """Return features and labels, which a source joins."""
    features = sh.io.StreamDef(
        shape=VALUES, context=(context, context), scp=folder / "train.scp"
    )
    labels = sh.io.StreamDef(mlf=folder / "train.mlf")
    return [
        sh.HTKFeatureDeserializer(sh.StreamDefs(features=features)),
        sh.HTKMLFDeserializer(folder / "states.txt", sh.StreamDefs(labels=labels)),
    ]


def train(corpus: list[sh.Deserializer], context: int, sweeps: int) -> float:
    """Return the share of frames whose state is told, in the last sweep."""
    values = VALUES * (1 + 2 * context)
    model = {
        "w": np.zeros((values, len(STATES)), np.float32),
        "b": np.zeros(len(STATES), np.float32),
    }
    right: list[bool] = []

    def criterion(model: dict[str, Any], minibatch: Any) -> tuple[float, list[Any]]:
        x, y = minibatch["features"].values, minibatch["labels"].values
        scores = x @ model["w"] + model["b"]
        right.extend(scores.argmax(axis=1) == y)
        scores -= scores.max(axis=1, keepdims=True)
        told = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        loss = -np.log(told[np.arange(len(y)), y]).sum()
        told[np.arange(len(y)), y] -= 1
        return float(loss), [x.T @ told, told.sum(axis=0)]

    lr = sh.learning_parameter_schedule(0.1, minibatch_size=64)
    trainer = sh.Trainer(model, criterion, [sh.numpy.MomentumSGD(model, lr, 0.9)])
    with sh.MinibatchSource(corpus, frame_mode=True, max_sweeps=sweeps) as source:
        for minibatch in source.minibatches(64):
            trainer.train_minibatch(minibatch)
        count = source.num_samples_per_sweep
    return float(np.mean(right[-count:]))


def main() -> None:
    """Train with frames alone, and with those beside them."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--utterances", type=int, default=200)
    arguments.add_argument("--sweeps", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_speech(folder, options.utterances)
        for context in (0, CONTEXT):
            found = train(open_speech(folder, context), context, options.sweeps)
            print(f"{found:.0%} of the frames told with {context} on either side")


if __name__ == "__main__":
    main()
