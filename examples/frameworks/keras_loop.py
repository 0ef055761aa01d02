"""Keras' `fit` over our source, on PyTorch or JAX: ragged text in buckets, resumed exactly.

    KERAS_BACKEND=torch python examples/frameworks/keras_loop.py
    KERAS_BACKEND=jax python examples/frameworks/keras_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code, its
samples are letters. Lines of similar length share a minibatch, padded to one of four widths.

Needs: pip install keras, and torch or jax
"""

import argparse
import inspect
import json
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
except ModuleNotFoundError:
    raise SystemExit("this example needs Keras: pip install keras") from None

SIZE, SWEEPS, BUCKETS = 4096, 3, 4  # letters in a minibatch; passes over the corpus; widths


def make_source(*, validation: bool) -> sh.MinibatchSource:
    """Serve the lines of two modules, every tenth for validation."""
    texts, labels = [], []
    for label, module in enumerate((argparse, tarfile)):
        for number, line in enumerate(inspect.getsource(module).splitlines()):
            if line.strip() and (number % 10 == 0) == validation:
                texts.append(np.array([ord(letter) % 128 for letter in line.strip()], np.int32))
                labels.append(np.float32(label))
    corpus = sh.ArrayDeserializer({"text": texts, "labels": np.array(labels)})
    layout = sh.Bucketed("auto", BUCKETS)
    return sh.MinibatchSource(corpus, randomize=not validation, layout=layout)


class Sweep(keras.utils.PyDataset):
    """The minibatches of a sweep by their number: Keras asks for some twice, or ahead."""

    def __init__(self, source: sh.MinibatchSource) -> None:
        super().__init__()
        self.source = source
        self.go_to(source.current_position)

    def go_to(self, time: int) -> None:
        """Be what is left of a sweep at a nominal time."""
        samples = self.source.num_samples_per_sweep
        self.end = (time // samples + 1) * samples
        self.times = []  # at which the minibatches begin, and the end
        for minibatch in self.source.plan(SIZE, start=time):
            if minibatch.nominal_time >= self.end:
                break
            self.times.append(minibatch.nominal_time)
        self.times.append(self.end)

    @property
    def num_batches(self) -> int:
        """Return how many minibatches there are."""
        return len(self.times) - 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return text of shape (sequences, width of the bucket), labels, and their weights."""
        if self.source.current_position != self.times[index]:
            self.source.current_position = self.times[index]
        minibatch = self.source.next_minibatch(SIZE)
        labels = minibatch["labels"].values[:, None]
        weight = np.float32(1 / minibatch.global_num_label_samples)  # of all workers
        return minibatch["text"].asarray(), labels, np.full(len(labels), weight)


class KeepPlace(keras.callbacks.Callback):
    """Tell a `Sweep` which one it is, and note what was trained; save at a step, and stop."""

    def __init__(self, sweep: Sweep, place: int, stop_at: int | None = None) -> None:
        super().__init__()
        self.sweep, self.place, self.stop_at = sweep, place, stop_at

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Go to the begin of the epoch's sweep, or to where it was left."""
        self.place = max(self.place, epoch * self.sweep.source.num_samples_per_sweep)
        self.sweep.go_to(self.place)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the place after the minibatch."""
        self.place = self.sweep.times[batch + 1]
        self.model.stop_training = batch == self.stop_at


def make_model(width: int = 32) -> keras.Model:
    """Return letters and their neighbours, the mean over a line, and a probability."""
    keras.utils.set_random_seed(0)
    text = keras.Input((None,), dtype="int32")
    mask = keras.ops.expand_dims(keras.ops.cast(keras.ops.not_equal(text, 0), "float32"), -1)
    x = keras.layers.Embedding(128, width)(text) * mask
    x = keras.layers.Conv1D(width, 3, padding="same", activation="relu")(x) * mask
    x = keras.ops.sum(x, 1) / keras.ops.sum(mask, 1)
    model = keras.Model(text, keras.layers.Dense(1, activation="sigmoid")(x))
    loss = keras.losses.BinaryCrossentropy(reduction="sum")  # of weighted labels
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def train(folder: Path, place: int = 0, stop_at: int | None = None) -> keras.Model:
    """Train what is left of all sweeps; save model and place."""
    source = make_source(validation=False)
    source.current_position = place
    model = keras.saving.load_model(folder / "model.keras") if place else make_model()
    sweep, validation = Sweep(source), Sweep(make_source(validation=True))
    keep = KeepPlace(sweep, place, stop_at)
    epoch, inside = divmod(place, source.num_samples_per_sweep)
    # The epochs of one `fit` have as many minibatches each, so the rest of a sweep is another.
    for end in sorted({epoch + 1, SWEEPS} if inside else {SWEEPS}):
        sweep.go_to(keep.place)
        history = model.fit(
            sweep, initial_epoch=epoch, epochs=end, validation_data=validation,
            callbacks=[keep], shuffle=False, verbose=0,
        )  # fmt: skip
        epoch = end
        print("validation:", *(f"{loss:.3f}" for loss in history.history["val_loss"]))
    model.save(folder / "model.keras")
    (folder / "place.json").write_text(json.dumps(keep.place))
    return model


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        whole = train(Path(name))
        train(Path(name), stop_at=20)
        rest = train(Path(name), json.loads(Path(name, "place.json").read_text()))
    pairs = zip(whole.get_weights(), rest.get_weights(), strict=True)
    same = all(np.array_equal(one, other) for one, other in pairs)
    print(f"{keras.backend.backend()}: stopped and resumed, the weights are the same: {same}")
    assert same


if __name__ == "__main__":
    main()
