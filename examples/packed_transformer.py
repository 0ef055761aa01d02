"""Train a small transformer on packed rows, and show that packing changes nothing but speed.

    python examples/packed_transformer.py

Sequences share rows; a mask keeps them apart, positions restart, and no label crosses a border.
So loss and gradients are those of the same sequences one by one, without the padding.
"""

from __future__ import annotations

import sys

import numpy as np

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import cross_entropy, scaled_dot_product_attention
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh
import sweephand.torch

VOCABULARY, ROW_LENGTH, ROWS = 64, 256, 4


def make_source(num_sequences: int = 2000) -> sh.MinibatchSource:
    """Sequences that count upwards in steps of their own, of log-normal lengths."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(40), 0.8, num_sequences), 2, ROW_LENGTH).astype(int)
    runs = [
        (rng.integers(VOCABULARY) + np.arange(length) * rng.integers(1, 4)) % VOCABULARY
        for length in lengths
    ]
    corpus = sh.ArrayDeserializer(
        {"tokens": (np.concatenate(runs), np.concatenate([[0], np.cumsum(lengths)]))}
    )
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), num_lanes=4)


class Layer(nn.Module):
    """Attention and a feed-forward network, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return (rows, length, width); without a mask every row is one sequence."""
        parts = self.project(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        found = scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        x = x + self.merge(found.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Transformer(nn.Module):
    """A decoder with learned positions."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(ROW_LENGTH, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits: (rows, length, vocabulary)."""
        x = self.token(tokens) + self.position(positions)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def packed_loss(model: nn.Module, minibatch: sh.Minibatch) -> Tensor:
    """Return the loss, over all labels of all workers, of all sequences at once."""
    tokens = minibatch["tokens"]
    logits = model(
        tokens.torch(),
        sh.torch.to_tensor(minibatch.position_ids),
        sh.torch.attention_mask(minibatch),
    )
    labels = sh.torch.to_tensor(tokens.labels()).flatten()
    loss = cross_entropy(logits.flatten(0, 1), labels, reduction="sum")
    return loss / minibatch.global_num_label_samples


def unpacked_loss(model: nn.Module, minibatch: sh.Minibatch) -> Tensor:
    """Return the same, one sequence after the other: nothing is packed, masked or padded."""
    losses, count = [], 0
    for sequence in minibatch["tokens"].as_sequences():
        tokens = torch.from_numpy(sequence)[None]
        logits = model(tokens, torch.arange(len(sequence))[None])
        losses.append(cross_entropy(logits[0, :-1], tokens[0, 1:], reduction="sum"))
        count += len(sequence) - 1
    return torch.stack(losses).sum() / count


def train(steps: int = 60) -> list[float]:
    """Return the loss of every step."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    losses = []
    with make_source() as source:
        for _ in range(steps):
            minibatch = source.next_minibatch(ROWS * ROW_LENGTH)
            loss = packed_loss(model, minibatch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 20 == 1:
                fill = 100 * minibatch.fill_ratio
                print(f"step {len(losses):3}  loss {losses[-1]:.3f}  rows filled {fill:.1f} %")
    return losses


def largest_difference() -> float:
    """Return by how much gradients differ at most, packed or not, over the largest one."""
    torch.manual_seed(0)
    model = Transformer().double()
    minibatch = make_source().next_minibatch(ROWS * ROW_LENGTH)
    gradients = []
    for loss_of in (packed_loss, unpacked_loss):
        model.zero_grad()
        loss_of(model, minibatch).backward()
        gradients.append(torch.cat([part.grad.flatten() for part in model.parameters()]))
    packed, unpacked = gradients
    return ((packed - unpacked).abs().max() / unpacked.abs().max()).item()


if __name__ == "__main__":
    print(f"gradients, packed or not, differ by {largest_difference():.1e} of the largest")
    train()
