"""Draws docs/images/epochs.png: one training session, as its minibatches and actions came.

python docs/pictures/epochs.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import sweephand as sh

LENGTHS = [3, 1, 4, 2, 5, 1]  # samples of each sequence: a sweep has 16
MB_SIZE, EPOCH_SIZE, SAMPLES = 6, 12, 48


class Record:
    """Keeps where minibatches and summaries were."""

    def __init__(self) -> None:
        self.ends = [0]
        self.epochs: list[int] = []

    def update(self, step: sh.Step) -> None:
        """Keep the end of a minibatch."""
        self.ends.append(step.samples)

    def write(self, record: sh.Record) -> None:
        """Keep when an epoch ended."""
        if record.kind == "summary":
            self.epochs.append(record.samples)


def train() -> tuple[Record, list[str]]:
    """Train on a corpus of six sequences, and return what was told and the order of these."""
    offsets = np.cumsum([0, *LENGTHS])
    corpus = sh.ArrayDeserializer({"x": (np.zeros(offsets[-1], np.float32), offsets)})
    source = sh.MinibatchSource(corpus, randomization_seed=3)
    told, w = Record(), np.zeros(1, np.float32)
    trainer = sh.Trainer(
        None, lambda model, minibatch: (1.0, [w]), sh.numpy.SGD([w], 0.0), [told]
    )
    sh.training_session(
        trainer,
        source,
        MB_SIZE,
        max_samples=SAMPLES,
        epoch_size=EPOCH_SIZE,
        progress_frequency=EPOCH_SIZE,
    ).train()
    return told, list(source.sequence_ids(0, SAMPLES))


def bar(axis: plt.Axes, row: float, begin: int, end: int, color: object, text: str) -> None:
    """Draw one piece of a row."""
    axis.barh(row, end - begin, 0.7, begin, color=color, edgecolor="white", linewidth=1.5)
    axis.text((begin + end) / 2, row, text, ha="center", va="center", fontsize=8)


def main() -> None:
    """Draw."""
    told, names = train()
    figure, axis = plt.subplots(figsize=(11, 3.4), layout="constrained")
    sweep = sum(LENGTHS)
    for number in range(SAMPLES // sweep):
        bar(axis, 3, number * sweep, (number + 1) * sweep, "0.85", f"sweep {number}")
    begin = 0
    for name in names:
        sequence = int(name.rsplit("__", 1)[1])
        end = begin + LENGTHS[sequence]
        bar(axis, 2, begin, end, plt.get_cmap("Set3")(sequence), str(sequence))
        begin = end
    for number, (begin, end) in enumerate(zip(told.ends, told.ends[1:], strict=False)):
        bar(axis, 1, begin, end, "lightsteelblue", f"{number}: {end - begin}")
    for number, begin in enumerate(range(0, SAMPLES, EPOCH_SIZE)):
        bar(axis, 0, begin, begin + EPOCH_SIZE, "0.93", "")
        axis.text(begin + 0.4, 0, f"epoch {number}", va="center", fontsize=8)
    for end in told.epochs:
        axis.annotate(
            "actions", (end, 0.6), (end, -0.75), ha="center", fontsize=8, color="tab:red",
            arrowprops={"arrowstyle": "->", "color": "tab:red"}, annotation_clip=False,
        )  # fmt: skip
    axis.set_yticks(
        [3, 2, 1, 0], ["sweeps", "sequences", "minibatches\nof up to 6", "epochs of 12"]
    )
    axis.set_xticks(range(0, SAMPLES + 1, 4))
    axis.set_xlabel("samples since the start: nominal time")
    axis.set_ylim(-0.9, 3.5)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
    path = Path(__file__).parents[1] / "images" / "epochs.png"
    figure.savefig(path, dpi=110)
    print(path, told.ends, told.epochs)


if __name__ == "__main__":
    main()
