"""A torch optimizer whose rate follows the samples seen."""

import json
import math
from typing import Any

import pytest

import sweephand as sh

torch = pytest.importorskip("torch")


def parameter(*values: float) -> Any:
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def test_sums_are_taken_from_the_parameters_if_none_are_given() -> None:
    weight = parameter(0.0)
    learner = sh.torch.Learner(torch.optim.SGD([weight]), 0.5)
    weight.grad = torch.tensor([8.0], dtype=torch.float64)
    assert learner.update(None, 4) is None
    assert weight.item() == -1.0
    weight.grad = torch.tensor([2.0], dtype=torch.float64)
    learner.step(4)  # a mean already
    assert weight.item() == -2.0


@pytest.mark.parametrize("scale", [1024.0, 3.0])
def test_a_loss_scale_inside_changes_no_parameter(scale: float) -> None:
    schedule = sh.learning_parameter_schedule(0.1, minibatch_size=8)
    plain, scaled = parameter(1.0, -2.0), parameter(1.0, -2.0)
    without = sh.torch.Learner(torch.optim.AdamW([plain]), schedule)
    opt = sh.LossScaleOptimizer(torch.optim.AdamW([scaled]), False, scale)
    with_scale = sh.torch.Learner(opt, schedule)
    for n in (3, 5, 8):
        plain.grad = scaled.grad = None
        (plain.square().sum() * n).backward()
        without.update(None, n)
        opt.get_scaled_loss(scaled.square().sum() * n).backward()
        assert with_scale.update(None, n).applied
        torch.testing.assert_close(plain, scaled, rtol=1e-12, atol=0)


def test_a_skipped_step_moves_no_schedule_of_applied_samples() -> None:
    weight = parameter(1.0)
    opt = sh.LossScaleOptimizer(torch.optim.SGD([weight]), initial_scale=8)
    schedule = sh.learning_parameter_schedule([1.0, 0.5], epoch_size=4)
    learner = sh.torch.Learner(opt, schedule)
    for factor, rate, consumed in ((math.inf, 1.0, 4), (1.0, 0.5, 8)):
        opt.zero_grad()
        opt.get_scaled_loss(weight.square().sum() * factor).backward()
        result = learner.update(None, 4)
        assert result.applied is (factor == 1)
        assert learner.learning_rate == rate
        assert learner.pace.consumed.samples == consumed


def test_a_run_of_skips_still_counts_what_was_consumed() -> None:
    weight = parameter(1.0)
    opt = sh.LossScaleOptimizer(torch.optim.SGD([weight]), max_consecutive_skips=1)
    learner = sh.torch.Learner(opt, 0.1)
    opt.get_scaled_loss(weight.sum() * math.inf).backward()
    with pytest.raises(sh.LossScaleError):
        learner.update(None, 4)
    assert learner.pace.consumed.samples == 4
    assert learner.pace.applied.samples == 0


def test_groups_keep_the_proportion_of_their_rates() -> None:
    first, second, third = parameter(0.0), parameter(0.0), parameter(0.0)
    optimizer = torch.optim.SGD([{"params": [first]}, {"params": [second], "lr": 1.0}], lr=0.1)
    learner = sh.torch.Learner(optimizer, sh.learning_parameter_schedule([0.5, 0.25]))
    optimizer.add_param_group({"params": [third], "lr": 0.05})
    one = torch.ones(1, dtype=torch.float64)
    learner.update([one, one, one], 1, sweeps_ended=1)
    assert [-p.item() for p in (first, second, third)] == pytest.approx([0.5, 5.0, 0.25])
    learner.update([one, one, one], 1)
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([0.25, 2.5, 0.125])


def test_the_rates_can_be_left_to_a_scheduler_of_torch() -> None:
    weight = parameter(0.0)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    learner = sh.torch.Learner(optimizer, None)
    for rate in (1.0, 0.5, 0.25):
        assert learner.learning_rate == rate
        before = weight.item()
        learner.update([torch.full((1,), 8.0, dtype=torch.float64)], 4)
        assert before - weight.item() == 2 * rate
        scheduler.step()


def test_two_masters_of_the_rate_are_refused() -> None:
    weight = parameter(0.0)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    learner = sh.torch.Learner(optimizer, 0.1)
    with pytest.raises(ValueError, match="lr_schedule=None"):
        learner.update([torch.ones(1, dtype=torch.float64)], 1)
    assert weight.item() == 0.0


def test_a_learner_continues_from_its_state() -> None:
    weights = [parameter(1.0), parameter(1.0)]
    schedule = sh.learning_parameter_schedule([0.5, 0.25, 0.125], 4, epoch_size=10)
    optimizers = [torch.optim.SGD([weight], lr=1.0) for weight in weights]
    learner, other = (sh.torch.Learner(optimizer, schedule) for optimizer in optimizers)
    learner.update([torch.ones(1, dtype=torch.float64)], 12)
    learner.reset_learning_rate(sh.learning_parameter_schedule([1.0, 0.5], epoch_size=5))
    learner.update([torch.ones(1, dtype=torch.float64)], 6, sweeps_ended=2)
    other.load_state_dict(json.loads(json.dumps(learner.state_dict())))
    assert other.state_dict() == learner.state_dict()
    assert other.learning_rate == learner.learning_rate == 0.5
    with pytest.raises(sh.StateError, match="lacks pace, proportions"):
        other.load_state_dict({})


def test_what_is_no_torch_optimizer_is_refused() -> None:
    import numpy as np

    for bad in (None, sh.numpy.SGD([np.ones(1)], 0.1), torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match="optimizer must be a torch optimizer"):
            sh.torch.Learner(bad, 0.1)
    with pytest.raises(ValueError, match="learning rate"):
        sh.torch.Learner(torch.optim.SGD([parameter(1.0)]), -0.1)
    groups = [{"params": [parameter(1.0)], "lr": 0.1}]
    with pytest.raises(ValueError, match="default rate of 0"):
        sh.torch.Learner(torch.optim.SGD(groups, lr=0.0), 0.1)
