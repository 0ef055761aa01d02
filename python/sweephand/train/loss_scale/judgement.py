"""The judgement of a step: its causes, clipping and result, and the move of the scale."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import check_choice, check_int, check_number
from sweephand.errors import ArgumentTypeError, StateError
from sweephand.train.learners.arrays import Cause, Findings
from sweephand.train.states import check_keys, decode, reading

Quantity: TypeAlias = Literal["gradient_norm", "loss"]
Refill: TypeAlias = Literal["clean step", "growth"]
Number: TypeAlias = Any  # a float, or a tensor of one that a device is still computing
Reduce: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

NOT_ASKED = -1.0  # for a norm
NOTHING = -math.inf  # the logarithm of a value that is not positive, or not known
COUNTS = ("counter", "credit", "steps", "applied_steps", "skips_in_a_row")
logger = logging.getLogger("sweephand")


@dataclass(frozen=True)
class Outliers:
    """A rule for steps that are outliers: the third cause beside ``"inf"`` and ``"nan"``.

    The logarithms of gradient norm and loss have an exponential mean and spread, which applied
    steps with positive values change. A step is an outlier if one of them lies more than ``z``
    spreads above its mean.

    Parameters
    ----------
    z : float
    of : sequence of {"gradient_norm", "loss"}
        The quantities that are watched. All workers use the largest of theirs.
    warmup : int
        Applied steps before the first can be an outlier.
    decay : float
        Weight of the statistics so far when a step comes in, between 0 and 1.
    floor : float
        The least spread: of 0.05, differences below 5 % count as none.
    action : {"skip", "clip"}
        Skip an outlier, or clip its gradients to the mean of past norms and take it. It then
        changes the statistics as if it lay on the boundary.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> learner = sh.numpy.SGD({"w": np.zeros(1, np.float32)}, 0.1)
    >>> guard = sh.StepGuard(learner, outliers=sh.Outliers(of=["gradient_norm"], warmup=2))
    >>> [guard.update([np.float32([g])], 1).cause for g in (1, 1.01, 0.99, 9, 1)]
    ['ok', 'ok', 'ok', 'outlier', 'ok']
    """

    z: float = 6.0
    of: Sequence[Quantity] = ("gradient_norm", "loss")
    warmup: int = 100
    decay: float = 0.99
    floor: float = 0.05
    action: Literal["skip", "clip"] = "skip"

    def __post_init__(self) -> None:
        for name, most in (("z", math.inf), ("decay", 1.0), ("floor", math.inf)):
            if not 0 < check_number(name, getattr(self, name)) < most:
                raise ValueError(
                    f"{name} must lie between 0 and {most}, got {getattr(self, name)!r}"
                )
        check_int("warmup", self.warmup, least=2)
        given = [self.of] if isinstance(self.of, str) else [*self.of]
        if not given or not {*given} <= {"gradient_norm", "loss"}:
            raise ValueError(f"of must be of 'gradient_norm' and 'loss', got {self.of!r}")
        object.__setattr__(self, "of", tuple(dict.fromkeys(given)))
        check_choice("action", self.action, "skip", "clip")
        if self.action == "clip" and "gradient_norm" not in self.of:
            raise ValueError("action='clip' clips to past norms: of must have 'gradient_norm'")


@dataclass(frozen=True)
class ScaleSettings:
    """The settings of a loss scale; by default those of a guard without one."""

    dynamic: bool = False
    initial_scale: float = 1.0
    growth_steps: int = 1
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    min_scale: float = 1.0
    max_scale: float = 1.0
    hysteresis: int = 1
    refill: Refill = "clean step"

    def __post_init__(self) -> None:
        keep = partial(object.__setattr__, self)
        for name in ("min_scale", "initial_scale", "max_scale"):
            keep(name, scale_number(name, getattr(self, name)))
        if self.dynamic and not self.min_scale <= self.initial_scale <= self.max_scale:
            raise ValueError(
                "initial_scale must lie between min_scale and max_scale, got "
                f"{self.initial_scale}, {self.min_scale} and {self.max_scale}"
            )
        for name, least, most in (("growth_factor", 1, math.inf), ("backoff_factor", 0, 1)):
            if not least < (factor := check_number(name, getattr(self, name))) < most:
                raise ValueError(f"{name} must lie between {least} and {most}, got {factor!r}")
            keep(name, factor)
        keep("growth_steps", check_int("dynamic_growth_steps", self.growth_steps))
        keep("hysteresis", check_int("hysteresis", self.hysteresis))
        check_choice("refill", self.refill, "clean step", "growth")


def scale_number(name: str, value: object) -> float:
    """Return a loss scale as the float32 it is: positive and finite."""
    scale = as_float32(check_number(name, value))
    if not 0 < scale < math.inf:
        raise ValueError(f"{name} must be a positive and finite float32, got {value!r}")
    return scale


def as_float32(value: float) -> float:
    """Return the nearest float32, which is infinite for a number that is too large."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


