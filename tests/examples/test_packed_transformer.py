"""What the example of packed rows says is true."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads only get into each other's way with tensors as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packed_rows_have_the_loss_and_the_gradients_of_their_sequences(
    dtype: torch.dtype,
) -> None:
    example = load("packed_transformer")
    torch.manual_seed(1)
    model = example.Transformer().to(dtype)
    source = example.make_source()
    for _ in range(2):
        minibatch = source.next_minibatch(example.ROWS * example.ROW_LENGTH)
        assert minibatch.num_sequences > 2 * example.ROWS, "sequences share rows"
        found = {}
        for loss_of in (example.packed_loss, example.unpacked_loss):
            model.zero_grad()
            loss = loss_of(model, minibatch)
            loss.backward()
            gradients = {name: part.grad.clone() for name, part in model.named_parameters()}
            found[loss_of] = loss.detach(), gradients
        packed, unpacked = found.values()
        tolerance = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {}
        torch.testing.assert_close(packed, unpacked, **tolerance)


def test_without_the_mask_sequences_contaminate_each_other() -> None:
    example = load("packed_transformer")
    torch.manual_seed(1)
    model = example.Transformer().double()
    minibatch = example.make_source().next_minibatch(example.ROWS * example.ROW_LENGTH)
    tokens = minibatch["tokens"].torch()
    positions = torch.from_numpy(minibatch.position_ids)
    logits = model(tokens, positions)
    labels = torch.from_numpy(minibatch["tokens"].labels())
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert (loss - example.unpacked_loss(model, minibatch)).abs() > 1e-4


def test_the_transformer_learns_from_packed_rows() -> None:
    losses = load("packed_transformer").train(steps=12)
    assert losses[-1] < 0.9 * losses[0]
