"""Feed Megatron-Core's forward step: packed rows, split over two context-parallel ranks.

Megatron itself is not needed: a small model stands for it, and both ranks are here.
"""

import functools
import sys

import numpy as np

try:
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh
import sweephand.torch

SYMBOLS, ROW, ROWS, STEPS, STOP = 50, 32, 4, 12, 7


def make_source():
    """Return packed rows of random walks over symbols."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(2, 3 * ROW, 300)
    walks = [draw.integers(0, 3, length).cumsum() % SYMBOLS for length in lengths]
    layout = sh.Packed(ROW, split_long="split")
    corpus = sh.ArrayDeserializer({"tokens": walks})
    return sh.MinibatchSource(corpus, layout=layout, randomization_seed=1)


class Rank:
    """A rank with its iterator; in Megatron `place` is `Place.of(parallel_state)`."""

    def __init__(self, place):
        self.data_iterator = sh.torch.megatron.DataIterator(make_source(), ROWS, place)
        self.get_batch = functools.partial(sh.torch.megatron.get_batch, place=place)

    def forward_step(self, model):
        """Return the sum of the losses, and their number."""
        batch = self.get_batch(self.data_iterator)
        batch = dict(zip(sh.torch.megatron.BATCH_KEYS, batch, strict=True))
        logits = model(batch["tokens"])
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["labels"].flatten(), reduction="none"
        )
        return (losses * batch["loss_mask"].flatten()).sum(), batch["loss_mask"].sum()


class Training:
    """A model, trained by so many context-parallel ranks in turn."""

    def __init__(self, ranks):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(SYMBOLS, 32), nn.Linear(32, SYMBOLS))
        self.opt = torch.optim.SGD(self.model.parameters(), 0.5)
        place = sh.torch.megatron.Place
        self.ranks = [Rank(place(cp_world_size=ranks, cp_rank=rank)) for rank in range(ranks)]
        self.losses = []

    def train(self, steps):
        """Take steps; what ranks add up is the loss of the minibatch."""
        for _ in range(steps):
            found = [rank.forward_step(self.model) for rank in self.ranks]
            loss = sum(loss for loss, _ in found) / sum(count for _, count in found)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.losses.append(loss.item())


def main():
    """Train the whole on one rank; stop on two, and go on with one."""
    torch.set_num_threads(1)
    whole, first, rest = Training(1), Training(2), Training(1)
    whole.train(STEPS)
    first.train(STOP)
    rest.model.load_state_dict(first.model.state_dict())
    rest.ranks[0].data_iterator.load_state_dict(first.ranks[1].data_iterator.state_dict())
    rest.train(STEPS - STOP)
    both = first.losses + rest.losses
    print(f"two ranks, then one, are the whole: {np.allclose(both, whole.losses, rtol=1e-4)}")


if __name__ == "__main__":
    main()
