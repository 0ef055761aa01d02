"""Feed torchtitan's trainer: packed rows with positions, on two ranks, then on one.

Where torchtitan is not installed a class of ours stands for its ``BaseDataLoader``, and always
a few lines for the part of its trainer that takes items.
"""

import sys
from dataclasses import dataclass

import numpy as np

try:
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh
import sweephand.torch

try:
    from torchtitan.components.dataloader import BaseDataLoader
except ImportError:

    class BaseDataLoader:
        """Stands for that of torchtitan."""

        @dataclass(kw_only=True, slots=True)
        class Config:
            """Its settings, from which the trainer builds it."""

            def build(self, **runtime):
                """Return the loader, with what only the trainer knows."""
                return Loader(self, **runtime)


SYMBOLS, ROW, ROWS, STEPS, STOP = 50, 32, 4, 12, 7


class Loader(sh.torch.torchtitan.DataLoader, BaseDataLoader):
    """Packed rows of a corpus; `config.dataloader = Loader.Config(seed=1)` chooses it."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """What an experiment sets; paths of a corpus, say."""

        seed: int = 1

    def __init__(self, config, *, seq_len, **runtime):
        layout = sh.Packed(seq_len, split_long="split")
        source = sh.MinibatchSource(corpus(), layout=layout, randomization_seed=config.seed)
        super().__init__(source, seq_len=seq_len, **runtime)


def corpus():
    """Return random walks over symbols."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(2, 3 * ROW, 300)
    walks = [draw.integers(0, 3, length).cumsum() % SYMBOLS for length in lengths]
    return sh.ArrayDeserializer({"tokens": walks})


class Training:
    """What torchtitan's trainer does with items, for so many data-parallel ranks in turn."""

    def __init__(self, ranks):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(SYMBOLS, 32), nn.Linear(32, SYMBOLS))
        self.opt = torch.optim.SGD(self.model.parameters(), 0.5)
        self.loaders = [
            Loader.Config().build(
                dp_world_size=ranks,
                dp_rank=rank,
                tokenizer=None,
                seq_len=ROW,
                local_batch_size=ROWS // ranks,
            )
            for rank in range(ranks)
        ]
        self.losses = []

    def train(self, steps):
        """Take steps, each an item of every rank."""
        iterators = [iter(loader) for loader in self.loaders]
        for _ in range(steps):
            items = [next(iterator) for iterator in iterators]
            tokens = sum((labels != -100).sum() for _, labels in items)
            self.opt.zero_grad()
            losses = [self.loss(inputs, labels) / tokens for inputs, labels in items]
            sum(losses).backward()
            self.opt.step()
            self.losses.append(sum(losses).item())

    def loss(self, inputs, labels):
        """Return the sum of an item's losses; ranks add up what they have."""
        logits = self.model(inputs["input"])
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
        )


def main():
    """Train the whole on one rank; stop on two, and go on with one."""
    torch.set_num_threads(1)
    whole, first, rest = Training(1), Training(2), Training(1)
    whole.train(STEPS)
    first.train(STOP)
    rest.model.load_state_dict(first.model.state_dict())
    rest.loaders[0].load_state_dict(first.loaders[1].state_dict())
    rest.train(STEPS - STOP)
    both = first.losses + rest.losses
    print(f"two ranks, then one, are the whole: {np.allclose(both, whole.losses, rtol=1e-4)}")


if __name__ == "__main__":
    main()
