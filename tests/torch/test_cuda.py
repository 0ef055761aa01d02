"""What a CUDA device adds: copies under way, half precision, shards."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import sweephand as sh
import sweephand.torch

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning"),
]

SYMBOLS = 30
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(64),
    sh.Packed(64, limits={"patches": 40}),
    sh.Bucketed([8, 32]),
    sh.TruncatedBPTT(16),
]


def make_source(**options: Any) -> sh.MinibatchSource:
    """Return sequences of tokens, with patches and a grid that they carry where rows can."""
    draw = np.random.default_rng(0)
    lengths, counts = draw.integers(1, 33, 300), draw.integers(0, 6, 300)
    streams: dict[str, Any] = {
        "tokens": [draw.integers(0, SYMBOLS, n) for n in lengths],
        "weights": draw.random(300, np.float32),
        "patches": [draw.random((n, 3), np.float32) for n in counts],
    }
    definitions = sh.StreamDefs(
        tokens=sh.StreamDef(defines_mb_size=True),
        weights=sh.StreamDef(),
        patches=sh.StreamDef(carried=True),
    )
    options = {"randomization_seed": 1, "num_lanes": 4} | options
    if isinstance(options.get("layout"), sh.TruncatedBPTT):
        del streams["weights"], streams["patches"]
        definitions = sh.StreamDefs(tokens=sh.StreamDef())
    return sh.MinibatchSource(sh.ArrayDeserializer(streams, definitions), **options)


def keep_busy() -> None:
    """Give the device a millisecond of work, while the host goes on."""
    torch.cuda._sleep(2_000_000)  # type: ignore[no-untyped-call] # cycles


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_every_stream_arrives_while_the_device_is_busy(
    layout: sh.Layout, non_blocking: bool
) -> None:
    # Minibatches are dropped at once: their memory is the source's again, and is written anew,
    # long before the device has read what was sent.
    source = make_source(layout=layout, num_threads=0)
    sent = []
    for _ in range(40):
        if non_blocking:
            keep_busy()
        sent.append(source.next_minibatch(512).torch("cuda", non_blocking))
    gc.collect()
    again = make_source(layout=layout, num_threads=0)
    for tensors in sent:
        wanted = again.next_minibatch(512).torch()
        assert tensors.keys() == wanted.keys()
        for name, tensor in tensors.items():
            assert tensor.is_cuda
            torch.testing.assert_close(tensor.cpu(), wanted[name], rtol=0, atol=0)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_loader_pins_what_it_hands_out(num_workers: int) -> None:
    dataset = sh.torch.IterableDataset(make_source(max_sweeps=1, layout=sh.Packed(64)), 512)
    loader = sh.torch.DataLoader(dataset, num_workers=num_workers, pin_memory=True)
    wanted = make_source(max_sweeps=1, layout=sh.Packed(64)).minibatches(512)
    for item, minibatch in zip(loader, wanted, strict=True):
        assert all(tensor.is_pinned() for tensor in item.values())
        there = {name: t.to("cuda", non_blocking=True) for name, t in item.items()}
        assert torch.equal(there["tokens"].cpu(), minibatch["tokens"].torch())


def test_masks_of_packed_rows_hold_on_the_device() -> None:
    minibatch = make_source(layout=sh.Packed(256)).next_minibatch(1024)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, minibatch.num_rows, 2, 256, 64, device="cuda")
    mask = sh.torch.attention_mask(minibatch, device="cuda")
    wanted = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    blocks = sh.torch.block_mask(minibatch, device="cuda")
    found = torch.compile(flex_attention)(q, k, v, block_mask=blocks)
    is_there = torch.from_numpy(minibatch.segment_ids > 0).cuda()[:, None, :, None]
    torch.testing.assert_close(found * is_there, wanted * is_there, rtol=1e-2, atol=1e-2)


# -- half precision --


class NextToken(nn.Module):
    """Predicts a token from the one before it."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, SYMBOLS)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(self.embedding(tokens))
        return logits


def error_of(model: Any, minibatch: sh.Minibatch) -> torch.Tensor:
    """Return the sum of the loss under autocast, in float16."""
    tokens = minibatch["tokens"]
    labels = torch.from_numpy(tokens.labels(ignore_index=-100)).cuda().long()
    with torch.autocast("cuda", torch.float16):
        logits = model(tokens.torch("cuda", non_blocking=True).long())
    return cross_entropy(
        logits.flatten(0, -2).float(), labels.flatten(), ignore_index=-100, reduction="sum"
    )


def make_model(**options: Any) -> NextToken:
    torch.manual_seed(0)
    return NextToken(**options).cuda()


