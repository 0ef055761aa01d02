"""The ledger: what sequences with right and wrong labels cost, visit by visit."""

import importlib.util
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import sweephand as sh

EXAMPLE = Path(__file__).parents[2] / "examples" / "loss_ledger.py"
SWEEPS = 5


def draw() -> Figure:
    """Draw the losses of all visits of the example's run, and how they are spread at last."""
    spec = importlib.util.spec_from_file_location("loss_ledger", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    corpus, wrong = example.make_corpus(np.random.default_rng(0))
    model = {
        "w": np.zeros((2, example.CLASSES), np.float32),
        "b": np.zeros(example.CLASSES, np.float32),
    }
    with tempfile.TemporaryDirectory() as folder, sh.LossLedger(folder) as ledger:
        learner = sh.numpy.Adam(model, sh.learning_parameter_schedule(0.02))
        trainer = sh.Trainer(model, example.cross_entropy, learner, progress_writers=ledger)
        source = sh.MinibatchSource(corpus, max_sweeps=SWEEPS)
        for minibatch in source.minibatches(500):
            trainer.train_minibatch(minibatch)
        rows = ledger.table().to_pylist()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.2), layout="constrained")
    kinds = {"right labels": ("C0", 2), "wrong labels": ("C3", 12)}
    last_sweep = (SWEEPS - 1) * source.num_samples_per_sweep
    for name, (color, size) in kinds.items():
        own = [row for row in rows if (row["id"] in wrong) == (name == "wrong labels")]
        steps, losses = [row["step"] for row in own], [row["loss"] for row in own]
        left.scatter(steps, losses, size, color=color, label=name, linewidths=0)
        last = [row["loss"] for row in own if row["nominal_time"] >= last_sweep]
        right.hist(last, np.linspace(0, 6, 40), color=color, label=name, log=True)
    left.set_xlabel("step")
    left.set_ylabel("loss of a visit")
    right.set_xlabel("loss in the last sweep")
    right.set_ylabel("sequences")
    for axis in (left, right):
        axis.legend()
    return figure
