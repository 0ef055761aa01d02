"""Fine-tune a small transformer on conversations, with a loss on the answers alone.

    pip install "sweephand[chat,torch]"
    python examples/fine_tune_conversations.py

Conversations are lines of JSON, made of the docstrings of the standard library; the tokenizer
is trained on them. They are encoded once, packed into rows, and trained on in a plain loop,
which is stopped and goes on from one integer. Loss and gradients are those of the same
conversations one by one.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import types
from pathlib import Path

try:
    import torch
    from packed_transformer import ROW_LENGTH, Transformer
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from torch.nn.functional import cross_entropy
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[chat,torch]'")

import sweephand as sh
import sweephand.torch

BEGIN, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n"
    "{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)
ROWS, VOCABULARY_SIZE = 8, 512


def write_conversations(path: Path) -> None:
    """Write a conversation about each documented function of some modules."""
    from email import message, policy
    from http import client, cookiejar

    modules: list[types.ModuleType] = [
        json,
        inspect,
        tempfile,
        message,
        policy,
        client,
        cookiejar,
    ]
    lines = []
    for module in modules:
        for name, found in inspect.getmembers(module, callable):
            answer = (inspect.getdoc(found) or "").partition("\n")[0]
            if answer and len(answer) < 120:
                asked = {"role": "user", "content": f"{module.__name__}.{name}?"}
                told = {"role": "assistant", "content": answer}
                lines.append(json.dumps({"messages": [asked, told]}))
    path.write_text("\n".join(sorted(lines)) + "\n")


def make_tokenizer(path: Path) -> Tokenizer:
    """Return a tokenizer of byte pairs that is trained on the conversations."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path)], trainer)
    return tokenizer


def make_source(path: Path, tokenizer: Tokenizer) -> sh.MinibatchSource:
    """Return packed rows of the conversations, of which each is encoded once."""
    encode = sh.chat.encode(tokenizer, template=TEMPLATE, max_length=ROW_LENGTH)
    corpus = sh.open(path).map(encode, cache=True)
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW_LENGTH), randomization_seed=1)


def packed_loss(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    """Return the mean loss over all answers of all workers: here there is one."""
    tokens = minibatch["tokens"]
    logits = model(
        tokens.torch(dtype="int64"),
        sh.torch.to_tensor(minibatch.position_ids),
        sh.torch.attention_mask(minibatch),
    )
    labels = sh.torch.to_tensor(tokens.labels())
    loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    return loss / minibatch.global_num_label_samples


def unpacked_loss(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    """Return the same, one conversation after the other, by their tokens and masks."""
    losses, count = [], 0
    both = (minibatch[name].as_sequences() for name in ("tokens", "loss_mask"))
    for sequence, mask in zip(*both, strict=True):
        tokens = torch.from_numpy(sequence).long()[None]
        labels = torch.where(torch.from_numpy(mask), tokens[0], -100)
        logits = model(tokens, torch.arange(len(sequence))[None])
        losses.append(cross_entropy(logits[0, :-1], labels[1:], reduction="sum"))
        count += int(mask[1:].sum())
    return torch.stack(losses).sum() / count


def make_model() -> torch.nn.Module:
    """Return a transformer, the same every time."""
    torch.manual_seed(0)
    model = Transformer()
    model.token = torch.nn.Embedding(VOCABULARY_SIZE, 64)
    model.head[1] = torch.nn.Linear(64, VOCABULARY_SIZE)
    return model


def train(source: sh.MinibatchSource, steps: int, stop_at: int | None = None) -> list[float]:
    """Return the loss of every step; a run that is stopped goes on from its state."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    source.current_position = 0
    losses: list[float] = []
    while len(losses) < steps:
        if len(losses) == stop_at:  # as another process would
            state = source.get_checkpoint_state()
            source.next_minibatch(ROWS * ROW_LENGTH)
            source.restore_from_checkpoint(state)
        minibatch = source.next_minibatch(ROWS * ROW_LENGTH)
        loss = packed_loss(model, minibatch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_difference(source: sh.MinibatchSource) -> float:
    """Return by how much gradients differ at most, packed or not, over the largest one."""
    model = make_model().double()
    minibatch = source.next_minibatch(ROWS * ROW_LENGTH)
    gradients = []
    for loss_of in (packed_loss, unpacked_loss):
        model.zero_grad()
        loss_of(model, minibatch).backward()
        gradients.append(torch.cat([part.grad.flatten() for part in model.parameters()]))
    packed, unpacked = gradients
    return ((packed - unpacked).abs().max() / unpacked.abs().max()).item()


def main(steps: int = 40) -> None:
    """Write the data, and train."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.jsonl"
        write_conversations(path)
        tokenizer = make_tokenizer(path)
        with make_source(path, tokenizer) as source:
            minibatch = source.next_minibatch(ROWS * ROW_LENGTH)
            share = minibatch.global_num_label_samples / minibatch.num_samples
            print(f"{minibatch}\nrows filled {100 * minibatch.fill_ratio:.1f} %")
            print(f"{100 * share:.0f} % of the tokens are answers, on which the loss is taken")
            print(f"gradients, packed or not, differ by {largest_difference(source):.1e}")
            losses = train(source, steps)
            print(f"loss {losses[0]:.3f} at step 1, {losses[-1]:.3f} at step {steps}")
            again = train(source, steps, stop_at=steps // 2)
            print(f"stopped and gone on is the whole: {again == losses}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
