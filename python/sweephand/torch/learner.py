"""A learner around any torch optimizer: rates by samples seen, gradients as sums."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sweephand.base.checks import check_number
from sweephand.errors import ArgumentTypeError, shown
from sweephand.source.schedules import Schedule
from sweephand.torch.gradients import in_own_memory
from sweephand.torch.optimizers import are_optimizers
from sweephand.train.learners.learner import Learner, check_counts, report_restored
from sweephand.train.loss_scale.judgement import StepResult
from sweephand.train.loss_scale.optimizers import listed
from sweephand.train.loss_scale.step_guard import StepGuard
from sweephand.train.states import check_keys, reading


class TorchLearner(Learner):
    """A torch optimizer whose learning rate follows the samples seen.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer, or LossScaleOptimizer or StepGuard around one or several
        The optimizer of the steps.
    lr_schedule : float, Schedule or None
        The learning rate of the mean gradient of n samples is ``x * n / M`` for a scheduled
        rate x and its reference size M, or x without one. It is written into every parameter
        group before each step; a group with another rate than the optimizer's default keeps its
        proportion to it. None leaves the rates alone, as to a scheduler of torch.

    Attributes
    ----------
    pace : Pace
        The clocks and the schedule of learning rates.
    optimizers : sequence of torch.optim.Optimizer
        The torch optimizers inside.
    guard : StepGuard or None
        The guard around them, which may be a loss scale.

    Examples
    --------
    >>> import torch, sweephand as sh
    >>> model = torch.nn.Linear(4, 1)
    >>> rates = sh.learning_parameter_schedule(0.05, minibatch_size=64)
    >>> learner = sh.torch.Learner(torch.optim.Adam(model.parameters()), rates)
    >>> round(learner.learning_rate, 3)
    0.05
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | StepGuard[Any],
        lr_schedule: float | Schedule[float] | None,
    ) -> None:
        self.guard: StepGuard[Any] | None = (
            optimizer if isinstance(optimizer, StepGuard) else None
        )
        inner = optimizer if self.guard is None else self.guard.inner_optimizer
        optimizers = listed(inner)
        if not are_optimizers(optimizers):
            raise ArgumentTypeError(
                "optimizer must be a torch optimizer, or a LossScaleOptimizer or StepGuard "
                "around one, such as torch.optim.Adam(model.parameters()), got "
                f"{shown(optimizer)}"
            )
        if isinstance(lr_schedule, torch.optim.lr_scheduler.LRScheduler):
            raise ArgumentTypeError(
                f"lr_schedule is a schedule of sh, got {shown(lr_schedule)}: lr_schedule=None "
                "leaves the rates to it, and you step it after each minibatch"
            )
        self.optimizers = optimizers
        if self.guard is not None:
            self.guard.judge_on_host()
        super().__init__(lr_schedule)
        self._proportions: list[float] = []  # of each group's rate to its optimizer's default
        if self.pace.schedule is not None:
            self._note_proportions()

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [parameter for group in self._groups() for parameter in group["params"]]

    def update(
        self,
        gradient_sums: Sequence[Tensor | None] | None,
        num_samples: int,
        sweeps_ended: int = 0,
    ) -> StepResult | None:
        """Take a step with the sums of the gradients over a minibatch.

        Parameters
        ----------
        gradient_sums : sequence of Tensor or None, or None
            For each parameter, in order, the sum of the gradients over the samples; None takes
            the ``.grad`` of the parameters. They are divided in place, but for those that
            share memory. Under a loss scale they still carry it.
        num_samples : int
            Label samples of the minibatch, over all workers; at least 1.
        sweeps_ended : int
            Sweeps that ended in the minibatch.

        Returns
        -------
        StepResult or None
            The outcome of a guarded step; None without a guard. `LossScaleError` is raised if
            too many steps in a row were skipped.
        """
        check_counts(num_samples, sweeps_ended)
        if gradient_sums is not None:
            parameters = self.parameters
            if len(gradient_sums) != len(parameters):
                raise ValueError(
                    f"wanted a gradient or None for each of {len(parameters)} parameters, "
                    f"got {len(gradient_sums)}"
                )
            for parameter, gradient in zip(parameters, gradient_sums, strict=True):
                parameter.grad = gradient
        if self.guard is not None:
            self.guard.unscale_(num_samples)
        else:
            held = [one for one in self.parameters if one.grad is not None]
            owned = in_own_memory([one.grad for one in held if one.grad is not None])
            for parameter, gradient in zip(held, owned, strict=True):
                parameter.grad = gradient.div_(num_samples)
        return self.step(num_samples, sweeps_ended)

    def step(self, num_samples: int, sweeps_ended: int = 0) -> StepResult | None:
        """Take a step with the mean gradients that the parameters hold, else as `update`."""
        check_counts(num_samples, sweeps_ended)
        if self.pace.schedule is not None:
            self._write_rates(self.pace.rate(num_samples))
        if self.guard is not None:
            return self.guard.finish(self, num_samples, sweeps_ended)
        self.take(num_samples, sweeps_ended)
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return clocks and rates as JSON; optimizer and guard have states of their own."""
        return super().state_dict() | {"proportions": list(self._proportions)}

    def keep_hyperparameters(self, state: dict[str, Any]) -> None:
        """Put the present rates into a state, in place of its own."""
        super().keep_hyperparameters(state)
        state["proportions"] = list(self._proportions)

    def settings(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of each group, but those that a schedule sets."""
        scheduled = set() if self.pace.schedule is None else {"lr"}
        return [
            {k: v for k, v in group.items() if k not in scheduled | _set_by_torch(group)}
            for group in self._groups()
        ]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError and change nothing."""
        check_keys("a learner", state, self.state_dict())
        with reading("a learner"):
            proportions = [check_number("a proportion", one) for one in state["proportions"]]
            count, found = len(self._proportions), len(proportions)
            if count != found or not all(map(math.isfinite, proportions)):
                raise ValueError(
                    f"it has the proportions {proportions} of rates of groups to the default, "
                    f"wanted are {count} finite ones"
                )
        super().load_state_dict(state)
        report_restored("the rates of groups to the default", proportions, self._proportions)
        self._proportions = proportions

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the mean gradients that the parameters hold, and count it."""
        for optimizer in self.optimizers:
            optimizer.step()
        self.pace.advance(num_samples, sweeps_ended, applied=True)

    def _present_rate(self) -> float:
        return float(self._groups()[0]["lr"])

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _note_proportions(self) -> None:
        """Note the proportions of groups that are new."""
        groups = [
            (group, optimizer.defaults["lr"])
            for optimizer in self.optimizers
            for group in optimizer.param_groups
        ]
        for group, default in groups[len(self._proportions) :]:
            rate, default = float(group["lr"]), float(default)
            if default == 0 and rate != 0:
                raise ValueError("a default rate of 0 leaves a group's rate no proportion")
            self._proportions.append(1.0 if rate == default else rate / default)

    def _write_rates(self, rate: float) -> None:
        groups = self._groups()
        if len(groups) > len(self._proportions):  # some were added
            self._note_proportions()
        for group, proportion in zip(groups, self._proportions, strict=True):
            if "initial_lr" in group:
                raise ValueError(
                    "a torch lr_scheduler sets the rates of this optimizer as well: "
                    "give lr_schedule=None to leave them to it"
                )
            if isinstance(group["lr"], Tensor):  # it may be part of a captured graph
                group["lr"].fill_(rate * proportion)
            else:
                group["lr"] = rate * proportion


def _set_by_torch(group: Mapping[str, Any]) -> set[str]:
    """Return the names in a group that are no settings, or that a torch scheduler sets."""
    names = {"params", "param_names"}
    if "initial_lr" in group:
        names |= {"lr", "initial_lr", "max_lr", "min_lr"}
    if "base_momentum" in group:
        names |= {"base_momentum", "max_momentum", "momentum", "betas"}
    return names