@pytest.mark.parametrize("fused", [False, True])
def test_a_loss_scale_steps_as_a_grad_scaler_does(fused: bool) -> None:
    def step_of(make_scaler: Any) -> tuple[list[float], list[torch.Tensor]]:
        model = make_model()
        adam = torch.optim.AdamW(model.parameters(), 1e-2, fused=fused)
        source = make_source(layout=sh.Packed(64))
        scaler = make_scaler(adam)
        scales = []
        for number in range(30):
            minibatch = source.next_minibatch(512)
            adam.zero_grad()
            loss = error_of(model, minibatch) / minibatch.global_num_label_samples
            if number == 11:
                loss = loss * torch.inf
            scales.append(scaler(loss))
        return scales, [parameter.detach().clone() for parameter in model.parameters()]

    def ours(adam: Any) -> Any:
        opt = sh.LossScaleOptimizer(adam, True, 2.0**16, 7, min_scale=1.0, max_scale=None)

        def step(loss: torch.Tensor) -> float:
            opt.get_scaled_loss(loss).backward()
            opt.step()
            return opt.loss_scale

        return step

    def theirs(adam: Any) -> Any:
        scaler = torch.amp.GradScaler("cuda", growth_interval=7)

        def step(loss: torch.Tensor) -> float:
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(adam)
            scaler.update()
            return float(scaler.get_scale())

        return step

    torch.use_deterministic_algorithms(True, warn_only=True)
    (scales, mine), (wanted_scales, wanted) = step_of(ours), step_of(theirs)
    torch.use_deterministic_algorithms(False)
    assert scales == wanted_scales
    assert len(set(scales)) > 2
    torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-7)


def test_a_scaled_step_waits_for_the_device_once() -> None:
    model = make_model()
    opt = sh.LossScaleOptimizer(torch.optim.AdamW(model.parameters(), 1e-2))
    minibatch = make_source(layout=sh.Packed(64)).next_minibatch(512)
    waits = []
    for _ in range(2):
        opt.zero_grad()
        loss = error_of(model, minibatch)
        with torch.profiler.profile() as profile:
            opt.get_scaled_loss(loss).backward()
            opt.step()
        waits.append(
            sum(e.count for e in profile.key_averages() if e.key == "cudaStreamSynchronize")
        )
    # Found non-finite, and the norm: of each dtype and device.
    assert waits[1] <= 3


@pytest.mark.parametrize("loss_scale", [None, 2.0**10])
@pytest.mark.parametrize("parts", [1, 3])
def test_training_goes_on_to_the_bit(
    tmp_path: Path, loss_scale: float | None, parts: int
) -> None:
    def make() -> tuple[nn.Module, sh.Trainer, sh.MinibatchSource]:
        model = make_model(dropout=0.2)
        adam: Any = torch.optim.AdamW(model.parameters(), 1e-2)
        if loss_scale is not None:
            adam = sh.LossScaleOptimizer(adam, initial_scale=loss_scale)
        learner = sh.torch.Learner(adam, 1e-2)
        trainer = sh.Trainer(model, error_of, learner, sub_minibatches=parts)
        return model, trainer, make_source(layout=sh.Packed(64))

    def run(trainer: sh.Trainer, source: sh.MinibatchSource) -> list[float]:
        losses = []
        for _ in range(8):
            trainer.train_minibatch(source.next_minibatch(512))
            losses.append(trainer.previous_minibatch_loss_average)
        return losses

    torch.use_deterministic_algorithms(True, warn_only=True)
    model, trainer, source = make()
    first = run(trainer, source)
    trainer.save_checkpoint(tmp_path, {"source": source.get_checkpoint_state()})
    wanted = run(trainer, source)
    other, again, its_source = make()
    torch.rand(100, device="cuda")
    its_source.restore_from_checkpoint(again.restore_from_checkpoint(tmp_path)["source"])
    found = run(again, its_source)
    torch.use_deterministic_algorithms(False)
    assert first[0] > wanted[-1]
    assert found == wanted
    assert all(map(torch.equal, other.parameters(), model.parameters()))


# -- shards --


@pytest.fixture
def group() -> Iterator[None]:
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def make_sharded(policy: MixedPrecisionPolicy) -> tuple[Any, sh.Trainer]:
    model = make_model()
    mesh = init_device_mesh("cuda", (1,), mesh_dim_names=("dp_shard",))
    fully_shard(model.layers, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    adam = torch.optim.AdamW(model.parameters(), 1e-2)
    opt = sh.LossScaleOptimizer(adam, initial_scale=2.0**10)
    return model, sh.Trainer(model, error_of, sh.torch.Learner(opt, 1e-2))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_shards_train_and_go_on_from_their_checkpoint(
    tmp_path: Path, precision: torch.dtype | None
) -> None:
    policy = MixedPrecisionPolicy(precision, precision and torch.float32)
    model, trainer = make_sharded(policy)
    source = make_source(layout=sh.Packed(64))
    losses = []
    for number in range(12):
        if number == 6:
            save({"trainer": trainer, "source": source}, checkpoint_id=tmp_path)
        minibatch = source.next_minibatch(512)
        trainer.train_minibatch(minibatch, minibatch.global_num_label_samples)
        losses.append(trainer.previous_minibatch_loss_average)
    other, again = make_sharded(policy)
    its_source = make_source(layout=sh.Packed(64))
    load({"trainer": again, "source": its_source}, checkpoint_id=tmp_path)
    for wanted in losses[6:]:
        minibatch = its_source.next_minibatch(512)
        again.train_minibatch(minibatch, minibatch.global_num_label_samples)
        assert again.previous_minibatch_loss_average == pytest.approx(wanted, rel=1e-5)
    for mine, whole in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(
            mine.full_tensor(), whole.full_tensor(), rtol=1e-4, atol=1e-6
        )
    assert losses[-1] < losses[0]
