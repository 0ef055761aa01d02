"""bfloat16 parameters whose float32 masters are exact."""

import copy
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.torch.launch import launch

import sweephand as sh

torch = pytest.importorskip("torch")
from tests.train.guarded_ranks import ADAMS  # noqa: E402

STEPS = 1000 if extent.exhaustive else 80
SHAPES = [(33, 7), (), (130,), (0, 3)]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Let small steps not wait for threads that others keep busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def gradients(step: int, dtype: Any = None) -> list[Any]:
    random = torch.Generator().manual_seed(step)
    made = [torch.randn(shape, generator=random) * 2.0 ** (step % 9 - 4) for shape in SHAPES]
    return [one.to(dtype or torch.bfloat16) for one in made]


def pair(options: dict[str, Any]) -> tuple[list[Any], Any, list[Any], Any]:
    """Return bfloat16 parameters with exact masters, and float32 ones, under AdamW."""
    torch.manual_seed(0)
    wide = [torch.nn.Parameter(torch.randn(shape).bfloat16().float()) for shape in SHAPES]
    narrow = [torch.nn.Parameter(one.detach().bfloat16()) for one in wide]
    exact = sh.torch.ExactMasters(torch.optim.AdamW(narrow, 1e-3, **options))
    return narrow, exact, wide, torch.optim.AdamW(wide, 1e-3, **options)


def take(parameters: list[Any], optimizer: Any, step: int) -> None:
    for parameter, gradient in zip(parameters, gradients(step), strict=True):
        parameter.grad = gradient.to(parameter.dtype)
    optimizer.step()


def check_rounded(weight: Any, master: Any) -> None:
    """A weight is its master rounded to even, but for ties."""
    is_tie = (master.view(torch.int32) & 0xFFFF) == 0x8000
    assert torch.equal(weight[~is_tie], master.bfloat16()[~is_tie])


@pytest.mark.parametrize("kind", ADAMS)
def test_masters_are_exact_over_many_steps_saved_and_loaded(kind: str) -> None:
    narrow, exact, wide, adam = pair(ADAMS[kind])
    for step in range(STEPS):
        take(wide, adam, step)
        take(narrow, exact, step)
        if step == STEPS // 2:
            weights, state = copy.deepcopy(narrow), copy.deepcopy(exact.state_dict())
            narrow, exact, *_ = pair(ADAMS[kind])
            exact.load_state_dict(state)
            for one, saved in zip(narrow, weights, strict=True):
                one.data.copy_(saved.data)
    for weight, master, wanted in zip(narrow, exact.masters(), wide, strict=True):
        assert torch.equal(master, wanted)
        check_rounded(weight.detach(), master)
    for one, other in zip(narrow, wide, strict=True):
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(exact.state[one][name], adam.state[other][name])


def test_all_floats_are_their_halves_again() -> None:
    from sweephand.torch.exact_masters import _joined, _split

    numbers = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
    edges = [0x3F818000, 0x3F828000, 0x7F7FFFFF, 0x7F800000, 0xFFC00000, 0x80000000, 0xFFFFFFFF]
    numbers[: len(edges)] = edges
    masters = torch.from_numpy(numbers.view(np.float32))
    weight = torch.empty(len(masters), dtype=torch.bfloat16)
    bits = torch.empty(len(masters), dtype=torch.bfloat16)
    _split(masters, weight, bits)
    joined, is_nan = _joined(weight, bits).numpy(), masters.isnan().numpy()
    assert np.array_equal(joined.view(np.uint32)[~is_nan], numbers[~is_nan])
    assert np.isnan(joined[is_nan]).all()
    assert torch.equal(weight.isnan(), masters.isnan())


@pytest.mark.parametrize("kind", ADAMS)
@pytest.mark.parametrize("verdict", ["host", "device"])
def test_a_guard_skips_and_clips_a_step_of_exact_masters(kind: str, verdict: Any) -> None:
    narrow, exact, wide, adam = pair(ADAMS[kind])
    guards = [sh.StepGuard(one, clip_norm=0.5, verdict=verdict) for one in (exact, adam)]
    for step in range(6):
        for parameters, guard in zip((narrow, wide), guards, strict=True):
            for parameter, gradient in zip(parameters, gradients(step), strict=True):
                parameter.grad = gradient.to(parameter.dtype)
            if step % 3 == 0:
                parameters[0].grad[0, 0] = torch.inf
            assert guard.step().applied is (step % 3 != 0)
    for master, wanted in zip(exact.masters(), wide, strict=True):
        torch.testing.assert_close(master, wanted.detach(), rtol=1e-3, atol=1e-3)
        assert master.dtype is torch.float32


def test_parameters_of_other_types_and_groups_are_the_optimizers_own() -> None:
    narrow = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    wide = torch.nn.Parameter(torch.ones(3))
    groups = [{"params": [narrow], "lr": 0.5}, {"params": [wide]}]
    optimizer = sh.torch.ExactMasters(torch.optim.SGD(groups, 0.25, momentum=0.5))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        narrow.grad, wide.grad = torch.ones_like(narrow), torch.ones_like(wide)
        optimizer.step()
        scheduler.step()
    assert narrow.tolist() == [1 - 0.5 - 0.375] * 3
    assert wide.tolist() == [1 - 0.25 - 0.1875] * 3
    assert optimizer.param_groups[0]["params"] == [narrow]


def test_what_has_no_exact_masters_is_refused() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    inner = torch.optim.SGD([parameter], 0.1, momentum=0.5)
    parameter.grad = torch.ones_like(parameter)
    inner.step()
    for wrong in (3, inner, torch.optim.LBFGS([parameter])):
        with pytest.raises(ValueError, match=r"optimizer|LBFGS"):
            sh.torch.ExactMasters(wrong)


def test_two_ranks_with_shards_save_and_load_exact_masters(tmp_path: Any) -> None:
    ranks = launch(2, ["exact_shards"], tmp_path, "tests.train.guarded_ranks")["exact_shards"]
    assert [rank.code for rank in ranks] == [0, 0]
    for rank in ranks:
        assert rank.found["masters"] == rank.found["alone"]
        assert rank.found["again"] == rank.found["masters"]
