"""Epochs: one training session, as its minibatches and actions came."""

import matplotlib.pyplot as plt
import numpy as np
from drawing import bare, color, piece
from matplotlib.figure import Figure

import sweephand as sh

LENGTHS = [3, 1, 4, 2, 5, 1]  # samples of each sequence: a sweep has 16
MB_SIZE, EPOCH_SIZE, SAMPLES = 6, 12, 48


class Record(sh.train.ProgressWriter):
    """Keeps where minibatches and summaries were."""

    def __init__(self) -> None:
        self.ends = [0]
        self.epochs: list[int] = []

    def update(self, step: sh.train.Step) -> None:
        """Keep the end of a minibatch."""
        self.ends.append(step.samples)

    def write(self, record: sh.train.Record) -> None:
        """Keep when an epoch ended."""
        if record.kind == "summary":
            self.epochs.append(record.samples)


def train() -> tuple[Record, list[str]]:
    """Train on a corpus of six sequences; return the recorded progress and their order."""
    offsets = np.cumsum([0, *LENGTHS])
    corpus = sh.ArrayDeserializer({"x": (np.zeros(offsets[-1], np.float32), offsets)})
    source = sh.MinibatchSource(corpus, randomization_seed=3)
    record, w = Record(), np.zeros(1, np.float32)
    trainer = sh.Trainer(
        None, lambda model, minibatch: (1.0, [w]), sh.numpy.SGD([w], 0.0), [record]
    )
    sh.training_session(
        trainer,
        source,
        MB_SIZE,
        max_samples=SAMPLES,
        epoch_size=EPOCH_SIZE,
        progress_frequency=EPOCH_SIZE,
    ).train()
    return record, list(source.sequence_ids(0, SAMPLES))


def draw() -> Figure:
    """Draw sweeps, sequences, minibatches and epochs below each other."""
    record, names = train()
    figure, axis = plt.subplots(figsize=(11, 3.4), layout="constrained")
    sweep = sum(LENGTHS)
    for number in range(SAMPLES // sweep):
        piece(axis, 3, number * sweep, (number + 1) * sweep, "0.85", f"sweep {number}")
    begin = 0
    for name in names:
        sequence = int(name.rsplit("__", 1)[1])
        end = begin + LENGTHS[sequence]
        piece(axis, 2, begin, end, color(sequence), str(sequence))
        begin = end
    for number, (begin, end) in enumerate(zip(record.ends, record.ends[1:], strict=False)):
        piece(axis, 1, begin, end, "lightsteelblue", f"{number}: {end - begin}")
    for number, begin in enumerate(range(0, SAMPLES, EPOCH_SIZE)):
        piece(axis, 0, begin, begin + EPOCH_SIZE, "0.93", "")
        axis.text(begin + 0.4, 0, f"epoch {number}", va="center", fontsize=8)
    for end in record.epochs:
        axis.annotate(
            "actions", (end, 0.6), (end, -0.75), ha="center", fontsize=8, color="tab:red",
            arrowprops={"arrowstyle": "->", "color": "tab:red"}, annotation_clip=False,
        )  # fmt: skip
    rows = {3: "sweeps", 2: "sequences", 1: "minibatches\nof up to 6", 0: "epochs of 12"}
    bare(axis, rows)
    axis.set_xticks(range(0, SAMPLES + 1, 4))
    axis.set_xlabel("nominal time: samples served since the start")
    axis.set_ylim(-0.9, 3.5)
    return figure
