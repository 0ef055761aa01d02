"""One executor per bucket: common parameters, a bounded cache, static shapes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from sweephand.torch import BucketingModule


class Net(nn.Module):
    """A bag of embeddings whose positions have the length of a bucket."""

    def __init__(self, key: int, hidden: int = 4) -> None:
        super().__init__()
        self.key = key
        self.embed = nn.Embedding(20, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.head = nn.Linear(hidden, 3)
        self.register_buffer("place", torch.arange(key), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        assert tokens.shape[1] == self.key
        found = self.embed(tokens) * (self.place[:, None] + 1)
        return self.head(self.norm(found.mean(1)))


def tokens(key: int, rows: int = 4) -> torch.Tensor:
    return torch.arange(rows * key).reshape(rows, key) % 20


def test_every_bucket_trains_the_same_parameters() -> None:
    torch.manual_seed(0)
    module = BucketingModule(Net, 16)
    alone = {key: Net(key) for key in (4, 8, 16)}
    for net in alone.values():
        net.load_state_dict(module.state_dict())
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for key in (8, 4, 16, 8):
        plain = alone[key]
        plain.load_state_dict(module.state_dict())
        plain.zero_grad()
        plain(tokens(key)).square().sum().backward()
        optimizer.zero_grad()
        module.switch_bucket(key)
        module(tokens(key)).square().sum().backward()
        for ours, wanted in zip(module.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, wanted.grad)
        # Running statistics are common too.
        assert torch.equal(module.norm.running_mean, plain.norm.running_mean)
        optimizer.step()
    assert module.num_executors == 3
    assert list(module._executors) == [4, 16, 8]


def test_the_state_is_that_of_the_plain_module() -> None:
    module = BucketingModule(Net, 16)
    module.switch_bucket(4)
    plain = Net(16)
    assert list(module.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in module.named_parameters()] == [
        name for name, _ in plain.named_parameters()
    ]
    module.load_state_dict(plain.state_dict())
    plain.eval()
    module.eval()
    module.switch_bucket(16)
    assert torch.equal(module(tokens(16)), plain(tokens(16)))
    plain.load_state_dict(module.state_dict())


@pytest.mark.parametrize("assign", [False, True])
def test_a_state_is_loaded_into_all_buckets(assign: bool) -> None:
    module, plain = BucketingModule(Net, 16).eval(), Net(4).eval()
    module.switch_bucket(4)
    module.load_state_dict(plain.state_dict(), assign=assign)
    assert torch.equal(module(tokens(4)), plain(tokens(4)))
    module.switch_bucket(8)
    assert module.current_bucket_key == 8


def test_converting_converts_every_bucket() -> None:
    module = BucketingModule(Net, 8)
    module.switch_bucket(4)
    module.double()
    for key in (4, 8, 2):
        module.switch_bucket(key)
        assert module(tokens(key)).dtype == torch.float64
    module.eval()
    module.switch_bucket(4)
    assert torch.equal(module(tokens(4)), module(tokens(4))), "evaluation mode reached it"


def test_the_cache_keeps_what_was_used_last() -> None:
    made: list[int] = []

    def factory(key: int) -> nn.Module:
        made.append(key)
        return Net(key)

    module = BucketingModule(factory, 16, max_executors=2)
    for key in (8, 16, 4, 16, 8):
        module.switch_bucket(key)
        module(tokens(key))
    assert made == [16, 8, 4, 8]
    assert list(module._executors) == [16, 8]
    one = BucketingModule(Net, 16, max_executors=1)
    one.switch_bucket(4)
    one(tokens(4))
    assert list(one._executors) == [4]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: nn.Linear(3, 5), r"'weight' of bucket 4 is \(5, 3\) torch.float32, in the"),
        (lambda: nn.Linear(3, 2).double(), r"'weight' of bucket 4 is \(2, 3\) torch.float64"),
        (lambda: nn.Linear(3, 2, bias=False), r"'bias' of bucket 4 is missing, in the default"),
        (lambda: nn.BatchNorm1d(2), "'weight' of bucket 4"),
    ],
)
def test_parameters_that_cannot_be_tied_are_refused(
    other: Callable[[], nn.Module], message: str
) -> None:
    module = BucketingModule(lambda key: nn.Linear(3, 2) if key == 8 else other(), 8)
    with pytest.raises(ValueError, match=message):
        module.switch_bucket(4)
    assert module.current_bucket_key == 8
    assert module(torch.ones(1, 3)).shape == (1, 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_more_than_eight_buckets_stay_compiled() -> None:
    graphs: list[tuple[int, ...]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(tuple(inputs[-1].shape))
        return graph.forward

    torch._dynamo.reset()
    net = nn.Linear(3, 2)
    module = BucketingModule(net, 1, backend=backend)
    keys = range(1, 13)
    for _ in range(2):
        for key in keys:
            module.switch_bucket(key)
            torch.testing.assert_close(module(torch.ones(key, 3)), net(torch.ones(key, 3)))
    assert len(graphs) == len(keys), "each was compiled once, none again and none not at all"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
def test_buckets_become_cuda_graphs() -> None:
    torch._dynamo.reset()
    plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda().eval()
    module = BucketingModule(plain, 16, backend="inductor").eval()
    for key in (4, 16, 4, 16):
        module.switch_bucket(key)
        rows = torch.randn(key, 8, device="cuda")
        with torch.no_grad():
            torch.testing.assert_close(module(rows).clone(), plain(rows))
