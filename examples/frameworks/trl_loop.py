"""TRL's SFTTrainer over packed conversations: a small Llama, made from scratch.

    python examples/frameworks/trl_loop.py

The task: what does a function of the standard library do? Conversations share rows of 128
tokens, the loss is taken on the answers alone, and the tokenizer is trained on the spot.

Needs: pip install trl transformers accelerate tokenizers jinja2
"""

import argparse
import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import sweephand as sh

try:
    import datasets
    import torch
    import transformers
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ModuleNotFoundError:
    raise SystemExit(
        "this example needs pip install trl transformers accelerate tokenizers jinja2"
    ) from None

import sweephand.torch

ROW, ROWS, STEPS = 128, 8, 40  # tokens in a row, rows in a minibatch, steps of training
BEGIN, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n"
    "{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)


def write_conversations(path: Path) -> None:
    """Write a conversation about each documented function of some modules."""
    lines = []
    for module in (argparse, inspect, json, tempfile):
        for name, found in inspect.getmembers(module, callable):
            answer = (inspect.getdoc(found) or "").partition("\n")[0]
            if 0 < len(answer) < 100:
                asked = {"role": "user", "content": f"{module.__name__}.{name}?"}
                replied = {"role": "assistant", "content": answer}
                lines.append(json.dumps({"messages": [asked, replied]}))
    path.write_text("\n".join(lines) + "\n")


def make_tokenizer(path: Path) -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of byte pairs that is trained on the conversations."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train(
        [str(path)],
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=[BEGIN, END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, chat_template=TEMPLATE
    )


def make_dataset(path: Path, tokenizer: Any) -> sh.torch.IterableDataset:
    """Serve the conversations in packed rows; each is encoded once."""
    corpus = sh.open(path).map(sh.chat.encode(tokenizer, max_length=ROW), cache=True)
    source = sh.MinibatchSource(corpus, layout=sh.Packed(ROW), randomization_seed=1)
    return sh.torch.IterableDataset(source, ROWS * ROW, to_item=to_item)


def to_item(minibatch: sh.Minibatch) -> dict[str, torch.Tensor]:
    """Return what the model takes, all of shape (rows, row length)."""
    tokens = minibatch["tokens"]
    return {
        "input_ids": tokens.torch(dtype="int64"),
        "position_ids": sh.torch.to_tensor(minibatch.position_ids).long(),
        "labels": sh.torch.to_tensor(tokens.labels(shifted=False)),  # the model shifts them
    }


def make_model() -> transformers.LlamaForCausalLM:
    """Return a Llama of one layer. With a cache it would not keep segments apart."""
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=400, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=ROW, use_cache=False,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


class Trainer(trl.SFTTrainer):
    """The trainer with a loader of ours, which counts what it hands out."""

    def __init__(self, *args: Any, rows: sh.torch.IterableDataset, **options: Any) -> None:
        # It asks for a dataset of its own kind and looks at the first example, no more.
        first = {name: values[0].tolist() for name, values in next(iter(rows)).items()}
        rows.source.current_position = 0
        example = datasets.Dataset.from_list([first])
        super().__init__(*args, train_dataset=example, **options)
        self.rows = rows

    def get_train_dataloader(self) -> sh.torch.DataLoader:
        """Return what is trained on."""
        return sh.torch.DataLoader(self.rows)


def make_trainer(folder: Path, path: Path, tokenizer: Any) -> Trainer:
    """Return a trainer with all that it needs."""
    args = trl.SFTConfig(
        output_dir=str(folder),
        max_steps=STEPS,  # how many rows a sweep has is not known beforehand
        ignore_data_skip=True,  # the loader stands where it should
        dataset_kwargs={"skip_prepare_dataset": True},  # it is tokens, and packed
        learning_rate=1e-2, save_steps=STEPS // 2, logging_steps=1, report_to=[],
        disable_tqdm=True, use_cpu=True, bf16=False,
    )  # fmt: skip
    trainer = Trainer(
        make_model(),
        args,
        rows=make_dataset(path, tokenizer),
        processing_class=tokenizer,
        callbacks=[sh.torch.transformers.KeepPlace()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def first_loss(path: Path, tokenizer: Any) -> float:
    """Return the loss of the first minibatch, of its conversations one by one."""
    model = make_model()
    minibatch = make_dataset(path, tokenizer).source.next_minibatch(ROWS * ROW)
    losses, count = 0.0, 0
    streams = (minibatch[name].as_sequences() for name in ("tokens", "loss_mask"))
    for sequence, mask in zip(*streams, strict=True):
        tokens = torch.from_numpy(sequence).long()[None]
        labels = torch.where(torch.from_numpy(mask > 0), tokens, -100)
        own = int(mask[1:].sum())
        losses += model(input_ids=tokens, labels=labels).loss.item() * own
        count += own
    return losses / count


def main() -> None:
    """Train, and train the second half again from the checkpoint of the first."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # with more, sums may be made in another order
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chat.jsonl")
        write_conversations(path)
        tokenizer = make_tokenizer(path)
        whole, rest = (make_trainer(Path(folder), path, tokenizer) for _ in range(2))
        whole.train()
        rest.train(resume_from_checkpoint=str(Path(folder, f"checkpoint-{STEPS // 2}")))
        wanted = first_loss(path, tokenizer)
    losses = [line["loss"] for line in whole.state.log_history if "loss" in line]
    print(f"packed or one by one, the first loss differs by {abs(losses[0] - wanted):.1e}")
    assert abs(losses[0] - wanted) < 1e-5
    print(f"loss {losses[0]:.3f} at step 1, {losses[-1]:.3f} at step {STEPS}")
    pairs = zip(whole.model.parameters(), rest.model.parameters(), strict=True)
    same = all(torch.equal(one, other) for one, other in pairs)
    print(f"the second half again ends with the same parameters: {same}")
    assert same


if __name__ == "__main__":
    main()
