"""Train a small transformer to prefer one answer to another (DPO), on pairs in packed rows.

    pip install "sweephand[chat,torch]"
    python examples/prefer_answers.py

A pair is one sequence of two conversations, so both are in one row, whatever the row, the
minibatch or the worker. A frozen copy of the model is the reference. The loss and its gradients
are those of the pairs one by one, and a run that is stopped goes on from one integer.

https://arxiv.org/abs/2305.18290
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from fine_tune_conversations import TEMPLATE, make_model, make_tokenizer
    from fine_tune_conversations import write_conversations as write_questions
    from packed_transformer import ROW_LENGTH
    from tokenizers import Tokenizer
    from torch.nn.functional import logsigmoid
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[chat,torch]'")

import sweephand as sh
import sweephand.torch

SIZE = 8 * ROW_LENGTH
BETA = 0.1


def write_pairs(questions: Path, path: Path) -> None:
    """Write each question with its answer, and with the same in capitals."""
    pairs = []
    for line in questions.read_text().splitlines():
        asked, answer = json.loads(line)["messages"]
        shouted = answer | {"content": answer["content"].upper()}
        pairs.append({"prompt": [asked], "chosen": [answer], "rejected": [shouted]})
    path.write_text("\n".join(map(json.dumps, pairs)) + "\n")


def make_source(path: Path, tokenizer: Tokenizer) -> sh.MinibatchSource:
    """Return packed rows of pairs, of which each is encoded once."""
    encode = sh.chat.encode_pairs(tokenizer, template=TEMPLATE)
    corpus = sh.open(path).map(encode, cache=True)
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), randomization_seed=1)


def packed_scores(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    """Return log probabilities of answers, of shape (pairs, 2): chosen and rejected."""
    tokens, positions = minibatch["tokens"], sh.torch.to_tensor(minibatch.position_ids)
    logits = model(tokens.torch(dtype="int64"), positions, sh.torch.attention_mask(minibatch))
    labels = sh.torch.to_tensor(tokens.labels())  # -100: no token of an answer comes next
    is_label = labels >= 0
    chosen = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[..., None])[..., 0]
    begins = (positions == 0) & (sh.torch.to_tensor(minibatch.segment_ids) > 0)
    segments = begins.flatten().cumsum(0).view_as(labels) - 1
    sums = logits.new_zeros(len(minibatch.parts))
    sums = sums.index_add(0, segments[is_label], chosen[is_label])
    pairs, parts = sh.torch.to_tensor(minibatch.parts).long().T
    scores = logits.new_zeros(minibatch.num_sequences, 2)
    return scores.index_put((pairs, parts), sums)


def unpacked_scores(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    """Return the same, one conversation after the other."""
    scores = []
    streams = (minibatch[name].as_sequences() for name in ("tokens", "loss_mask", "part"))
    for tokens, mask, part in zip(*streams, strict=True):
        for number in (0, 1):
            own = torch.from_numpy(tokens[part == number]).long()
            found = model(own[None], torch.arange(len(own))[None])[0, :-1].log_softmax(-1)
            of_labels = found.gather(1, own[1:, None])[:, 0]
            scores.append(of_labels[torch.from_numpy(mask[part == number][1:] > 0)].sum())
    return torch.stack(scores).view(-1, 2)


def dpo_loss(scores: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the sum over pairs, which is divided by the pairs of all workers."""
    gain = scores - reference
    return -logsigmoid(BETA * (gain[:, 0] - gain[:, 1])).sum()


def train(
    source: sh.MinibatchSource, steps: int, stop_at: int | None = None
) -> tuple[list[float], list[float]]:
    """Return the loss of every step, and the share of its pairs that are preferred rightly."""
    model, reference = make_model(), make_model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    source.current_position = 0
    losses: list[float] = []
    right: list[float] = []
    while len(losses) < steps:
        if len(losses) == stop_at:  # as another process would
            state = source.get_checkpoint_state()
            source.next_minibatch(SIZE)
            source.restore_from_checkpoint(state)
        minibatch = source.next_minibatch(SIZE)
        with torch.no_grad():
            before = packed_scores(reference, minibatch)
        scores = packed_scores(model, minibatch)
        loss = dpo_loss(scores, before) / minibatch.global_num_sequences
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        margins = (scores - before).detach().diff(dim=1)
        right.append((margins < 0).float().mean().item())
    return losses, right


def largest_difference(source: sh.MinibatchSource) -> float:
    """Return by how much gradients differ at most, packed or not, over the largest one."""
    minibatch = source.next_minibatch(SIZE)
    torch.manual_seed(1)
    model, reference = make_model().double(), make_model().double()
    with torch.no_grad():
        for part in model.parameters():  # or all gains are 0
            part += 0.01 * torch.randn_like(part)
    gradients = []
    for scores_of in (packed_scores, unpacked_scores):
        model.zero_grad()
        dpo_loss(scores_of(model, minibatch), scores_of(reference, minibatch)).backward()
        gradients.append(torch.cat([part.grad.flatten() for part in model.parameters()]))
    packed, unpacked = gradients
    return ((packed - unpacked).abs().max() / unpacked.abs().max()).item()


def main(steps: int = 20) -> None:
    """Write the data, and train."""
    with tempfile.TemporaryDirectory() as folder:
        questions, path = Path(folder) / "chat.jsonl", Path(folder) / "pairs.jsonl"
        write_questions(questions)
        write_pairs(questions, path)
        with make_source(path, make_tokenizer(questions)) as source:
            minibatch = source.next_minibatch(SIZE)
            print(f"{minibatch.num_sequences} pairs, {len(minibatch.parts)} conversations")
            print(f"rows filled {100 * minibatch.fill_ratio:.1f} %")
            print(f"gradients, packed or not, differ by {largest_difference(source):.1e}")
            losses, right = train(source, steps)
            print(f"loss {losses[0]:.3f} at step 1, {losses[-1]:.3f} at step {steps}")
            print(f"{100 * right[-1]:.0f} % of the last pairs are preferred rightly")
            again, _ = train(source, steps, stop_at=steps // 2)
            print(f"stopped and gone on is the whole: {again == losses}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
