"""Megatron-Core's GPT, its data parallelism and its schedule, on CPUs over gloo.

usage: megatron_loop.py FOLDER WAY

The ways: `rows` (data-parallel, a mask), `thd` (context-parallel, each sequence split) and
`own-thd`, where Megatron's own functions split. Rank 0 writes the losses of the steps.
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
from megatron.core import utils  # noqa: E402
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
from torch import nn  # noqa: E402

import sweephand as sh  # noqa: E402
import sweephand.torch  # noqa: E402
from sweephand.ext.integrations.megatron import (  # noqa: E402
    BATCH_KEYS,
    DataIterator,
    Place,
    get_batch,
)

ROW, ROWS, STEPS, SYMBOLS = 64, 8, 4, 50
CELLS = ("labels", "loss_mask", "position_ids", "tokens")


def make_source() -> sh.MinibatchSource:
    draw = np.random.default_rng(0)
    walks = [draw.integers(0, 3, n).cumsum() % SYMBOLS for n in draw.integers(3, ROW, 200)]
    layout = sh.Packed(ROW)
    corpus = sh.ArrayDeserializer({"tokens": walks})
    return sh.MinibatchSource(corpus, layout=layout, randomization_seed=1)


class Gather(torch.autograd.Function):
    """Puts the parts of all ranks of a group one after the other."""

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        parts = [torch.empty_like(part) for _ in range(group.size())]
        dist.all_gather(parts, part.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient.chunk(ctx.group.size())[ctx.group.rank()], None


class GatheredAttention(nn.Module):
    """Attention within sequences that several ranks share, as kernels for GPUs have it.

    `cells` are, of each cell of this rank, the number of its sequence and its place there.
    """

    cells: torch.Tensor
    group: Any = None

    def __init__(self, **options: Any) -> None:
        super().__init__()

    def forward(self, query: Any, key: Any, value: Any, *_: Any, **more: Any) -> torch.Tensor:
        cells = every = GatheredAttention.cells
        group = GatheredAttention.group
        if group is not None and group.size() > 1:
            key, value = Gather.apply(key, group), Gather.apply(value, group)
            every = Gather.apply(cells, group)
        looks = (cells[:, None, 0] == every[None, :, 0]) & (
            cells[:, None, 1] >= every[None, :, 1]
        )
        q, k, v = (one.permute(1, 2, 0, 3) for one in (query, key, value))
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=looks)
        return found.permute(2, 0, 1, 3).flatten(2)


def partitioned_indices(
    boundaries: torch.Tensor, total: int, count: int, rank: int
) -> torch.Tensor:
    """Return what Transformer Engine's `thd_get_partitioned_indices` does on a GPU."""
    found = []
    for begin, end in zip(boundaries.tolist()[:-1], boundaries.tolist()[1:], strict=True):
        part = (end - begin) // (2 * count)
        found += range(begin + rank * part, begin + (rank + 1) * part)
        found += range(end - (rank + 1) * part, end - rank * part)
    assert len(found) * count == total
    return torch.tensor(found)


def cells_of(boundaries: torch.Tensor, count: int, rank: int) -> torch.Tensor:
    """Return the sequence and the place in it of each cell that a rank should have."""
    index = partitioned_indices(boundaries, int(boundaries[-1]), count, rank)
    numbers = torch.bucketize(index, boundaries[1:], right=True)
    return torch.stack([numbers, index - boundaries[numbers]], 1)


class Way:
    """A way to share the work: an iterator for each step, and the batch of a forward step."""

    micro_batches = ROWS // 2
    has_mask = False
    parallel: dict[str, Any] = {}  # noqa: RUF012

    def step(self) -> Any:
        """Return the data iterator of a step."""
        raise NotImplementedError

    def batch(self, iterator: Any) -> dict[str, Any]:
        raise NotImplementedError


class Rows(Way):
    """Data-parallel ranks, and a mask."""

    has_mask = True

    def __init__(self) -> None:
        self.place = place = Place.of(mpu)
        self.micro_batches //= place.dp_world_size
        self.iterator = DataIterator(make_source(), 2, place, documents="attention_mask")

    def step(self) -> Any:
        return self.iterator

    def batch(self, iterator: Any) -> dict[str, Any]:
        return dict(zip(BATCH_KEYS, get_batch(iterator, place=self.place), strict=True))


class Thd(Way):
    """Ranks that share each sequence."""

    def __init__(self) -> None:
        self.place = Place.of(mpu)
        self.iterator = DataIterator(
            make_source(), 2, self.place, documents="cu_seqlens_padded"
        )

    def step(self) -> Any:
        return self.iterator

    def split(self, iterator: Any) -> dict[str, Any]:
        return dict(zip(BATCH_KEYS, get_batch(iterator, place=self.place), strict=True))

    def batch(self, iterator: Any) -> dict[str, Any]:
        batch = self.split(iterator)
        count, rank = mpu.get_context_parallel_world_size(), mpu.get_context_parallel_rank()
        boundaries = batch["cu_seqlens_padded"][0].long()
        GatheredAttention.cells = cells_of(boundaries, count, rank)
        GatheredAttention.group = mpu.get_context_parallel_group()
        return batch


class OwnThd(Thd):
    """The same, split by Megatron's `get_thd_batch_on_this_cp_rank`."""

    def split(self, iterator: Any) -> dict[str, Any]:
        batch = next(iterator)
        boundaries = [batch[f"cu_seqlens{which}"][0] for which in ("", "_padded")]
        found, parameters = utils.get_thd_batch_on_this_cp_rank(
            {key: batch[key] for key in CELLS}, *boundaries, batch["max_seqlen"]
        )
        assert parameters.max_seqlen_q == int(batch["max_seqlen"])
        return batch | found


WAYS = {
    "rows": Rows,
    "thd": Thd,
    "own-thd": OwnThd,
}


def make_model(way: Way) -> tuple[Any, Any]:
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
    spec = get_gpt_layer_local_spec()
    if not way.has_mask:
        spec.submodules.self_attention.submodules.core_attention = GatheredAttention
    torch.manual_seed(0)
    model = GPTModel(config, spec, vocab_size=SYMBOLS, max_sequence_length=ROW)
    data_parallel = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=False
    )
    config.finalize_model_grads_func = finalize_model_grads
    return DistributedDataParallel(config, data_parallel, model), config


def loss_func(mask: torch.Tensor, losses: torch.Tensor) -> Any:
    """Return a sum over labels, and their number: Megatron divides once, over all ranks."""
    loss, count = (losses.reshape(-1) * mask.reshape(-1)).sum(), mask.sum().int()
    return loss, count, {"lm loss": torch.stack([loss.detach(), count.float()])}


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    mpu.initialize_model_parallel(
        context_parallel_size=ranks if "thd" in name else 1,
    )
    utils.tex = type("tex", (), {"thd_get_partitioned_indices": partitioned_indices})
    utils.is_te_min_version = lambda *_: True
    way = WAYS[name]()
    model, _ = make_model(way)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)

    def forward_step(iterator: Any, model: Any) -> Any:
        batch = way.batch(iterator)
        mask = batch["attention_mask"] if way.has_mask else None
        losses = model(batch["tokens"], batch["position_ids"], mask, labels=batch["labels"])
        return losses, partial(loss_func, batch["loss_mask"])

    told = []
    for _ in range(STEPS):
        model.zero_grad_buffer()
        found = forward_backward_no_pipelining(
            forward_step_func=forward_step,
            data_iterator=way.step(),
            model=model,
            num_microbatches=way.micro_batches,
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
