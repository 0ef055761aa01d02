"""A loop in JAX: a compiled step, static shapes by buckets, a checkpoint that goes on exactly.

    python examples/frameworks/jax_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code, its
samples are letters. Lines of similar length share a minibatch, padded to one of four widths.

Needs: pip install jax optax
"""

import argparse
import inspect
import pickle
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

try:
    import jax
    import jax.numpy as jnp
    import optax
except ModuleNotFoundError:
    raise SystemExit("this example needs JAX and Optax: pip install jax optax") from None

SIZE, SWEEPS, BUCKETS = 4096, 4, 4  # letters in a minibatch; passes over the corpus; widths
WIDTH = 32

optimizer = optax.adam(0.01)


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


def to_item(minibatch: sh.Minibatch) -> dict[str, jax.Array]:
    """Put a minibatch on the device: text (sequences, width of the bucket), mask, labels."""
    text = minibatch["text"]
    item = {"text": text.asarray(), "mask": text.valid_mask(np.float32)}
    item |= {"labels": minibatch["labels"].values}
    return jax.device_put(item | {"num_labels": minibatch.global_num_label_samples})


def loss_of(parameters: dict[str, jax.Array], item: dict[str, jax.Array]) -> jax.Array:
    """Return the part of the loss: letters and neighbours, the mean over a line, a logit.

    It is a sum, divided by the labels of all processes, so that gradients of processes add up.
    """
    x = parameters["letters"][item["text"]] * item["mask"][..., None]
    x = jnp.concatenate([x[:, :-1], x[:, 1:]], axis=-1) @ parameters["pairs"]
    x = jax.nn.relu(x) * item["mask"][:, 1:, None]
    logits = x.sum(axis=1) / item["mask"].sum(axis=1, keepdims=True) @ parameters["out"]
    loss_sum = optax.sigmoid_binary_cross_entropy(logits, item["labels"]).sum()
    return loss_sum / item["num_labels"]


@jax.jit
def step(state: Any, item: dict[str, jax.Array]) -> tuple[Any, jax.Array]:
    """Return the state after a step, and the loss before it."""
    parameters, memory = state
    loss, gradients = jax.value_and_grad(loss_of)(parameters, item)
    updates, memory = optimizer.update(gradients, memory)
    return (optax.apply_updates(parameters, updates), memory), loss


class Run:
    """Parameters with the optimizer's memory, the place in the data, and the losses so far."""

    def __init__(self) -> None:
        shapes = {"letters": (128, WIDTH), "pairs": (2 * WIDTH, WIDTH), "out": (WIDTH,)}
        keys = dict(zip(shapes, jax.random.split(jax.random.key(0), 3), strict=True))
        parameters = {k: 0.2 * jax.random.normal(keys[k], shapes[k]) for k in shapes}
        self.state = parameters, optimizer.init(parameters)
        self.source = make_source(validation=False)
        self.losses: list[jax.Array] = []

    def train(self, stop_at: int | None = None) -> None:
        """Train what is left of all sweeps, or up to so many steps."""
        end = SWEEPS * self.source.num_samples_per_sweep
        while self.source.current_position < end:
            for minibatch in self.source.sweep(SIZE):
                self.state, loss = step(self.state, to_item(minibatch))
                self.losses.append(loss)  # left on the device: nothing waits for it
                if len(self.losses) == stop_at:
                    return
            print(f"{self.source.current_position:7} samples: {self.validate():.3f}")

    def validate(self) -> float:
        """Return the mean loss over the lines that are left out of training."""
        lines, loss = make_source(validation=True), 0.0
        for minibatch in lines.sweep(SIZE):
            mean = jax.jit(loss_of)(self.state[0], to_item(minibatch))
            loss += float(mean) * minibatch.num_sequences
        return loss / lines.num_sequences_per_sweep

    def save(self, path: Path) -> None:
        """Write all that is needed to go on from here."""
        path.write_bytes(pickle.dumps((jax.device_get(self.state), self.source.state_dict())))

    def load(self, path: Path) -> None:
        """Go on from what was written."""
        state, place = pickle.loads(path.read_bytes())
        self.state = jax.device_put(state)
        self.source.load_state_dict(place)


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    whole, first, rest = Run(), Run(), Run()
    with tempfile.TemporaryDirectory() as folder:
        whole.train()
        first.train(stop_at=70)
        first.save(Path(folder, "checkpoint"))
        rest.load(Path(folder, "checkpoint"))
        rest.train()
    print(f"{len(whole.losses)} steps, {step._cache_size()} shapes were compiled")
    print(f"loss: {whole.losses[0]:.3f} at first, {whole.losses[-1]:.3f} at last")
    print(f"stopped and gone on is the whole: {first.losses + rest.losses == whole.losses}")
    assert first.losses + rest.losses == whole.losses


if __name__ == "__main__":
    main()
