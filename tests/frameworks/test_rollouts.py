"""Trainers of other packages take micro-batches of `plan_lengths`, by the lines of a page."""

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sweephand as sh

pytestmark = pytest.mark.filterwarnings("default")
PAGE = Path(__file__).parents[2] / "docs" / "generated.md"


def shown(name: str, **names: object) -> Any:
    """Return what a block of the page defines."""
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (one for one in blocks if f" {name}(" in one)
    space = {"np": np, "sh": sh, **names}
    exec(block, space)
    return space[name]


def test_packed_rollouts_have_the_losses_of_padded_ones(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    transformers = pytest.importorskip("transformers")
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [*map(str, range(10)), "<pad>", "<eos>", "?"]
    plain = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="?"
    )
    prompts = [" ".join(str((7 * i + j) % 10) for j in range(2 + i % 5)) for i in range(8)]

    def losses(trainer: Any) -> list[tuple[float, float]]:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            pad_token_id=10,
            bos_token_id=None,
            eos_token_id=11,
        )
        made = trainer(
            model=transformers.LlamaForCausalLM(config),
            reward_funcs=lambda completions, **_: [
                float(len(one.split())) for one in completions
            ],
            args=trl.GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=12,
                max_steps=3,
                logging_steps=1,
                report_to=[],
                seed=0,
                use_cpu=True,
                bf16=False,
                save_strategy="no",
                learning_rate=1e-2,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
        )
        made.train()
        return [(one["loss"], one["grad_norm"]) for one in made.state.log_history[:-1]]

    packed = shown("PackedGRPOTrainer", GRPOTrainer=trl.GRPOTrainer, torch=torch, ROW=32)
    found = losses(packed)
    assert len(found) == 3
    np.testing.assert_allclose(found, losses(trl.GRPOTrainer), rtol=1e-4, atol=1e-6)


def test_all_ranks_of_verl_have_as_many_micro_batches_and_none_is_empty() -> None:
    balancing = pytest.importorskip("verl.utils.seqlen_balancing", exc_type=ImportError)
    import torch
    from tensordict import TensorDict

    select = balancing.tu.index_select_tensor_dict
    rearrange = shown("rearrange_micro_batches", index_select_tensor_dict=select)
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 65, 24) // (1 + rank) + 1 for rank in range(4)]
    counts = set()
    for rank, own in enumerate(lengths):
        mask = torch.from_numpy((np.arange(66) < own[:, None]).astype(np.int64))
        ids = mask * torch.arange(1, 25)[:, None]
        batch = TensorDict({"input_ids": ids, "attention_mask": mask}, batch_size=[24])
        made, indices = rearrange(batch, 128, lengths, rank)
        counts.add(len(made))
        assert all(0 < int(one["attention_mask"].sum()) <= 128 for one in made)
        joined = torch.cat([one["input_ids"] for one in made])
        assert torch.equal(balancing.restore_dynamic_batch(joined, indices), ids)
    assert len(counts) == 1


def test_torchtitans_batcher_deals_planned_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = pytest.importorskip("torchtitan.experiments", exc_type=ImportError)
    # The package itself imports vLLM, which its batcher does not need.
    package = ModuleType("torchtitan.experiments.rl")
    package.__path__ = [f"{one}/rl" for one in experiments.__path__]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    batchers = import_module(f"{package.__name__}.components.batcher")
    kinds = import_module(f"{package.__name__}.types")

    rng = np.random.default_rng(0)
    groups = [
        kinds.TrainingSampleGroup(
            group_id=group,
            training_samples=[
                kinds.TrainingSample(
                    min_policy_version=0,
                    max_policy_version=0,
                    rollout_id=kinds.RolloutTurnID(group_id=group, rollout_id=one, turn_id=0),
                    token_ids=[1 + group] * n,
                    loss_mask=[True] * n,
                    logprobs=[0.0] * n,
                    advantage=[1.0] * n,
                )
                for one, n in enumerate(rng.integers(2, 48, 8).tolist())
            ],
            metrics=[],
        )
        for group in range(4)
    ]

    def batch_of(batcher: Any) -> Any:
        config = batchers.Batcher.Config(
            batch=batchers.BatchConfig(local_batch_size=2, seq_len=64)
        )
        made = batcher(config, num_prompts_per_train_step=4, dp_degree=2, pad_id=0)
        return [made.add_training_samples(training_sample_group=one) for one in groups][-1]

    ours, theirs = (
        batch_of(shown("PlannedBatcher", Batcher=batchers.Batcher)),
        batch_of(batchers.Batcher),
    )
    assert ours.num_global_valid_tokens == theirs.num_global_valid_tokens
    assert len(ours.microbatches) <= len(theirs.microbatches)
    costs = [
        sum(int((micro[rank].token_ids > 0).sum()) for micro in ours.microbatches)
        for rank in range(2)
    ]
    assert max(costs) - min(costs) < 64, "less than a row"
