"""Megatron-Core's GPT, its data parallelism and its schedule, on CPUs over gloo.

usage: megatron_loop.py FOLDER

Data-parallel ranks get rows with a mask. Each writes the losses of the steps.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.frameworks import on_cpu

on_cpu.megatron()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from megatron.core import parallel_state as mpu  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
)
from megatron.core.distributed.finalize_model_grads import finalize_model_grads  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.pipeline_parallel.schedules import (  # noqa: E402
    forward_backward_no_pipelining,
)
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

import sweephand as sh  # noqa: E402
import sweephand.torch  # noqa: E402
from sweephand.ext.integrations.megatron import (  # noqa: E402
    BATCH_KEYS,
    DataIterator,
    Place,
    get_batch,
)

ROW, ROWS, STEPS, SYMBOLS = 64, 8, 4, 50


def make_source() -> sh.MinibatchSource:
    draw = np.random.default_rng(0)
    walks = [draw.integers(0, 3, n).cumsum() % SYMBOLS for n in draw.integers(3, ROW, 200)]
    layout = sh.Packed(ROW)
    corpus = sh.ArrayDeserializer({"tokens": walks})
    return sh.MinibatchSource(corpus, layout=layout, randomization_seed=1)


def make_model() -> Any:
    config = TransformerConfig(
        num_layers=2,
        hidden_size=32,
        num_attention_heads=4,
        use_cpu_initialization=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        calculate_per_token_loss=True,
    )
    torch.manual_seed(0)
    model = GPTModel(
        config, get_gpt_layer_local_spec(), vocab_size=SYMBOLS, max_sequence_length=ROW
    )
    data_parallel = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=False
    )
    config.finalize_model_grads_func = finalize_model_grads
    return DistributedDataParallel(config, data_parallel, model)


def loss_func(mask: torch.Tensor, losses: torch.Tensor) -> Any:
    """Return a sum over labels, and their number: Megatron divides once, over all ranks."""
    loss, count = (losses.reshape(-1) * mask.reshape(-1)).sum(), mask.sum().int()
    return loss, count, {"lm loss": torch.stack([loss.detach(), count.float()])}


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mpu.initialize_model_parallel()
    place = Place.of(mpu)
    micro_batches = DataIterator(make_source(), 2, place, documents="attention_mask")
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)

    def forward_step(iterator: Any, model: Any) -> Any:
        batch = dict(zip(BATCH_KEYS, get_batch(iterator, place=place), strict=True))
        losses = model(
            batch["tokens"],
            batch["position_ids"],
            batch["attention_mask"],
            labels=batch["labels"],
        )
        return losses, partial(loss_func, batch["loss_mask"])

    told = []
    for _ in range(STEPS):
        model.zero_grad_buffer()
        found = forward_backward_no_pipelining(
            forward_step_func=forward_step,
            data_iterator=micro_batches,
            model=model,
            num_microbatches=ROWS // 2 // place.dp_world_size,
            seq_length=ROW,
            micro_batch_size=2,
        )
        for weight in model.parameters():
            weight.grad = weight.main_grad
        optimizer.step()
        optimizer.zero_grad()  # the next backward adds to main_grad alone
        total = sum(one["lm loss"] for one in found)
        dist.all_reduce(total)
        told.append([(total[0] / total[1]).item(), int(total[1])])
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
