"""A poisoned run that heals itself: spikes are seen, their sequences found and banned.

    python examples/heal_poisoned_run.py --output run

A model learns which letter of a text follows on which. Some texts are poison: one has a byte
that decodes to NaN, some are one n-gram over and over, some have their letters in no order. The
corpus is trained on twice, as it is and with a `SpikePolicy`, which writes down what it did:

    cat run/healed/spikes.json
"""

import argparse
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sweephand as sh

LETTERS = 24
TEXTS = 6000
KINDS = ("broken", "repeated", "shuffled")


def make_corpus(rng: np.random.Generator) -> tuple[sh.ArrayDeserializer, dict[str, str]]:
    """Make texts whose letters mostly go up by one, and say which are poison of which kind."""
    kinds = {int(i): KINDS[n % 3] for n, i in enumerate(rng.choice(TEXTS, 6, replace=False))}
    texts = []
    for number in range(TEXTS):
        length = rng.integers(20, 40)
        steps = np.where(rng.random(length) < 0.8, 1, rng.integers(0, LETTERS, length))
        text = ((rng.integers(LETTERS) + np.cumsum(steps)) % LETTERS).astype(np.float32)
        match kinds.get(number):
            case "broken":
                text[rng.integers(length)] = np.nan
            case "repeated":
                text = np.tile((text[0] + np.float32([0, 5, 10])) % LETTERS, 150)
            case "shuffled":
                text = np.resize(rng.permutation(text * 7 % LETTERS), 450)
        texts.append(text)
    poison = {f"array__{number}": kind for number, kind in kinds.items()}
    return sh.ArrayDeserializer({"letters": texts}), poison


def cross_entropy(model: dict, minibatch: sh.Minibatch) -> tuple[float, list]:
    """Return the sum of the loss over the letters of a minibatch, and the gradient."""
    letters = minibatch["letters"]
    if not np.isfinite(letters.values).all():
        return np.nan, [model["w"]]
    follows = np.ones(letters.num_samples, bool)
    follows[letters.offsets[:-1]] = False
    places = np.flatnonzero(follows)
    before, after = letters.values[places - 1].astype(int), letters.values[places].astype(int)
    p = np.exp(model["w"][before])
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(places))
    loss = -np.log(p[rows, after]).sum()
    p[rows, after] -= 1
    gradient = np.zeros_like(model["w"])
    np.add.at(gradient, before, p)
    return float(loss), [gradient]


def train(
    corpus: sh.ArrayDeserializer, folder: Path, activities: Sequence[sh.SpikePolicy] = ()
) -> None:
    """Train with checkpoints in a folder."""
    model = {"w": np.zeros((LETTERS, LETTERS), np.float32)}
    learner = sh.numpy.Adam(model, sh.learning_parameter_schedule(0.02))
    trainer = sh.Trainer(model, cross_entropy, learner)
    sh.training_session(
        trainer,
        sh.MinibatchSource(corpus, max_sweeps=2),
        1000,
        activities=activities,
        checkpoint_config=sh.CheckpointConfig(folder, restore=False),
    ).train()


def main() -> None:
    """Train with and without a policy, and compare."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    logging.getLogger("sweephand").setLevel(logging.ERROR)
    corpus, poison = make_corpus(np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        try:
            train(corpus, folder / "as-it-is")
        except FloatingPointError as error:
            print(f"as it is: {error}")
        policy = sh.SpikePolicy(action="bisect", signal="both")
        train(corpus, folder / "healed", [policy])
        print(f"healed: {policy.report}")
        banned = policy.report.banned_ids
        found = [name for name in banned if name in poison]
        print(f"{len(found)} of {len(poison)} poisoned texts are banned, and "
              f"{len(banned) - len(found)} others")  # fmt: skip


if __name__ == "__main__":
    main()
