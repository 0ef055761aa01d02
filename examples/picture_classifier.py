"""A picture classifier over class folders: crops and flips that are the same after a resume.

    python examples/picture_classifier.py [--output folder]

Pictures of stripes, a folder for each direction, are decoded, cropped and flipped when they are
delivered. Stop it by Ctrl-C and start it again with the same --output: it goes on. It needs
Pillow.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    from PIL import Image
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[image]'")


import sweephand as sh

CLASSES = ("across", "down", "slant")
SIDE = 24  # pixels of what is classified


def write_pictures(folder: Path, per_class: int) -> Path:
    """Write JPEGs of noisy stripes, of several sizes, unless they are there."""
    rng = np.random.default_rng(0)
    if folder.exists():
        return folder
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            height, width = rng.integers(28, 48, 2)
            y, x = np.mgrid[:height, :width]
            along = (y, x, x + y)[label] * rng.uniform(0.8, 1.2) + rng.uniform(0, 6)
            stripes = (
                128 + 80 * np.sin(along)[..., None] + rng.normal(0, 25, (height, width, 3))
            )
            picture = Image.fromarray(stripes.clip(0, 255).astype(np.uint8))
            picture.save(folder / name / f"{number:04}.jpg")
    return folder


def make_source(folder: Path, **limits: int) -> sh.MinibatchSource:
    """Decode, crop, flip, and bring to floats."""
    steps = [
        sh.images.RandomCrop(SIDE),
        sh.images.RandomHorizontalFlip(),
        sh.images.RandomVerticalFlip(),
        sh.images.ToDtype("float32"),
        sh.images.Normalize(0.5, 0.25),
    ]
    corpus = sh.ImageFolder(folder).map(sh.decode.image("image", mode="L", transforms=steps))
    return sh.MinibatchSource(corpus, **limits)


class Classifier:
    """Strength of each frequency of the picture, and a linear layer: one way is to learn."""

    def __init__(self) -> None:
        self.parameters = {
            "w": np.zeros((SIDE * SIDE, len(CLASSES)), np.float32),
            "b": np.zeros(len(CLASSES), np.float32),
        }


def cross_entropy(model: Classifier, minibatch: sh.Minibatch) -> tuple[float, float, list]:
    """Return the sums of loss and errors over the minibatch, and those of the gradients."""
    pictures, labels = minibatch["image"].values[:, 0], minibatch["label"].values
    features = np.abs(np.fft.fft2(pictures)).reshape(len(pictures), -1) / SIDE
    logits = features @ model.parameters["w"] + model.parameters["b"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(labels))
    loss = -np.log(p[places, labels] + 1e-9).sum()
    errors = (p.argmax(axis=1) != labels).sum()
    p[places, labels] -= 1
    return float(loss), float(errors), [features.T @ p, p.sum(0)]


def main() -> None:
    """Train, or go on with what was saved."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--samples", type=int, default=6_000, help="to train on")
    arguments.add_argument("--pictures", type=int, default=200, help="of each class")
    arguments.add_argument("--output", type=Path, help="folder of pictures and checkpoints")
    options = arguments.parse_args()
    model = Classifier()
    with tempfile.TemporaryDirectory() as temporary:
        output = options.output or Path(temporary)
        learner = sh.numpy.MomentumSGD(
            model.parameters,
            sh.learning_parameter_schedule_per_sample(1e-3),
            sh.momentum_schedule(0.9),
        )
        trainer = sh.Trainer(model, cross_entropy, learner, sh.ProgressPrinter())
        sh.training_session(
            trainer,
            make_source(write_pictures(output / "pictures", options.pictures)),
            mb_size=64,
            max_samples=options.samples,
            epoch_size=1_500,
            checkpoint_config=sh.CheckpointConfig(output / "checkpoints", frequency=1_500),
        ).train()
    print(f"{trainer.total_number_of_samples_seen} samples seen")


if __name__ == "__main__":
    main()
