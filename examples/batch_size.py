"""Choose the batch size by measurement: noise scale, branches, a seesaw in place of a decay.

    python examples/batch_size.py --figure batch_size.png

Two runs of a classifier over the same samples. The first one lets its learning rate fall along
a cosine, in cuts, while it measures how large minibatches could be: by the noise of gradients
at every step, and by branches at the end of every epoch. The second one lets minibatches grow
in place of half of each cut, and needs fewer steps.
"""

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from figure import curve, draw

import sweephand as sh

CLASSES, FEATURES = 4, 40
SIZE = 64


def make_corpus(num_samples: int, seed: int) -> sh.ArrayDeserializer:
    """Make points of classes that overlap, so that gradients stay noisy to the end."""
    centres = np.random.default_rng(0).normal(0, 0.3, (CLASSES, FEATURES))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, num_samples)
    x = rng.normal(centres[labels], 1.0).astype(np.float32)
    return sh.ArrayDeserializer({"x": x, "labels": labels})


def cross_entropy(model: dict, minibatch: sh.Minibatch) -> tuple[float, list]:
    """Return the sum of the loss over the minibatch, and those of the gradients."""
    x, labels = minibatch["x"].values, minibatch["labels"].values
    logits = x @ model["w"] + model["b"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(x))
    loss = -np.log(p[places, labels]).sum()
    p[places, labels] -= 1
    return float(loss), [x.T @ p, p.sum(axis=0)]


def train(log: Path, rates: object, sizes: object, num_samples: int, **options: object) -> int:
    """Train, write what happens into a log, and return the number of steps."""
    model = {
        "w": np.zeros((FEATURES, CLASSES), np.float32),
        "b": np.zeros(CLASSES, np.float32),
    }
    trainer = sh.Trainer(
        model,
        cross_entropy,
        sh.numpy.Adam(model, rates),
        [sh.JSONLProgressWriter(log, freq=100), sh.train.GradientNoiseScale(decay=0.999)],
        sub_minibatches=4,
    )
    sh.training_session(
        trainer,
        sh.MinibatchSource(make_corpus(50_000, seed=1)),
        sizes,
        max_samples=num_samples,
        epoch_size=max(1, num_samples // 8),
        cv_config=sh.CrossValidationConfig(
            sh.MinibatchSource(make_corpus(10_000, seed=2), max_sweeps=1),
            frequency=max(1, num_samples // 24),
            minibatch_size=5000,
        ),
        **options,
    ).train()
    return trainer.consumed.steps


def main() -> None:
    """Train both, and draw them."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--samples", type=int, default=400_000, help="of each run")
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    arguments.add_argument("--figure", type=Path, help="picture to draw")
    options = arguments.parse_args()
    total = options.samples
    begins = [round(total * np.arccos(2 / 2**k - 1) / np.pi) for k in range(7)]
    cuts = [(end - begin, 0.005 / 2**k) for k, (begin, end) in enumerate(pairwise(begins))]
    cosine = sh.learning_parameter_schedule([*cuts, 0.005 / 2**6], epoch_size=1)
    branches = sh.train.CriticalBatchSize(total // 8, tolerance=0.005, max_size=8192)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        fixed, grown = folder / "cosine.jsonl", folder / "seesaw.jsonl"
        for log in fixed, grown:
            log.unlink(missing_ok=True)
        steps = train(fixed, cosine, SIZE, total, activities=[branches])
        noise = curve(fixed, "training", "gradient_noise_scale")
        critical = curve(fixed, "change", "critical_batch_size")
        rates, sizes, saved = sh.train.seesaw(cosine, SIZE, total, max_size=max(critical[1]))
        fewer = train(grown, rates, sizes, total)
        losses = {
            name: curve(log, "validation", "loss")
            for name, log in (("cosine", fixed), ("seesaw", grown))
        }
        print(f"cosine: {steps} steps, validation loss {losses['cosine'][1][-1]:.4f}")
        print(f"seesaw: {fewer} steps, validation loss {losses['seesaw'][1][-1]:.4f}")
        print(f"{saved} steps saved by the schedules")
        if options.figure:
            times = list(range(0, total, max(1, total // 200)))
            draw(
                options.figure,
                f"A seesaw takes {fewer} steps, a cosine {steps}",
                [
                    ("validation loss", losses),
                    (
                        "learning rate",
                        {
                            "cosine": (times, [cosine[t] for t in times]),
                            "seesaw": (times, [rates[t] for t in times]),
                        },
                    ),
                    (
                        "samples",
                        {
                            "noise scale": noise,
                            "critical batch size": critical,
                            "minibatch, seesaw": (times, [sizes[t] for t in times]),
                            "minibatch, cosine": (times, [SIZE for _ in times]),
                        },
                    ),
                ],
                log_scales=("samples",),
            )


if __name__ == "__main__":
    main()
