"""A request to forget a document, from the command to the proof.

    python examples/forget_document.py

A language model of words is trained on a few hundred documents, with checkpoints on the way.
Then somebody wants two of them forgotten:

    sweephand forget --ids ids.txt --checkpoints checkpoints documents.jsonl --write events.json

The same training, run again, goes on from the checkpoint before they came. Its parameters are,
to the bit, those of a run that had the ban from the start.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh
from sweephand.cli import main as sweephand

WORDS = 50
SAMPLES = 20_000


def write_documents(path: Path) -> None:
    """Write documents of 10 to 60 words, which are numbers here."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(400):
            words = rng.zipf(1.5, rng.integers(10, 61)) % WORDS
            file.write(f'{{"words": {words.tolist()}}}\n')


def next_word(model: dict, minibatch: sh.Minibatch) -> tuple[float, list]:
    """Return the loss of each word's successor, and the gradient."""
    rows = minibatch["words"].as_sequences()
    before = np.concatenate([row[:-1] for row in rows])
    after = np.concatenate([row[1:] for row in rows])
    logits = model["w"][before]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(after))
    loss = float(-np.log(p[places, after]).sum())
    p[places, after] -= 1
    gradient = np.zeros_like(model["w"])
    np.add.at(gradient, before, p)
    return loss, [gradient]


def train(documents: Path, checkpoints: Path, events: Path | list) -> sh.Trainer:
    """Train from the beginning, or from the newest checkpoint that fits the events."""
    model = {"w": np.zeros((WORDS, WORDS), np.float32)}
    rate = sh.learning_parameter_schedule_per_sample([0.05, 0.02, 0.01], epoch_size=8000)
    trainer = sh.Trainer(
        model,
        next_word,
        sh.numpy.MomentumSGD(model, rate, 0.9),
        sh.ProgressPrinter(freq=0, first=0),
    )
    corpus = sh.JSONLDeserializer(documents, ["words"])
    config = sh.CheckpointConfig(checkpoints, frequency=2000, preserve_all=True)
    with sh.MinibatchSource(corpus, randomization_seed=1, events=events) as source:
        session = sh.training_session(
            trainer, source, 500, max_samples=SAMPLES, checkpoint_config=config
        )
        session.train()
    return trainer


def main() -> None:
    """Train, forget, and compare."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        documents, events = folder / "documents.jsonl", folder / "events.json"
        write_documents(documents)
        with_them = train(documents, folder / "checkpoints", events)
        ids = ["documents.jsonl__17", "documents.jsonl__230"]
        (folder / "ids.txt").write_text("\n".join(ids))
        words = ["forget", "--ids", folder / "ids.txt", "--checkpoints", folder / "checkpoints"]
        words += [documents, "--write", events]
        print("\n$ sweephand forget")
        sweephand(list(map(str, words)))
        print("\nThe same training again:")
        replayed = train(documents, folder / "checkpoints", events)
        print("\nA run that never had them:")
        ban = sh.events.Ban(at=0, ids=ids)
        never = train(documents, folder / "never", [ban])
        print(f"\nwith them   {sh.train.parameter_digest(with_them)}")
        print(f"replayed    {sh.train.parameter_digest(replayed)}")
        print(f"never had   {sh.train.parameter_digest(never)}")
        same = sh.train.parameter_digest(replayed) == sh.train.parameter_digest(never)
        print(f"forgotten to the bit: {same}")
        print("\n$ sweephand forget --delete")
        sweephand([*map(str, words), "--delete"])


if __name__ == "__main__":
    main()
