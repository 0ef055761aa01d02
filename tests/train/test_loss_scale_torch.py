"""The loss scale around torch optimizers: against GradScaler, and what is ours alone."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sweephand as sh

torch = pytest.importorskip("torch")
from sweephand.torch.gradients import (  # noqa: E402
    DeviceFindings,
    norm_of_shards,
    plain_memory,
)
from sweephand.train.learners.arrays import check_tensors  # noqa: E402

OPTIMIZERS = [
    lambda params: torch.optim.SGD(params, lr=0.125, momentum=0.5),
    lambda params: torch.optim.AdamW(params, lr=0.125),
    lambda params: torch.optim.Adam(params, lr=0.125, fused=True),
]


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def loss_of(module: Any, x: Any) -> Any:
    return module(x).square().sum()


def make(**options: Any) -> tuple[Any, Any, sh.LossScaleOptimizer]:
    module = model()
    inner = torch.optim.AdamW(module.named_parameters(), lr=0.125)
    defaults = {"initial_scale": 8.0, "dynamic_growth_steps": 3}
    return module, inner, sh.LossScaleOptimizer(inner, **defaults | options)


def parameters(module: Any) -> list[Any]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([1.0, 1.0, 1.0, math.inf, math.nan]), max_size=15),
    st.sampled_from(OPTIMIZERS),
    st.integers(1, 4),
)
def test_scales_and_parameters_are_those_of_a_grad_scaler(
    factors: list[float], make_optimizer: Any, growth_steps: int
) -> None:
    ours, theirs = model(), model()
    opt = sh.LossScaleOptimizer(
        make_optimizer(ours.parameters()), True, 2.0**16, growth_steps,
        min_scale=2.0**-100, max_scale=None,
    )  # fmt: skip
    inner = make_optimizer(theirs.parameters())
    scaler = torch.amp.GradScaler("cpu", growth_interval=growth_steps)
    for i, factor in enumerate(factors):
        x = torch.full((2, 3), 0.25 * (i % 3 + 1))
        inner.zero_grad()
        scaler.scale(loss_of(theirs, x)).backward()
        opt.zero_grad()
        opt.get_scaled_loss(loss_of(ours, x)).backward()
        for module in (ours, theirs):
            module[0].weight.grad[1, 2] *= factor
        scaler.step(inner)
        scaler.update()
        result = opt.step()
        assert result.applied is math.isfinite(factor)
        assert opt.loss_scale == scaler.get_scale()
        assert opt.dynamic_counter == scaler.state_dict()["_growth_tracker"]
        assert same(parameters(ours), parameters(theirs))


def test_the_result_names_parameters_as_the_optimizer_knows_them() -> None:
    module, _, opt = make()
    opt.get_scaled_loss(loss_of(module, torch.ones(1, 3))).backward()
    module[2].bias.grad[0] = math.nan
    result = opt.step()
    assert result.bad_parameters == ("2.bias",)
    assert (result.num_nan, result.num_inf, result.applied) == (1, 0, False)
    nameless = torch.optim.SGD(module.parameters(), 0.1)
    opt = sh.LossScaleOptimizer(nameless)
    opt.zero_grad()
    opt.get_scaled_loss(loss_of(module, torch.ones(1, 3))).backward()
    module[2].bias.grad[0] = math.inf
    assert opt.step().bad_parameters == ("group 0 parameter 3",)
    assert opt._inner.names() is opt._inner.names()  # not made anew in each step
    nameless.add_param_group({"params": torch.zeros(1)})
    assert opt._inner.names()[-1] == "group 1 parameter 0"


def test_clipping_between_unscale_and_step_sees_true_gradients() -> None:
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    opt = sh.LossScaleOptimizer(torch.optim.SGD([parameter], 1.0), initial_scale=1024)
    opt.get_scaled_loss(0.5 * parameter.square().sum()).backward()
    opt.unscale_()
    assert parameter.grad.tolist() == [3, 4]
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    result = opt.step()
    assert result.gradient_norm == 5.0, "the norm is that before clipping"
    torch.testing.assert_close(parameter.detach(), torch.tensor([2.4, 3.2]))


def test_a_window_of_microbatches_is_one_step_at_one_scale() -> None:
    module, _, opt = make(dynamic_growth_steps=1)
    other = model()
    inner = torch.optim.AdamW(other.parameters(), lr=0.125)
    for _ in range(3):
        for one in (opt, inner):
            one.zero_grad()
        with opt.accumulate():
            for part in (1.0, 2.0):
                opt.get_scaled_loss(loss_of(module, torch.full((1, 3), part))).backward()
                loss_of(other, torch.full((1, 3), part)).backward()
        opt.step()
        inner.step()
        assert same(parameters(module), parameters(other))
    assert opt.loss_scale == 64.0


def test_minimize_does_all_and_only_to_the_variables() -> None:
    module, _, opt = make()
    before = parameters(module)
    weight = module[2].weight
    result = opt.minimize(lambda: loss_of(module, torch.ones(1, 3)), [weight])
    assert result.applied
    changed = [not torch.equal(a, b) for a, b in zip(before, parameters(module), strict=True)]
    assert changed == [False, False, True, False]
    assert opt.minimize(loss_of(module, torch.ones(1, 3))).applied
    with pytest.raises(ValueError, match="1 of the variables are not the inner optimizer's"):
        opt.minimize(lambda: loss_of(module, torch.ones(1, 3)), [torch.zeros(1)])
    assert opt.minimize(lambda: loss_of(module, torch.ones(1, 3))).applied


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_loss_is_scaled_in_float32_at_least(dtype: Any) -> None:
    _, _, opt = make(initial_scale=2.0**16)
    scaled = opt.get_scaled_loss(torch.ones((), dtype=dtype))
    assert scaled.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)
    assert scaled.item() == 2.0**16
    opt.discard()
    for bad in (1, torch.ones((), dtype=torch.int64)):
        with pytest.raises(
            sh.errors.ArgumentTypeError, match="the loss must be a float or a tensor"
        ):
            opt.get_scaled_loss(bad)


def test_sparse_gradients_stay_sparse_and_repeated_indices_are_summed_first() -> None:
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    before = embedding.weight.detach().clone()
    opt = sh.LossScaleOptimizer(torch.optim.SGD(embedding.parameters(), 1.0), initial_scale=8)
    opt.get_scaled_loss(embedding(torch.tensor([1, 1, 3])).sum()).backward()
    result = opt.step()
    assert embedding.weight.grad.is_sparse
    assert result.applied
    assert result.gradient_norm == pytest.approx(math.sqrt(2 * 4 + 2))
    moved = before - embedding.weight.detach()
    torch.testing.assert_close(moved, torch.tensor([[0.0], [2], [0], [1], [0]]).expand(5, 2))


def test_hyperparameters_reach_every_group() -> None:
    module = model()
    inner = torch.optim.Adam(
        [{"params": module[0].parameters()}, {"params": module[2].parameters(), "lr": 0.5}],
        lr=0.1,
    )
    opt = sh.LossScaleOptimizer(inner)
    assert opt.learning_rate == opt.lr == (0.1, 0.5)
    opt.learning_rate = 0.25
    opt.beta_1 = 0.5
    opt.epsilon = 1e-6
    opt.weight_decay = 0.125
    for group in inner.param_groups:
        assert group["lr"] == 0.25
        assert group["betas"] == (0.5, 0.999)
        assert group["eps"] == 1e-6
        assert group["weight_decay"] == 0.125
    assert (opt.lr, opt.beta_2, opt.betas) == (0.25, 0.999, (0.5, 0.999))
    opt.betas = (0.25, 0.75)
    assert inner.param_groups[1]["betas"] == (0.25, 0.75)
    for name in ("momentum", "params", "clipnorm"):
        with pytest.raises(AttributeError, match=name):
            setattr(opt, name, 0.5)
    for name, bad in (("lr", -1.0), ("lr", math.nan), ("beta_2", 1.0), ("betas", 0.5)):
        with pytest.raises((ValueError, TypeError), match=name[:4]):
            setattr(opt, name, bad)


def test_a_rate_that_is_a_tensor_is_set_in_place() -> None:
    module = model()
    rate = torch.tensor(0.1)
    opt = sh.LossScaleOptimizer(torch.optim.Adam(module.parameters(), lr=rate, foreach=False))
    opt.lr = 0.5
    assert opt.inner_optimizer.param_groups[0]["lr"] is rate
    assert opt.lr == rate.item() == 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("divisor", [8.0, 0.25])
@pytest.mark.parametrize("bad", [1.0, math.inf, math.nan])
def test_the_kernels_of_an_accelerator_find_what_the_core_finds(
    bad: float, divisor: float, dtype: Any
) -> None:
    torch.manual_seed(0)
    gradients = [torch.randn(n).mul(1e-3).to(dtype) for n in (5, 1000)]
    gradients[1][7] = bad
    gradients[0][:2] = 0
    copies = [gradient.clone() for gradient in gradients]
    memory = plain_memory(gradients)
    assert memory is not None
    core = check_tensors(["a", "b"], memory, divisor, in_place=True, num_threads=1)
    device = DeviceFindings(["a", "b"], copies, divisor, measure_underflow=True)
    assert device.cause is core.cause
    assert (device.num_nan, device.num_inf) == (core.num_nan, core.num_inf)
    assert device.bad_parameters == core.bad_parameters
    assert device.underflow == core.underflow
    assert device.gradient_norm == pytest.approx(core.gradient_norm, rel=1e-2, nan_ok=True)
    for ours, theirs in zip(gradients, copies, strict=True):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())


def test_an_accelerator_sees_what_only_unscaling_makes_infinite() -> None:
    gradient = torch.tensor([1e38, 1.0])
    findings = DeviceFindings(["a"], [gradient], 0.25, measure_underflow=False)
    assert (findings.cause.name, findings.num_inf) == ("INF", 1)
    assert math.isnan(findings.underflow)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e30), (torch.float64, 1e200)])
def test_a_norm_whose_square_overflows_is_no_bad_gradient(dtype: Any, size: float) -> None:
    gradient = torch.full((4,), size, dtype=dtype)
    findings = DeviceFindings(["a"], [gradient], 1.0, measure_underflow=False)
    assert findings.cause.name == "OK"
    assert findings.gradient_norm == pytest.approx(2 * size)
    assert norm_of_shards([gradient], findings.device_norms()).item() == pytest.approx(2 * size)


def test_gradients_in_another_order_of_memory_are_divided_as_any() -> None:
    images = torch.full((2, 3, 4, 5), 6.0).to(memory_format=torch.channels_last)
    parameter = torch.nn.Parameter(torch.zeros_like(images))
    opt = sh.LossScaleOptimizer(torch.optim.SGD([parameter], 1.0), initial_scale=8)
    opt.get_scaled_loss(torch.zeros(()))
    parameter.grad = images
    result = opt.step()
    assert (parameter == -0.75).all()
    assert (result.gradient_norm, result.underflow) == (pytest.approx(0.75 * 120**0.5), 0.0)
