"""The notations of a schedule: a number, a list of values and pairs, or a text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sweephand.base.checks import check_choice, check_int
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.schedules.formula import Formula
from sweephand.source.schedules.schedule import (
    Follows,
    FormulaSchedule,
    Number,
    Schedule,
    StepSchedule,
)

Spec: TypeAlias = Number | str | Sequence[Number | tuple[int, Number]]


def schedule_of(
    spec: Spec[float] | Formula,
    read: Callable[[object], float],
    minibatch_size: int | None,
    epoch_size: int | None,
    follows: Follows,
) -> Schedule[float]:
    """Make a schedule; REQUIRES that a public function calls this directly."""
    values = (
        _checked(spec, read) if isinstance(spec, Formula) else read_steps(spec, read, float)
    )
    check_choice("follows", follows, "applied", "consumed")
    if minibatch_size is not None and minibatch_size != 0:
        check_int("minibatch_size", minibatch_size)
    if epoch_size is not None:
        check_int("epoch_size", epoch_size)
        if is_single(spec):
            warnings.warn(
                f"epoch_size has no meaning with the single value {spec!r}",
                RuntimeWarning,
                stacklevel=3,
            )
    if isinstance(values, Formula):
        return FormulaSchedule(values, minibatch_size or None, follows)
    by_sweep = epoch_size in (None, FULL_DATA_SWEEP)
    return StepSchedule(
        values, None if by_sweep else epoch_size, minibatch_size or None, follows
    )


def _checked(formula: Formula, read: Callable[[object], float]) -> Formula:
    """Return a formula whose values can be read as they are, or raise."""
    for value in formula.values():
        if read(value) != value:
            raise ValueError("time constants cannot be given by a formula: give momenta")
    return formula


def is_single(spec: object) -> bool:
    """Return True if a notation gives a single value for ever."""
    return not isinstance(spec, Sequence)


def read_steps(
    spec: object, check: Callable[[object], Number], number: type[Number]
) -> tuple[tuple[int, Number], ...]:
    """Return each value with the number of its epochs before it, or raise ValueError."""
    if isinstance(spec, str):
        entries: list[object] = list(_parse(spec, number))
    elif isinstance(spec, tuple):
        raise ValueError(f"a schedule is a list of values or pairs, got the tuple {spec!r}")
    elif isinstance(spec, Sequence):
        entries = list(spec)
    else:
        return ((1, check(spec)),)
    if not entries:
        raise ValueError("a schedule needs at least one value, got none")
    last = len(entries) - 1
    return tuple(_step(entry, check, is_last=i == last) for i, entry in enumerate(entries))


def _step(
    entry: object, check: Callable[[object], Number], *, is_last: bool
) -> tuple[int, Number]:
    if not isinstance(entry, tuple):
        return 1, check(entry)
    if len(entry) != 2:
        raise ValueError(f"a pair is (number of epochs, value), got {entry!r}")
    epochs, value = entry
    if is_last and epochs == 0:
        epochs = 1  # the last value lasts for ever, whatever its number
    return check_int("the number of epochs", epochs), check(value)


_DIGITS: dict[type, str] = {int: r"\d+", float: r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"}


def _parse(text: str, number: type[Number]) -> list[tuple[int, Number]]:
    """Read ``"128*2 + 1024"``; as in BrainScript ``:`` is allowed in place of ``+``."""
    digits = _DIGITS[number]
    entries = []
    for term in re.split(r"(?<![eE])[+:]", text):  # not at the sign of an exponent
        found = re.fullmatch(rf"\s*({digits})\s*(?:\*\s*(\d+)\s*)?", term)
        if found is None:
            raise ValueError(
                f"cannot read {term.strip()!r} in the schedule {text!r}: "
                "wanted 'value' or 'value*epochs', joined by '+'"
            )
        entries.append((int(found[2] or 1), number(found[1])))
    return entries


def minibatch_size_schedule(spec: Spec[int], epoch_size: int = 1) -> StepSchedule[int]:
    """Make a schedule of minibatch sizes, indexed by samples seen.

    Parameters
    ----------
    spec : int, str or list
        One size for ever; a list of sizes for one epoch each, in which a pair ``(n, size)``
        holds for n epochs; or the same as text, ``"128*2 + 1024"``.
    epoch_size : int
        Samples of an epoch. With a single size it has no meaning and is refused.

    Returns
    -------
    Schedule
        Sizes in samples. It follows the consumed samples.

    Raises
    ------
    ValueError
        If a size or ``epoch_size`` is no positive int, or the text cannot be read.

    Examples
    --------
    >>> schedule = minibatch_size_schedule("128*2 + 1024", epoch_size=500)
    >>> schedule[999], schedule[1000], schedule[10**9]
    (128, 1024, 1024)
    """
    if epoch_size == FULL_DATA_SWEEP:
        raise ValueError("epoch_size must be a number of samples, got FULL_DATA_SWEEP")
    steps = read_steps(spec, _minibatch_size, int)
    if epoch_size != 1 and is_single(spec):
        raise ValueError(f"epoch_size has no meaning with the single value {spec!r}")
    return StepSchedule(steps, check_int("epoch_size", epoch_size), follows="consumed")


def _minibatch_size(value: object) -> int:
    return check_int("a minibatch size", value)
