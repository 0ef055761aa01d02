"""Guarded steps without a scale: what is skipped and clipped, outliers, workers and states."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.torch.launch import launch

import sweephand as sh

torch = pytest.importorskip("torch")
from tests.train.guarded_ranks import ADAMS  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

Step = Callable[..., sh.StepResult]  # of a gradient, and a loss
KINDS = ["numpy", *ADAMS, *(f"{kind} on device" for kind in ADAMS)]


def make(
    kind: str, **options: Any
) -> tuple[sh.StepGuard[Any], Step, Callable[[], list[float]]]:
    """Return a guard around Adam of three weights, its step, and its weights."""
    if kind == "numpy":
        weights = np.ones(3, np.float32)
        guard: Any = sh.StepGuard(sh.numpy.Adam({"w": weights}, 0.125), **options)

        def update(gradient: Any, loss: float | None = None) -> sh.StepResult:
            if loss is not None:
                guard.observe(loss)
            result: sh.StepResult = guard.update(
                [np.float32(gradient) * np.ones(3, np.float32)], 1
            )
            return result

        return guard, update, weights.tolist
    parameter = torch.nn.Parameter(torch.ones(3))
    inner = torch.optim.Adam([("w", parameter)], lr=0.125, **ADAMS[kind.split()[0]])
    options["verdict"] = "device" if "device" in kind else "host"
    guard = sh.StepGuard(inner, **options)

    def step(gradient: Any, loss: float | None = None) -> sh.StepResult:
        parameter.grad = torch.as_tensor(gradient) * torch.ones(3)
        result: sh.StepResult = guard.step(loss)
        return result

    return guard, step, parameter.tolist


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cause", ["inf", "nan", "nan loss", "outlier"])
def test_a_bad_step_is_skipped_named_and_changes_nothing(kind: str, cause: str) -> None:
    skipped = []
    outliers = sh.Outliers(warmup=3)
    guard, step, weights = make(kind, outliers=outliers, on_skip=skipped.append)
    for _ in range(4):
        assert step(1.0, 1.0).applied
    before, state = weights(), guard.state_dict()
    gradient, loss = {
        "inf": ([1, math.inf, 1], 1.0),
        "nan": ([1, math.nan, math.inf], 1.0),
        "nan loss": (1.0, math.nan),
        "outlier": (1.0, 2.0),
    }[cause]
    result = step(gradient, loss)
    assert (result.applied, result.cause) == (False, cause.removesuffix(" loss"))
    assert result.bad_parameters == (("w",) if cause in ("inf", "nan") else ())
    assert (result.num_nan, result.num_inf) == {"inf": (0, 1), "nan": (1, 1)}.get(cause, (0, 0))
    told = guard.state_dict()  # on a device the hook is called no later than here
    assert skipped == [result]
    assert weights() == before
    assert told | {"steps": 4, "skips_in_a_row": 0} == state
    assert step(1.0, 1.0).applied


@pytest.mark.parametrize("kind", KINDS)
def test_skips_in_a_row_end_in_an_error_without_a_word_on_scales(kind: str) -> None:
    _, step, _ = make(kind, max_consecutive_skips=2)
    step(math.inf)
    if "device" in kind:  # there it comes a step late
        step(math.inf)
    with pytest.raises(sh.LossScaleError, match="2 in a row: inf; first bad") as caught:
        step(math.inf)
    assert "scale" not in str(caught.value)
    assert (caught.value.step, caught.value.cause, caught.value.parameters) == (
        2,
        "inf",
        ("w",),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-3, 2.0, 1e25])
def test_clipping_is_that_of_torch_and_of_any_finite_size(kind: str, size: float) -> None:
    _, step, weights = make(kind, clip_norm=1.5)
    parameter = torch.nn.Parameter(torch.ones(3))
    inner = torch.optim.Adam([parameter], lr=0.125)
    for i in range(3):
        gradient = size * torch.tensor([1.0, 2.0, -2.0]) * (i + 1)
        result = step(gradient.numpy() if kind == "numpy" else gradient)
        assert (result.cause, result.gradient_norm) == ("ok", pytest.approx(size * 3 * (i + 1)))
        wide = gradient.double()
        parameter.grad = (wide * min(1.0, 1.5 / float(wide.norm()))).float()
        inner.step()
    np.testing.assert_allclose(weights(), parameter.detach(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["numpy", "host", "device"])
def test_gradients_of_float64_are_clipped_though_their_squares_overflow(kind: str) -> None:
    gradient = np.array([3e200, 4e200])
    weights = np.zeros(2)
    if kind == "numpy":
        guard: Any = sh.StepGuard(sh.numpy.SGD([weights], 1.0), clip_norm=1.0)
        result = guard.update([gradient], 1)
    else:
        parameter = torch.nn.Parameter(torch.from_numpy(weights))
        sgd = torch.optim.SGD([parameter], 1.0)
        guard = sh.StepGuard(sgd, clip_norm=1.0, verdict=kind)
        parameter.grad = torch.from_numpy(gradient)
        result = guard.step()
    assert (result.cause, result.gradient_norm) == ("ok", pytest.approx(5e200))
    np.testing.assert_allclose(weights, [-0.6, -0.8])


def test_the_mean_gradient_is_clipped_whatever_the_number_of_samples() -> None:
    for samples in (1, 4):
        weights = np.ones(1, np.float32)
        guard = sh.StepGuard(sh.numpy.SGD([weights], 1.0), clip_norm=0.5)
        guard.update([np.float32([2.0 * samples])], samples)
        assert weights.tolist() == [0.5]


@pytest.mark.parametrize("scaled", [False, True])
def test_calls_of_keras_need_no_scale(scaled: bool) -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    inner = torch.optim.SGD([parameter], 1.0)
    kind = sh.LossScaleOptimizer if scaled else sh.StepGuard
    guard = kind(inner, clip_norm=1.0)
    assert guard.minimize(lambda: (parameter * torch.tensor([3.0, 4.0])).sum()).applied
    np.testing.assert_allclose(parameter.tolist(), [0.4, 0.2], rtol=1e-6)
    if not scaled:
        assert guard.apply_gradients([(torch.full((2,), math.nan), parameter)]).cause == "nan"
        assert guard.apply_gradients([(torch.ones(2), parameter)]).applied


def noisy(count: int) -> list[tuple[float, float]]:
    """Return gradients and losses that fall, with outliers of both among them."""
    random = np.random.default_rng(0)
    falling = np.exp(0.1 * random.standard_normal((count, 2)) - np.arange(count)[:, None] / 900)
    falling[30::17, 0] *= 30
    falling[36::13, 1] *= 30
    return [(float(a), float(b)) for a, b in falling]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ["skip", "clip"])
def test_outliers_resume_to_the_bit(kind: str, action: Any) -> None:
    rule = sh.Outliers(z=5.0, warmup=20, action=action)
    guard, step, weights = make(kind, outliers=rule)
    steps = noisy(120)
    causes = [step(*one).cause for one in steps[:60]]
    state = json.loads(json.dumps(guard.state_dict()))
    assert [len(numbers) for numbers in state["outliers"].values()] == [4, 4]
    inner = copy.deepcopy(guard.inner_optimizer.state_dict())
    middle = weights()
    causes += [step(*one).cause for one in steps[60:]]
    expected = {*range(30, 120, 17), *range(36, 120, 13)}
    assert {i for i, cause in enumerate(causes) if cause == "outlier"} == expected

    again, step, its_weights = make(kind, outliers=rule)
    if kind == "numpy":
        again.inner_optimizer.parameters["w"][:] = middle
    else:
        again.inner_optimizer.param_groups[0]["params"][0].data.copy_(torch.tensor(middle))
    again.inner_optimizer.load_state_dict(inner)
    again.load_state_dict(state)
    assert [step(*one).cause for one in steps[60:]] == causes[60:]
    assert again.state_dict() == guard.state_dict()
    assert its_weights() == weights()


def test_a_clipped_outlier_is_applied_with_the_usual_norm() -> None:
    rule = sh.Outliers(of="gradient_norm", warmup=3, action="clip")
    weights = np.zeros(1, np.float32)
    guard = sh.StepGuard(sh.numpy.SGD([weights], 1.0), outliers=rule)
    for gradient in (2.0, 2.0, 2.0, 100.0):
        result = guard.update([np.float32([gradient])], 1)
    assert (result.applied, result.cause, result.gradient_norm) == (True, "outlier", 100.0)
    assert weights[0] == pytest.approx(-8.0)


def test_statistics_are_exponential_means_from_the_first_value_on() -> None:
    rule = sh.Outliers(decay=0.9, warmup=1000)
    guard, step, _ = make("numpy", outliers=rule)
    steps = noisy(50)
    for one in steps:
        step(*one)
    logs = np.log([[gradient * math.sqrt(3), loss] for gradient, loss in steps])
    weights = 0.9 ** np.arange(50)[::-1]
    weights /= weights.sum()
    for i, numbers in enumerate(guard.state_dict()["outliers"].values()):
        mean = weights @ logs[:, i]
        variance = weights @ (logs[:, i] - mean) ** 2
        np.testing.assert_allclose(numbers, [50, 1 - 0.9**50, mean, variance], rtol=1e-5)


def test_an_outlier_leaves_the_scale_and_its_counter() -> None:
    rule = sh.Outliers(of="gradient_norm", warmup=2)
    weights = np.zeros(1, np.float32)
    opt = sh.LossScaleOptimizer(sh.numpy.SGD([weights], 1.0), initial_scale=8, outliers=rule)
    for gradient in (1.0, 1.0, 50.0):
        scale = opt.get_scaled_loss(1.0)
        result = opt.update([np.float32([gradient * scale])], 1)
    assert (result.cause, result.counter, result.scale_next) == ("outlier", 2, 8.0)


@pytest.mark.parametrize("mine", [1.0, 50.0])
def test_workers_take_one_verdict_on_outliers_and_feed_the_largest(mine: float) -> None:
    theirs = 50.0
    logs: list[float] = []

    def reduce(values: Any) -> Any:
        is_outlier = float(len(logs) == 3)
        logs.append(math.log(theirs if is_outlier else 2.0))
        return np.maximum(values, [0, 1, -1, 0, 0, logs[-1], is_outlier])

    rule = sh.Outliers(of="gradient_norm", warmup=3)
    weights = np.zeros(1, np.float32)
    guard = sh.StepGuard(sh.numpy.SGD([weights], 1.0), outliers=rule, reduce=reduce)
    for gradient in (1.0, 1.0, 1.0, mine):
        result = guard.update([np.float32([gradient])], 1)
    assert (result.applied, result.cause) == (False, "outlier")
    assert guard.state_dict()["outliers"]["gradient_norm"][2] == pytest.approx(math.log(2))


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ranks")
    return launch(2, ["guarded_shards"], folder, "tests.train.guarded_ranks")


@pytest.mark.parametrize("kind", KINDS[1:])
def test_two_ranks_with_shards_clip_and_judge_by_the_norm_of_all(
    of_ranks: Any, kind: str
) -> None:
    ranks = of_ranks["guarded_shards"]
    assert [rank.code for rank in ranks] == [0, 0]
    first, second = (rank.found[kind] for rank in ranks)
    assert first["causes"] == second["causes"] == ["ok"] * 4 + ["outlier", "inf", "ok"]
    assert first["norms"] == pytest.approx(second["norms"], nan_ok=True)
    assert first["weights"] == second["weights"]
    assert first["weights"] == pytest.approx(first["alone"], rel=1e-4)
    assert first["statistics"] == second["statistics"]


@pytest.mark.parametrize(
    "options",
    [{"z": 0.0}, {"decay": 1.0}, {"floor": -1.0}, {"warmup": 1}, {"of": ["norm"]}, {"of": []},
     {"action": "stop"}, {"of": "loss", "action": "clip"}],
)  # fmt: skip
def test_rules_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{[*options][-1]}|must be"):
        sh.Outliers(**options)


def test_a_state_without_statistics_starts_them_afresh_and_wrong_ones_are_refused() -> None:
    rule = sh.Outliers(warmup=3)
    plain, _, _ = make("numpy")
    guard, step, _ = make("numpy", outliers=rule)
    step(1.0, 1.0)
    wrong = guard.state_dict() | {"outliers": {"loss": [1, 0.5, math.inf, 0.0]}}
    with pytest.raises(sh.StateError, match="no statistic has"):
        guard.load_state_dict(wrong)
    assert guard.state_dict()["outliers"]["loss"][0] == 1
    guard.load_state_dict(plain.state_dict())
    assert guard.state_dict()["outliers"]["loss"][0] == 0
    plain.load_state_dict(guard.state_dict())


def recorded(dtype: Any, count: int = 60) -> list[Any]:
    """Return gradients as they were recorded from float16 training: some overflow."""
    random = torch.Generator().manual_seed(0)
    gradients = [torch.randn(3, 5, generator=random) * 2.0 ** (-i % 7) for i in range(count)]
    for i in (0, 1, 9, 20, 21, 22, 40):
        gradients[i][1, 2] = math.inf if i % 3 else math.nan
    return [gradient.to(dtype) for gradient in gradients]


MAKERS = {
    "sgd": lambda p: torch.optim.SGD([p], 0.125, momentum=0.5),
    "dampened sgd": lambda p: torch.optim.SGD([p], 0.125, momentum=0.5, dampening=0.25),
    **{
        name: lambda p, options=options: torch.optim.AdamW([p], 0.125, **options)
        for name, options in ADAMS.items()
    },
    "NAdam": lambda p: torch.optim.NAdam([p], 0.125),
    "Rprop": lambda p: torch.optim.Rprop([p], 0.125),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    "options",
    [{}, {"hysteresis": 2}, {"hysteresis": 2, "refill": "growth"},
     {"dynamic": False, "dynamic_growth_steps": None}, {"max_scale": 2.0**11}],
    ids=str,
)  # fmt: skip
def test_a_verdict_on_the_device_is_that_of_the_host_step_by_step(
    name: str, dtype: Any, options: dict[str, Any]
) -> None:
    outcomes = []
    for verdict in ("host", "device"):
        parameter = torch.nn.Parameter(torch.ones(3, 5, dtype=dtype))
        skips: list[sh.StepResult] = []
        settings = {"initial_scale": 2.0**10, "dynamic_growth_steps": 4, "min_scale": 256.0}
        opt = sh.LossScaleOptimizer(
            MAKERS[name](parameter),
            verdict=verdict,
            on_skip=skips.append,
            **settings | options,
        )
        told: list[Any] = []
        for gradient in recorded(dtype):
            loss = opt.get_scaled_loss(torch.tensor(1.0))
            parameter.grad = gradient * loss.to(dtype)
            result = opt.step()
            told.append((result, parameter.detach().clone()))
        opt.discard()
        state = opt.state_dict()
        outcomes.append((told, state, [(one.cause, one.scale_next) for one in skips]))
    (host, state, changes), (device, its_state, its_changes) = outcomes
    assert its_state == state
    assert its_changes == changes
    for (mine, weights), (theirs, their_weights) in zip(device, host, strict=True):
        assert mine.gradient_norm == pytest.approx(theirs.gradient_norm, nan_ok=True)
        for attribute in ("applied", "cause", "scale_used", "scale_next", "counter"):
            assert getattr(mine, attribute) == getattr(theirs, attribute)
        assert torch.equal(weights, their_weights)


class Reads(TorchDispatchMode):
    """Counts the numbers that the host reads of tensors."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def reads(take: Callable[[], object], times: int = 1) -> int:
    with Reads() as counted:
        for _ in range(times):
            take()
    return counted.count


