"""The judgement of a step: what is wrong with it, and how it is clipped."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.outliers import Outliers
from sweephand.train.loss_scale.scale_settings import ScaleSettings
from sweephand.train.loss_scale.step_numbers import (
    NOTHING,
    HostNumbers,
    Number,
    Reduce,
    Statistic,
    StepNumbers,
)


def advance(
    rule: ScaleSettings, now: StepNumbers, cause: Number, on: HostNumbers
) -> StepNumbers:
    """Count one step, and move the scale.

    An outlier, whose gradients are finite, says nothing about the scale. A NaN loss starts the
    count again, but no scale cures it.
    """
    if not rule.dynamic:
        return now._replace(change=0.0)
    where = on.where
    is_clean = cause == Cause.OK
    is_overflow = (cause == Cause.INF) | ((cause == Cause.NAN) & (rule.nan == "back off"))
    counter = where(is_clean, now.counter + 1, 0.0)
    grows = is_clean & (counter >= rule.growth_steps)
    credit = where(is_overflow & (now.credit > 0), now.credit - 1, now.credit)
    reduces = is_overflow & (credit == 0)
    refills = grows | (is_clean & (rule.refill == "clean step"))

    grown = on.as_float32(now.scale * rule.growth_factor)
    grown = where(grown > rule.max_scale, rule.max_scale, grown)
    reduced = on.as_float32(now.scale * rule.backoff_factor)
    is_floor = reduces & (reduced < rule.min_scale)
    reduced = where(is_floor, rule.min_scale, reduced)
    scale = where(grows, grown, where(reduces, reduced, now.scale))
    change = where(scale != now.scale, where(grows, 1.0, 2.0), 0.0)
    return now._replace(
        scale=scale,
        credit=where(refills, float(rule.hysteresis), credit),
        counter=where(cause == Cause.OUTLIER, now.counter, where(grows, 0.0, counter)),
        change=where(is_floor, 3.0, change),
    )


class Judgement(NamedTuple):
    """A judgement over all workers, and the norm and logarithms that it is based on."""

    is_good: Number  # the step may be taken
    cause: Number
    divisor: Number  # by which the gradients are clipped
    norm: Number
    logarithms: list[Number]  # with which the statistics of outliers go on
    parted: Number  # the scale or counter of a worker is another


@dataclass(frozen=True)
class Judge:
    """The rules by which the steps of a guard are judged and counted."""

    settings: ScaleSettings
    clip_norm: float | None
    outliers: Outliers | None
    check_finite: bool

    @property
    def needs_norm(self) -> bool:
        """True if the norm of all gradients together decides."""
        return self.clip_norm is not None or self.outliers is not None

    @property
    def watches_loss(self) -> bool:
        """True if the loss of a step may be an outlier."""
        return self.outliers is not None and "loss" in self.outliers.of

    def first(self) -> StepNumbers:
        """Return the numbers before the first step."""
        watched = () if self.outliers is None else self.outliers.of
        return StepNumbers(
            self.settings.initial_scale,
            0.0,
            float(self.settings.hysteresis),
            statistics=tuple(Statistic() for _ in watched),
        )

    def judge(
        self,
        on: HostNumbers,
        cause: Number,
        nan_loss: Any,
        norm: Number,
        loss: Any,
        reduce: Reduce | None,
        num_samples: int,
    ) -> Judgement:
        """Judge a step, whose gradients were found to be sums over that many samples."""
        now, rule, where = on.now(), self.outliers, on.where
        cause = on.number(cause)
        if self.check_finite:
            # Also what only the norm shows, as of float64 beyond the largest number.
            cause = where((norm == math.inf) & (cause == Cause.OK), float(Cause.INF), cause)
            cause = where(norm != norm, float(Cause.NAN), cause)
            cause = where(on.number(nan_loss) > 0, float(Cause.NAN_LOSS), cause)
        else:
            cause = cause * 0.0
        logs, bounds, is_outlier = [], [], False
        mean = on.number(norm) / num_samples
        if rule is not None:
            values = {"gradient_norm": mean, "loss": math.nan if loss is None else loss}
            logs = [on.log(on.number(values[of])) for of in rule.of]
            bounds = [self._bound(rule, one, on) for one in now.statistics]
            for log, bound in zip(logs, bounds, strict=True):
                is_outlier |= log > bound
        parted = False
        if reduce is not None:
            # A maximum of -x is a minimum of x: where both are equal, so are all workers.
            mine = [cause, now.scale, -now.scale, now.counter, -now.counter, *logs]
            # Whether it is an outlier here is a number too: all believe those who say so.
            mine += [where(is_outlier, 1.0, 0.0)] * (rule is not None)
            cause, scale, minus_scale, counter, minus_counter, *logs = on.maximum(reduce, mine)
            parted = (scale != -minus_scale) | (counter != -minus_counter)
            is_outlier = logs.pop() > 0 if logs else False
        is_good = cause == Cause.OK
        limit = math.inf if self.clip_norm is None else self.clip_norm
        if rule is not None:
            is_outlier &= is_good
            cause = where(is_outlier, float(Cause.OUTLIER), cause)
            if rule.action == "skip":
                is_good = cause == Cause.OK
            else:
                usual = math.e ** now.statistics[rule.of.index("gradient_norm")].mean
                limit = where(is_outlier & (usual < limit), usual, limit)
            logs = [where(x > b, b, x) for x, b in zip(logs, bounds, strict=True)]
        divisor = where(is_good & (mean > limit), mean / limit, 1.0)
        return Judgement(is_good, cause, divisor, norm, logs, parted)

    @staticmethod
    def _bound(rule: Outliers, one: Statistic, on: HostNumbers) -> Number:
        """Return the largest logarithm that is not an outlier."""
        spread = one.variance**0.5
        spread = on.where(spread < rule.floor, rule.floor, spread)
        return on.where(one.count < rule.warmup, math.inf, one.mean + rule.z * spread)

    def count(self, on: HostNumbers, judged: Judgement) -> None:
        """Count a judged step: move the scale, and let the statistics go on if it is taken."""
        now, where, is_good = on.now(), on.where, judged.is_good
        new = advance(self.settings, now, where(is_good, 0.0, judged.cause), on)
        statistics = now.statistics
        if self.outliers is not None:
            decay = self.outliers.decay
            statistics = tuple(
                Statistic(
                    *map(partial(where, is_good & (log > NOTHING)), one.fed(log, decay), one)
                )
                for log, one in zip(judged.logarithms, statistics, strict=True)
            )
        on.write(
            new._replace(
                steps=now.steps + 1,
                applied_steps=now.applied_steps + where(is_good, 1.0, 0.0),
                skips_in_a_row=where(is_good, 0.0, now.skips_in_a_row + 1),
                is_good=is_good,
                cause=judged.cause,
                scale_used=now.scale,
                norm=judged.norm,
                parted=judged.parted,
                statistics=statistics,
            )
        )