class Statistic(NamedTuple):
    """Exponential mean and variance of a logarithm, exact from the first value on."""

    count: Number = 0.0
    weight: Number = 0.0  # of all values together: 1 - decay ** count
    mean: Number = 0.0
    variance: Number = 0.0

    def fed(self, value: Number, decay: float) -> "Statistic":
        """Return what it becomes by a value."""
        weight = decay * self.weight + (1.0 - decay)
        share = (1.0 - decay) / weight
        difference = value - self.mean
        variance = (1.0 - share) * (self.variance + share * difference * difference)
        return Statistic(self.count + 1, weight, self.mean + share * difference, variance)


class StepNumbers(NamedTuple):
    """Those that go on from step to step, then those of the last step."""

    scale: Number
    counter: Number  # applied steps in a row since the scale last changed
    credit: Number  # overflows that are let pass until one halves the scale
    steps: Number = 0.0
    applied_steps: Number = 0.0
    skips_in_a_row: Number = 0.0
    is_good: Number = False
    cause: Number = 0.0
    scale_used: Number = 0.0
    norm: Number = NOT_ASKED  # of all shards together
    parted: Number = False  # the scale or counter of a worker is another
    statistics: tuple[Statistic, ...] = ()

    def flat(self) -> list[Number]:
        """Return all of them in a row."""
        return [*self[:-1], *chain(*self.statistics)]

    @classmethod
    def of(cls, flat: Sequence[Number]) -> "StepNumbers":
        """Return the numbers that `flat` has put in a row."""
        count = len(cls._fields) - 1
        fours = zip(*[iter(flat[count:])] * 4, strict=True)
        return cls._make([*flat[:count], tuple(Statistic(*four) for four in fours)])


CauseName: TypeAlias = Literal["ok", "inf", "nan", "outlier", "no gradient"]
# By their number; the fourth is a loss that is NaN.
CAUSES: tuple[CauseName, ...] = ("ok", "inf", "nan", "nan", "outlier")