@pytest.mark.parametrize("kind", ADAMS)
@pytest.mark.parametrize("scaled", [False, True])
def test_no_step_of_a_verdict_on_the_device_reads_a_number(kind: str, scaled: bool) -> None:
    model, other = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    alone = torch.optim.Adam(other.parameters(), 1e-3, **ADAMS[kind])
    inner = torch.optim.Adam(model.parameters(), 1e-3, **ADAMS[kind])
    x = torch.randn(8, 4)
    made = sh.LossScaleOptimizer if scaled else sh.StepGuard
    opt = made(inner, verdict="device", clip_norm=0.5, outliers=sh.Outliers(warmup=5))

    def ours() -> None:
        opt.zero_grad()
        loss = model(x).square().mean()
        opt.get_scaled_loss(loss).backward()
        opt.step()

    def theirs() -> None:
        alone.zero_grad()
        other(x).square().mean().backward()
        alone.step()

    assert reads(ours, 100) == reads(theirs, 100)


BORN = [
    ("ASGD", {}),
    ("NAdam", {}),
    ("Rprop", {}),
    ("SGD", {"momentum": 0.5, "dampening": 0.5}),
]
ZEROS = [
    (name, {})
    for name in ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "RAdam",
                 "RMSprop", "SGD")
    if hasattr(torch.optim, name)
]  # fmt: skip
OTHERS = [
    ("SGD", {"momentum": 0.5}),
    ("Adam", {"amsgrad": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("ExactMasters", {}),
]


@pytest.mark.parametrize(
    ("name", "options", "waits"),
    [
        *((*one, [0, 0, 0]) for one in (*ZEROS, *OTHERS)),
        *((*one, [1, 0, 0]) for one in BORN),  # with other states than zeros, once
        ("SparseAdam", {}, [1, 1, 1]),  # counts steps in an int
    ],
)
def test_only_these_optimizers_wait_for_a_verdict_on_the_device(
    name: str, options: dict[str, Any], waits: list[int]
) -> None:
    def made() -> tuple[Any, Any]:
        if name == "ExactMasters":
            parameter = torch.nn.Parameter(torch.ones(3, 4, dtype=torch.bfloat16))
            return parameter, sh.torch.ExactMasters(torch.optim.Adam([parameter], 0.125))
        parameter = torch.nn.Parameter(torch.ones(3, 4))
        return parameter, getattr(torch.optim, name)([parameter], 0.125, **options)

    def give(parameter: Any, factor: float) -> None:
        gradient = torch.ones_like(parameter) * factor
        parameter.grad = gradient.to_sparse(1) if name == "SparseAdam" else gradient

    (parameter, inner), (other, alone) = made(), made()
    guard = sh.StepGuard(inner, verdict="device")
    counts = []
    for _ in range(3):
        give(parameter, 1.0)
        give(other, 1.0)
        counts.append(reads(guard.step) - reads(alone.step))
    assert counts == waits

    (parameter, inner), (other, alone) = made(), made()
    guard = sh.StepGuard(inner, verdict="device")
    for factor in (math.inf, 1.0, math.nan, 2.0):
        give(parameter, factor)
        guard.step()
        if math.isfinite(factor):
            give(other, factor)
            alone.step()
        assert torch.equal(parameter, other)


def test_a_learner_needs_the_verdict_on_the_host() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    guard = sh.StepGuard(torch.optim.SGD([parameter], 0.1), verdict="device")
    with pytest.raises(TypeError, match="no closure"):
        guard.step(lambda: parameter.sum())
    with pytest.raises(ValueError, match="leave verdict='device' out"):
        sh.torch.Learner(guard, None)
    for options in ({"verdict": "gpu"}, {"verdict": "device", "reduce": lambda x: x}):
        with pytest.raises(ValueError, match="verdict"):
            sh.StepGuard(torch.optim.SGD([parameter], 0.1), **options)
    with pytest.raises(ValueError, match="NumPy has no device"):
        sh.StepGuard(sh.numpy.SGD([np.ones(1)], 0.1), verdict="device")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU of NVIDIA")
@pytest.mark.parametrize("scaled", [False, True])
def test_a_cuda_graph_captures_a_step(scaled: bool) -> None:
    outcomes = []
    for graphed in (False, True):
        parameter = torch.nn.Parameter(torch.ones(4, device="cuda"))
        factor = torch.ones((), device="cuda")
        inner = torch.optim.AdamW([parameter], 0.125, fused=True, capturable=True)
        made = sh.LossScaleOptimizer if scaled else sh.StepGuard
        opt = made(inner, clip_norm=1.0)

        def take(opt: Any = opt, parameter: Any = parameter, factor: Any = factor) -> Any:
            opt.zero_grad(set_to_none=False)
            opt.get_scaled_loss((parameter * factor).square().sum()).backward()
            return opt.step()

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            take()
        torch.cuda.current_stream().wait_stream(side)
        if graphed:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = take()
        for value in (1.0, math.inf, 2.0):
            factor.fill_(value)
            if graphed:
                graph.replay()
                result = captured
            else:
                result = take()
            assert result.applied is math.isfinite(value)
        outcomes.append((parameter.tolist(), opt.state_dict()))
    assert outcomes[0] == outcomes[1]
