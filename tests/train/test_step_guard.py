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

Step = Callable[..., sh.StepResult]  # of a gradient, and a loss
ADAMS = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
KINDS = ["numpy", *ADAMS]


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
    inner = torch.optim.Adam([("w", parameter)], lr=0.125, **ADAMS[kind])
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
    assert skipped == [result]
    assert weights() == before
    assert guard.state_dict() | {"steps": 4, "skips_in_a_row": 0} == state
    assert step(1.0, 1.0).applied


@pytest.mark.parametrize("kind", KINDS)
def test_skips_in_a_row_end_in_an_error_without_a_word_on_scales(kind: str) -> None:
    _, step, _ = make(kind, max_consecutive_skips=2)
    step(math.inf)
    with pytest.raises(sh.LossScaleError, match="2 in a row: inf; first bad") as caught:
        step(math.inf)
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


def test_two_ranks_with_shards_clip_and_judge_by_the_norm_of_all(tmp_path: Any) -> None:
    found = launch(2, ["guarded_shards"], tmp_path, "tests.train.guarded_ranks")
    ranks = found["guarded_shards"]
    assert [rank.code for rank in ranks] == [0, 0]
    first, second = (rank.found for rank in ranks)
    assert first["causes"] == second["causes"] == ["ok"] * 4 + ["outlier", "inf", "ok"]
    assert first["norms"] == pytest.approx(second["norms"], nan_ok=True)
    assert first["weights"] == second["weights"]
    assert first["weights"] == pytest.approx(first["alone"], rel=1e-5)
    assert first["statistics"] == second["statistics"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be positive"),
        ({"outliers": 6.0}, "outliers must be an Outliers"),
        ({"reduce": 3}, "reduce must be callable"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make("numpy", **options)


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


def test_a_trainer_skips_what_its_guard_says() -> None:
    x = np.ones((60, 1), np.float32)
    x[40] = 1e4
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": x}), randomize=False, max_sweeps=1)
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    guard = sh.StepGuard(
        torch.optim.SGD(model.parameters(), 1e-3), outliers=sh.Outliers(warmup=5)
    )
    trainer = sh.Trainer(
        model,
        lambda model, minibatch: (model(minibatch["x"].torch()) - 2).square().sum(),
        sh.torch.Learner(guard, None),
    )
    for minibatch in source.minibatches(2):
        trainer.train_minibatch(minibatch)
    trainer.await_step()
    assert (trainer.consumed.steps, trainer.applied.steps) == (30, 29)
    assert guard.state_dict()["outliers"]["loss"][0] == 29