class StepResult:
    """The outcome of one step, whose attributes wait for an accelerator when they are read.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> learner = sh.numpy.SGD({"w": np.zeros(2, np.float32)}, 0.1)
    >>> optimizer = sh.LossScaleOptimizer(learner, initial_scale=8)
    >>> loss = optimizer.get_scaled_loss(1.0)
    >>> result = optimizer.update([np.float32([np.inf, 1])], 1)
    >>> result.applied, result.cause, result.scale_used, result.scale_next
    (False, 'inf', 8.0, 4.0)
    """

    def __init__(self, read: Callable[[], StepNumbers], findings: Findings) -> None:
        self._read = read
        self._findings = findings

    def __repr__(self) -> str:
        return (
            f"StepResult(applied={self.applied}, cause={self.cause!r}, "
            f"scale_used={self.scale_used}, scale_next={self.scale_next}, "
            f"counter={self.counter})"
        )

    @property
    def applied(self) -> bool:
        """True if the parameters were changed."""
        return bool(self._read().is_good and self._findings.names)

    @property
    def cause(self) -> CauseName:
        """The cause over all workers; an outlier may have been clipped and applied.

        "no gradient" means that this worker had none while others could take the step.
        """
        cause = int(self._read().cause)
        return CAUSES[cause] if self._findings.names or cause else "no gradient"

    @property
    def scale_used(self) -> float:
        """The loss scale of this step."""
        return float(self._read().scale_used)

    @property
    def scale_next(self) -> float:
        """The loss scale of the next step."""
        return float(self._read().scale)

    @property
    def counter(self) -> int:
        """Applied steps in a row since the scale last changed."""
        return int(self._read().counter)

    @property
    def is_skipped(self) -> bool:
        """True if the step was skipped, and counts as such: "no gradient" does not."""
        return not self._read().is_good

    @property
    def gradient_norm(self) -> float:
        """The norm of the unscaled gradients before clipping; 0 if this worker had none.

        It is that of all shards if the guard clips or watches it, else of this worker's.
        """
        norm = self._read().norm
        is_here = norm < 0 or not self._findings.names
        return self._findings.gradient_norm if is_here else norm

    @property
    def num_nan(self) -> int:
        """Elements of this worker's gradients that are NaN.

        On an accelerator at least one for each such gradient that is not there any more.
        """
        return self._findings.num_nan

    @property
    def num_inf(self) -> int:
        """Elements of this worker's gradients that are infinite, scaled or unscaled."""
        return self._findings.num_inf

    @property
    def underflow(self) -> float:
        """The share of gradient elements that were too small: a higher scale may help.

        They are zero or subnormal as a float16 while scaled, or became zero when unscaled.
        """
        return self._findings.underflow

    @property
    def bad_parameters(self) -> tuple[str, ...]:
        """The first few parameters whose gradient is not finite."""
        return self._findings.bad_parameters


def explain(result: StepResult, numbers: StepNumbers, *, is_scaled: bool) -> str:
    """Describe a skipped step: its cause, its place, and a remedy."""
    where = f"first bad parameters: {', '.join(result.bad_parameters) or 'none here'}"
    lower = ", or a lower min_scale" if is_scaled else ""
    advice = {
        "nan": "no scale cures NaN, look for its source in the data or the model",
        "inf": f"a smaller learning rate or clipping may help{lower}",
        "outlier": "look at its data; Outliers(action='clip') takes such steps",
    }[result.cause]
    at = f" at loss scale {result.scale_used:g}" if is_scaled else ""
    return (
        f"step {int(numbers.steps)} skipped, {int(numbers.skips_in_a_row)} in a row: "
        f"{result.cause}{at}; {where}; {advice}"
    )


class HostNumbers:
    """The numbers of a run as floats, and the arithmetic of judgements, as for tensors."""

    is_far = False  # its numbers are on a device, whose reader waits

    def __init__(self, numbers: StepNumbers) -> None:
        self._numbers = numbers

    @property
    def is_captured(self) -> bool:
        """True while a graph captures the step: nothing can be read then."""
        return False

    def now(self) -> StepNumbers:
        """Return the numbers to compute with."""
        return self._numbers

    def write(self, numbers: StepNumbers) -> None:
        """Continue with these numbers."""
        self._numbers = numbers

    def reader(self) -> Callable[[], StepNumbers]:
        """Return a function that returns the present numbers as floats, now or later."""
        numbers = self._numbers
        return lambda: numbers

    def told(self) -> StepNumbers:
        """Return the numbers as floats, which waits for a device."""
        return self.reader()()

    def number(self, x: Any) -> Number:
        """Return a number; a tensor is waited for."""
        return float(x)

    def where(self, condition: Any, one: Number, other: Number) -> Number:
        """Return one number or the other."""
        return one if condition else other

    def log(self, x: Number) -> Number:
        """Return the logarithm; `NOTHING` unless it is positive and finite."""
        return math.log(x) if 0 < x < math.inf else NOTHING

    def as_float32(self, x: Number) -> Number:
        """Return the nearest float32."""
        return as_float32(x)

    def maximum(self, reduce: Reduce, mine: list[Number]) -> list[Number]:
        """Return the largest of each number over all workers."""
        together = np.asarray(reduce(np.array(mine, np.float64)), np.float64)
        if together.shape != (len(mine),):
            raise ValueError(f"reduce must return shape ({len(mine)},), got {together.shape}")
        largest: list[Number] = together.tolist()
        return largest


