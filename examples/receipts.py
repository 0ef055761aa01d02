"""Train with receipts, audit the run, forge it, and see the forgery found.

    python examples/receipts.py

Then, with the arrays in a file:

    sweephand audit receipts train.npz --content
"""

import argparse
import hashlib
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh

SEQUENCES = 2000


def make_corpus(rng: np.random.Generator, folder: Path) -> sh.Deserializer:
    """Make points with a label each, in a file."""
    x = rng.normal(size=(SEQUENCES, 4)).astype(np.float32)
    np.savez(folder / "train.npz", x=x, labels=x @ np.float32([1, -2, 3, 0]))
    return sh.open(folder / "train.npz")


def squared_error(model: dict, minibatch: sh.Minibatch) -> tuple[float, list]:
    """Return the sum of the loss and that of the gradient."""
    x, labels = minibatch["x"].values, minibatch["labels"].values
    errors = x @ model["w"] - labels
    return float(errors @ errors), [2 * x.T @ errors]


def forge(path: Path, step: int) -> None:
    """Swap two steps, and mend the chain: whoever has the file can."""
    file = path.read_bytes()
    begin = file.index(b"\n") + 1
    records = [bytearray(file[at + 16 : at + 64]) for at in range(begin, len(file), 64)]
    one, other = records[step - 1], records[step]
    one[8:], other[8:] = other[8:], one[8:]  # all but their steps
    chain = hashlib.blake2b(file[:begin], digest_size=16).digest()
    forged = file[:begin]
    for record in records:
        chain = hashlib.blake2b(chain + record, digest_size=16).digest()
        forged += chain + record
    path.write_bytes(forged)


def main() -> None:
    """Train, audit, tamper, audit."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        corpus = make_corpus(np.random.default_rng(0), folder)
        model = {"w": np.zeros(4, np.float32)}
        receipts = sh.train.Receipts(folder / "receipts", content=True, overwrite=True)
        learner = sh.numpy.Adam(model, sh.learning_parameter_schedule(0.05))
        trainer = sh.Trainer(model, squared_error, learner, progress_writers=receipts)
        source = sh.MinibatchSource(corpus, randomization_seed=7, max_sweeps=3)
        for minibatch in source.minibatches(64):
            trainer.train_minibatch(minibatch)
        receipts.close()
        audit = receipts.audit(source, content=True)
        print(f"{audit.num_steps} steps, {audit.num_samples} samples: ok is {audit.ok}")
        print(f"head {audit.head}")

        forge(folder / "receipts" / "0.receipts", step=40)
        print(f"forged: {receipts.audit(source).mismatch}")


if __name__ == "__main__":
    main()
