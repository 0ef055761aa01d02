"""The rule by which a loss scale grows and backs off: numbers only, no gradients."""

from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.scale_settings import ScaleSettings
from sweephand.train.loss_scale.step_numbers import HostNumbers, Number, StepNumbers


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
