"""Hugging Face's Trainer over packed rows: a small Llama, made from scratch.

    python examples/frameworks/transformers_loop.py

The task: what is the next letter of a paragraph of Python's code? Whole paragraphs share rows
of 128 letters; positions that begin anew tell the model where.

Needs: pip install transformers accelerate
"""

import argparse
import inspect
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

try:
    import torch
    import transformers
except ModuleNotFoundError:
    raise SystemExit("this example needs pip install transformers accelerate") from None

import sweephand.torch

ROW, ROWS, STEPS = 128, 16, 100  # letters in a row, rows in a minibatch, steps of training


def make_dataset(*, validation: bool) -> sh.torch.IterableDataset:
    """Serve the paragraphs of a module in packed rows, every tenth for validation."""
    tokens = [
        np.array([ord(letter) % 128 for letter in paragraph])
        for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.getsource(argparse)))
        if (number % 10 == 0) == validation
    ]
    source = sh.MinibatchSource(
        sh.ArrayDeserializer({"tokens": tokens}),
        randomize=not validation,
        layout=sh.Packed(ROW, split_long="split"),
    )
    return sh.torch.IterableDataset(source, ROWS * ROW, to_item=to_item)


def to_item(minibatch: sh.Minibatch) -> dict[str, torch.Tensor]:
    """Return what the model takes, all of shape (rows, row length)."""
    tokens = minibatch["tokens"]
    return {
        "input_ids": tokens.torch(),
        "position_ids": sh.torch.to_tensor(minibatch.position_ids).long(),
        "labels": sh.torch.to_tensor(tokens.labels(shifted=False)),  # the model shifts them
    }


def make_model() -> transformers.LlamaForCausalLM:
    """Return a Llama of one layer. With a cache it would not keep segments apart."""
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=ROW, use_cache=False,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


class Trainer(transformers.Trainer):
    """The trainer with loaders of ours, which count what they hand out."""

    def get_train_dataloader(self) -> sh.torch.DataLoader:
        """Return what is trained on."""
        return sh.torch.DataLoader(self.train_dataset)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> sh.torch.DataLoader:
        """Return what is left out of training."""
        return sh.torch.DataLoader(self.eval_dataset if eval_dataset is None else eval_dataset)


def make_trainer(folder: Path) -> Trainer:
    """Return a trainer with all that it needs."""
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,  # how many rows a sweep has is not known beforehand
        ignore_data_skip=True,  # the loader stands where it should
        learning_rate=1e-2, save_steps=STEPS // 2, eval_strategy="steps", eval_steps=25,
        logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(
        make_model(),
        args,
        train_dataset=make_dataset(validation=False),
        eval_dataset=make_dataset(validation=True),
        callbacks=[sh.torch.transformers.KeepPlace()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def largest_difference() -> float:
    """Return by how much the loss differs from that of the same sequences one by one."""
    model = make_model()
    minibatch = make_dataset(validation=False).source.next_minibatch(ROWS * ROW)
    losses, count = 0.0, 0
    for sequence in minibatch["tokens"].as_sequences():
        tokens = torch.from_numpy(sequence)[None]
        if len(sequence) > 1:
            losses += model(input_ids=tokens, labels=tokens).loss.item() * (len(sequence) - 1)
            count += len(sequence) - 1
    return abs(model(**to_item(minibatch)).loss.item() - losses / count)


def main() -> None:
    """Train, and train the second half again from the checkpoint of the first."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # with more, sums may be made in another order
    difference = largest_difference()
    print(f"packed or one by one, the loss differs by {difference:.1e}")
    assert difference < 1e-5
    with tempfile.TemporaryDirectory() as folder:
        whole, rest = make_trainer(Path(folder)), make_trainer(Path(folder))
        whole.train()
        rest.train(resume_from_checkpoint=str(Path(folder, f"checkpoint-{STEPS // 2}")))
    for line in whole.state.log_history:
        if "eval_loss" in line:
            print(f"{line['step']:4} steps: {line['eval_loss']:.3f}")
    pairs = zip(whole.model.parameters(), rest.model.parameters(), strict=True)
    same = all(torch.equal(one, other) for one, other in pairs)
    print(f"the second half again ends with the same parameters: {same}")
    assert same


if __name__ == "__main__":
    main()
