"""Train a policy on what it generates: a small transformer learns to sort digits by GRPO.

    python examples/sort_digits_grpo.py

Prompts are on loan, as with generators that answer late, out of order; a rollout is a ticket.
`sh.plan_lengths` packs the rollouts of a step into rows. A run that is killed goes on from its
checkpoint, with what was out, and trains on the same prompts as one that is not.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import cross_entropy, scaled_dot_product_attention
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")

import sweephand as sh

DIGITS, SORT, VOCABULARY = 6, 6, 7  # digits 0 to 5, and "now sort"
COPIES, PROMPTS, OUT = 8, 32, 3  # rollouts of a prompt; prompts of a loan; loans at a time
NUM_PROMPTS, SWEEPS = 384, 4
SAVED_EVERY = 5  # steps


def make_source() -> sh.MinibatchSource:
    """Prompts of 2 to 4 digits."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(DIGITS, size=rng.integers(2, 5)) for _ in range(NUM_PROMPTS)]
    return sh.MinibatchSource({"digits": prompts}, max_sweeps=SWEEPS, randomization_seed=1)


class Layer(nn.Module):
    """Attention within segments, and a feed-forward network, each behind a norm."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return (rows, length, width)."""
        parts = self.project(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        found = scaled_dot_product_attention(q, k, v, mask)
        x = x + self.merge(found.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Policy(nn.Module):
    """Two layers."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.head = nn.Linear(width, DIGITS)

    def forward(self, tokens: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return logits of the next digit: (rows, length, digits)."""
        length = tokens.shape[1]
        same = segments[:, :, None] == segments[:, None, :]
        mask = (same & torch.ones(length, length, dtype=torch.bool).tril())[:, None]
        x = self.tokens(tokens) + self.places(positions)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


@torch.no_grad()
def generate(policy: Policy, prompts: np.ndarray, chance: torch.Generator) -> np.ndarray:
    """Return a rollout of each prompt of one length: (prompts, digits + 1 + digits)."""
    tokens = torch.from_numpy(np.pad(prompts, ((0, 0), (0, 1)), constant_values=SORT))
    for _ in range(prompts.shape[1]):
        positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        logits = policy(tokens, positions, torch.ones_like(tokens))[:, -1]
        drawn = torch.multinomial(logits.softmax(-1), 1, generator=chance)
        tokens = torch.cat([tokens, drawn], 1)
    return tokens.numpy()


def reward_of(rollout: np.ndarray) -> float:
    """Return which part of its digits a rollout has where they belong."""
    count = len(rollout) // 2
    return float((np.sort(rollout[:count]) == rollout[-count:]).mean())


def train(folder: Path, kill_at: int | None = None) -> dict[str, Any]:
    """Train to the end of the prompts, from the last checkpoint on if there is one."""
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    chance, order = torch.Generator().manual_seed(1), np.random.default_rng(2)
    desk = make_source().lend(COPIES)
    state: dict[str, Any] = {"step": 0, "trained": Counter(), "rewards": []}
    path = folder / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path, weights_only=False)
        state = saved["state"]
        policy.load_state_dict(saved["policy"])
        optimizer.load_state_dict(saved["optimizer"])
        desk.load_state_dict(saved["desk"])
    loans: list[sh.Loan] = []
    while not desk.is_finished:
        while len(loans) < OUT and (loan := desk.take(PROMPTS)):
            loans.append(loan)
        loan = loans.pop(order.integers(len(loans)))  # any generator may be the next to answer
        rewards = step(policy, optimizer, *rollouts_of(policy, loan, chance))
        desk.done(loan.tickets)
        state["step"] += 1
        state["trained"].update(loan.tickets[loan.tickets >= 0].tolist())
        state["rewards"].append(rewards)
        if state["step"] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if state["step"] % SAVED_EVERY == 0:
            parts = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({"state": state, "desk": desk.state_dict(), **parts}, f"{path}.new")
            Path(f"{path}.new").replace(path)
    return state


def rollouts_of(
    policy: Policy, loan: sh.Loan, chance: torch.Generator
) -> tuple[list[np.ndarray], list[int]]:
    """Return a rollout for each ticket, and the prompt of each."""
    rows, _ = np.nonzero(loan.tickets >= 0)
    prompts = [loan.minibatch["digits"].as_sequences()[row] for row in rows]
    rollouts: list[Any] = [None] * len(rows)
    for length in {len(one) for one in prompts}:
        places = [place for place, one in enumerate(prompts) if len(one) == length]
        drawn = generate(policy, np.stack([prompts[place] for place in places]), chance)
        for place, one in zip(places, drawn, strict=True):
            rollouts[place] = one
    return rollouts, rows.tolist()


def step(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    rollouts: list[np.ndarray],
    prompt_of: list[int],
) -> float:
    """Take a step on rollouts that are packed into rows, and return the mean reward."""
    rewards = np.array([reward_of(one) for one in rollouts])
    advantages = []
    for rollout, reward, number in zip(rollouts, rewards, prompt_of, strict=True):
        group = rewards[np.equal(prompt_of, number)]
        better = (reward - group.mean()) / (group.std() + 1e-4)
        is_answer = np.arange(len(rollout)) > len(rollout) // 2
        advantages.append(np.where(is_answer, better, 0).astype(np.float32))
    plan = sh.plan_lengths(
        [len(one) for one in rollouts], sh.Packed(64, micro_batch_rows=16), groups=prompt_of
    )
    optimizer.zero_grad()
    for minibatch in plan.minibatches({"tokens": rollouts, "advantage": advantages}):
        data = minibatch.torch()
        positions, segments = map(
            torch.from_numpy, (minibatch.position_ids, minibatch.segment_ids)
        )
        logits = policy(data["tokens"], positions, segments)
        weights = data["advantage"].roll(-1, 1)  # of the token that a label predicts
        labels = torch.from_numpy(minibatch["tokens"].labels()).where(weights != 0, -100)
        losses = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        ((losses * weights).sum() / plan.global_num_label_samples[0]).backward()
    optimizer.step()
    return float(rewards.mean())


def main() -> None:
    """Train, and again with a kill, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="of the checkpoint; else a new one")
    parser.add_argument("--kill-at", type=int, help="a step")
    settings = parser.parse_args()
    torch.set_num_threads(1)  # more get into each other's way with tensors as small as these
    if settings.folder is not None:
        train(settings.folder, settings.kill_at)
        return
    with TemporaryDirectory() as whole, TemporaryDirectory() as killed:
        found = train(Path(whole))
        first, last = np.mean(found["rewards"][:5]), np.mean(found["rewards"][-5:])
        print(f"digits in their places: {first:.0%} at first, {last:.0%} at the end")
        once = len(found["trained"]) == NUM_PROMPTS * SWEEPS * COPIES
        once = once and set(found["trained"].values()) == {1}
        print(f"every rollout of every prompt was trained once a sweep: {once}")
        command = [sys.executable, __file__, "--folder", killed, "--kill-at", "18"]
        code = subprocess.run(command, check=False).returncode
        again = train(Path(killed))
        same = again["trained"] == found["trained"]
        print(f"killed ({code}) and gone on, the same prompts: {same}")


if __name__ == "__main__":
    main()