def advance(
    rule: ScaleSettings, now: StepNumbers, cause: Number, on: HostNumbers
) -> StepNumbers:
    """Count one step, and move the scale, of which outliers and NaN losses say nothing."""
    if not rule.dynamic:
        return now
    where = on.where
    is_clean = cause == Cause.OK
    is_overflow = (cause == Cause.INF) | (cause == Cause.NAN)
    counter = where(is_clean, now.counter + 1, 0.0)
    grows = is_clean & (counter >= rule.growth_steps)
    credit = where(is_overflow & (now.credit > 0), now.credit - 1, now.credit)
    reduces = is_overflow & (credit == 0)
    refills = grows | (is_clean & (rule.refill == "clean step"))

    grown = on.as_float32(now.scale * rule.growth_factor)
    grown = where(grown > rule.max_scale, rule.max_scale, grown)
    reduced = on.as_float32(now.scale * rule.backoff_factor)
    reduced = where(reduced < rule.min_scale, rule.min_scale, reduced)
    return now._replace(
        scale=where(grows, grown, where(reduces, reduced, now.scale)),
        credit=where(refills, float(rule.hysteresis), credit),
        counter=where(cause == Cause.OUTLIER, now.counter, where(grows, 0.0, counter)),
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

    def __post_init__(self) -> None:
        if self.clip_norm is not None and not check_number("clip_norm", self.clip_norm) > 0:
            raise ValueError(f"clip_norm must be positive, got {self.clip_norm!r}")
        if not isinstance(self.outliers, Outliers | None):
            raise ArgumentTypeError(f"outliers must be an Outliers, got {self.outliers!r:.100}")

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


def guard_state(judge: Judge, numbers: StepNumbers) -> dict[str, Any]:
    """Return numbers and settings as JSON can hold them."""
    state: dict[str, Any] = {"scale": numbers.scale, "settings": asdict(judge.settings)}
    state |= {name: int(getattr(numbers, name)) for name in COUNTS}
    if judge.outliers is not None:
        named = zip(judge.outliers.of, numbers.statistics, strict=True)
        state["outliers"] = {of: [int(one.count), *one[1:]] for of, one in named}
    return state


def read_guard_state(judge: Judge, state: Mapping[str, Any]) -> StepNumbers:
    """Return the numbers of a state, or raise StateError.

    A fixed scale stays, a dynamic one is brought between its bounds.
    """
    check_keys("a loss scale", state, ("scale", "settings", *COUNTS))
    first, rule = judge.first(), judge.settings
    with reading("a loss scale"):
        scale = scale_number("the scale", state["scale"])
        counts = {name: float(decode(int, state[name], name)) for name in COUNTS}
        settings = dict(state["settings"])
    if rule.dynamic:
        scale = min(max(scale, rule.min_scale), rule.max_scale)
        counts["credit"] = min(counts["credit"], rule.hysteresis)
    else:
        scale, counts["counter"], counts["credit"] = first.scale, 0.0, first.credit
    with reading("the statistics of outliers"):
        saved = state.get("outliers", {})
        names = () if judge.outliers is None else judge.outliers.of
        statistics = tuple(_statistic(saved.get(name, Statistic())) for name in names)
    for name, value in asdict(rule).items():
        if (before := settings.get(name, value)) != value:
            logger.warning(
                "loss scale: %s was %r in the checkpoint, is now %r", name, before, value
            )
    return first._replace(scale=scale, **counts, statistics=statistics)


def _statistic(numbers: Any) -> Statistic:
    count, weight, mean, variance = (check_number("a statistic", one) for one in numbers)
    is_count = count >= 0 and count == int(count)
    if not (is_count and 0 <= weight <= 1 and math.isfinite(mean) and 0 <= variance < math.inf):
        raise StateError(f"no statistic has the numbers {list(numbers)}")
    return Statistic(count, weight, mean, variance)
