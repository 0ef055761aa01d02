"""Orders by score: the user's options, checked and turned into integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.base.checks import check_choice, check_flag, check_int, check_number
from sweephand.errors import shown

STEPS = 1024  # of a sweep, in which weights are constant
_UNIT = 2**16  # a noise of 1, and the largest weight
_MOST_LEVELS = 256

Scores = ArrayLike | Mapping[Any, float] | PathLike[str] | Literal["length"]
Weights = Sequence[float] | Sequence[tuple[float, Sequence[float]]]


@dataclass(frozen=True, eq=False)
class ByScore:
    """Order sequences by a score of each, instead of shuffling a sweep.

    Parameters
    ----------
    scores : array_like, mapping, table, path or "length"
        One number for each sequence of the corpus, in storage order: an array, or a ``.npy``
        file. Or by id: a mapping, or a table with the columns ``id`` and ``score``.
        ``"length"``: the samples of each sequence.
    over : {"sweep", "window"}
        The lowest score comes first in the whole sweep, or in every window. Where a window is
        smaller than the sweep, ``"sweep"`` orders chunks by the mean rank of their sequences,
        and sequences within windows.
    noise : float or sequence of float
        In [0, 1]: 0 sorts, sequences of one score are shuffled; 1 leaves sweeps as shuffled as
        ever; between them the more comes early the easier it is. Of several, the first sweep
        has the first, and all later ones the last.
    descending : bool
        The highest score comes first.
    boundaries : sequence of float, optional
        Ascending. They make levels of scores: level 0 up to the first one, level 1 above it up
        to the second, and so on; the last level is above all.
    weights : sequence, optional
        With boundaries: the odds that a sequence of each level comes next, relative to other
        levels, as one number per level; or as ``(place, numbers)`` at ascending places of a
        sweep in [0, 1], linear in between. Each sequence still comes once in a sweep.
    default : float, optional
        Score of sequences that a mapping or table leaves out; without it they are refused.
    until_sweep : int, optional
        Sweeps from this one on, counted from 0, are as shuffled as ever.

    Raises
    ------
    ValueError
        If they contradict each other. Scores are looked at when a source is made: those that
        are NaN, too few or too many, or of unknown ids are refused then.

    Notes
    -----
    A sweep has one lane then: minibatches are dealt in turn to any number of workers, as with
    ``randomize=False``. All is exactly defined in ``docs/order.md``.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(6)})
    >>> hardness = [0.3, 0.1, 0.9, 0.2, 0.8, 0.5]
    >>> source = sh.MinibatchSource(corpus, order=sh.ByScore(hardness, until_sweep=1))
    >>> source.next_minibatch(6)["x"].values
    array([1, 3, 0, 5, 4, 2])
    """

    scores: Scores
    _: KW_ONLY
    over: Literal["sweep", "window"] = "sweep"
    noise: float | Sequence[float] = 0.0
    descending: bool = False
    boundaries: Sequence[float] | None = None
    weights: Weights | None = None
    default: float | None = None
    until_sweep: int | None = None

    def __post_init__(self) -> None:
        check_choice("over", self.over, "sweep", "window")
        check_flag("descending", self.descending)
        if self.default is not None and math.isnan(check_number("default", self.default)):
            raise ValueError("default must be a number, got nan")
        if self.until_sweep is not None:
            check_int("until_sweep", self.until_sweep, 0, 2**63)
        if (self.boundaries is None) != (self.weights is None):
            raise ValueError(
                "boundaries and weights belong together: boundaries=[128, 512], "
                "weights=[4, 2, 1]"
            )
        if self.weights is not None and (self.descending or self.noises != [0]):
            raise ValueError(
                "weights say which level comes first: leave out noise and descending"
            )
        _ = self.noises, self.edges, self.odds

    @property
    def noises(self) -> list[int]:
        """The noise of each sweep, in 2^-16."""
        given = self.noise if isinstance(self.noise, Iterable) else [self.noise]
        noises = [math.floor(_decimal("noise", one, most=1) * _UNIT) for one in given]
        if not noises:
            raise ValueError("noise must be a number in [0, 1], or some of them, got none")
        return noises

    @property
    def edges(self) -> NDArray[np.float64]:
        """The boundaries of levels."""
        edges = np.array([check_number("boundaries", edge) for edge in self.boundaries or ()])
        if not np.all(edges[1:] > edges[:-1]) or np.isnan(edges).any():
            raise ValueError("boundaries must ascend")
        if len(edges) >= _MOST_LEVELS:
            raise ValueError(f"boundaries must make at most {_MOST_LEVELS} levels")
        return edges

    @property
    def odds(self) -> NDArray[np.uint32]:
        """Odds of the levels: shape (`STEPS`, levels), or (0, 0) without weights."""
        if self.weights is None:
            return np.empty((0, 0), np.uint32)
        knots = [self._knot(one) for one in _knots(self.weights)]
        places = [place for place, _ in knots]
        if sorted(places) != places:
            raise ValueError("weights must be given at ascending places of a sweep")
        most = max(weight for _, weights in knots for weight in weights)
        if most == 0:
            raise ValueError("weights must not all be 0")
        whole = [
            [max(math.floor(one * _UNIT / most), int(one > 0)) for one in weights]
            for _, weights in knots
        ]
        return _between([math.floor(place * STEPS) for place in places], np.array(whole))

    def _knot(self, given: tuple[object, object]) -> tuple[Fraction, list[Fraction]]:
        place, weights = given
        if not isinstance(weights, Iterable):
            raise ValueError(
                "weights must be a number for each level, or pairs such as (0.5, [1, 2, 4])"
            )
        numbers = [_decimal("weights", one) for one in weights]
        if len(numbers) != len(self.edges) + 1:
            raise ValueError(
                f"{len(self.edges)} boundaries make {len(self.edges) + 1} levels, "
                f"there are weights of {len(numbers)}"
            )
        return _decimal("the place of weights", place, most=1), numbers

    def describe(self) -> str:
        """Describe the options in words, without the scores."""
        parts = [f"over={self.over}"]
        if self.weights is not None:
            parts.append(f"{len(self.edges) + 1} levels")
        if self.noises != [0]:
            parts.append(f"noise={self.noise}")
        if self.descending:
            parts.append("descending")
        if self.until_sweep is not None:
            parts.append(f"until_sweep={self.until_sweep}")
        return f"by score, {', '.join(parts)}"


def _decimal(name: str, value: object, most: int | None = None) -> Fraction:
    """Return a number as it is written in decimals; of ``[0, most]``."""
    if isinstance(value, Fraction):
        number = value
    else:
        found = check_number(name, value)
        if not math.isfinite(found):
            raise ValueError(f"{name} must be finite, got {found}")
        number = Fraction(repr(found))
    if number < 0 or (most is not None and number > most):
        wanted = "at least 0" if most is None else f"in [0, {most}]"
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")
    return number


def _knots(weights: Weights) -> list[tuple[object, object]]:
    """Return pairs of a place and its weights; weights alone hold everywhere."""
    given = list(weights)
    if not given:
        raise ValueError("weights must not be empty")
    if not any(isinstance(one, Iterable) for one in given):
        return [(0, given)]
    pairs = [tuple(one) if isinstance(one, Iterable) else () for one in given]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("weights must be pairs of a place and numbers, (0.5, [1, 2, 4])")
    return [(pair[0], pair[1]) for pair in pairs]


def _between(places: list[int], whole: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Interpolate the weights of all steps between given steps."""
    step = np.arange(STEPS)
    after = np.searchsorted(places, step, side="right")  # knots that have been passed
    first = np.clip(after - 1, 0, len(places) - 1)
    last = np.clip(after, 0, len(places) - 1)
    begin, end = np.array(places)[first], np.array(places)[last]
    span = np.maximum(end - begin, 1)[:, None]
    rising = np.clip(step - begin, 0, end - begin)[:, None]
    odds: NDArray[np.int64] = (whole[first] * (span - rising) + whole[last] * rising) // span
    return odds.astype(np.uint32)
