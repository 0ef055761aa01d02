"""Split expressions: which examples of which splits, with the exact rounding of TFDS."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, cast, get_args

from sweephand.extend import check_choice, check_int

ShardLengths = Mapping[str, Sequence[int]]
"""The number of examples in every shard of every split, by name."""

Unit = Literal["abs", "%", "shard"]
Rounding = Literal["closest", "pct1_dropremainder"]


class Interval(NamedTuple):
    """The examples ``[begin, end)`` of a split, counted in storage order."""

    split: str
    begin: int
    end: int


class Split(ABC):
    """A selection of examples. Splits can be added to one another, and to text.

    Examples
    --------
    >>> import sweephand as sh
    >>> split = sh.tfds.ReadInstruction("train", to=50, unit="%") + "test"
    >>> isinstance(split, sh.tfds.Split), len(sh.tfds.load("mnist/3.0.1", split))
    (True, 10)
    """

    @abstractmethod
    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        """Return the selected examples, part by part.

        Raises
        ------
        ValueError
            If the data set has no such split, examples or shards.
        """

    def __add__(self, other: SplitLike) -> Split:
        """Return the examples of this split and then those of another."""
        return _Sum((self, as_split(other)))

    def __radd__(self, other: SplitLike) -> Split:
        """Return the examples of the other split and then those of this split."""
        return _Sum((as_split(other), self))


SplitLike = str | Split


@dataclass(frozen=True)
class _Sum(Split):
    parts: tuple[Split, ...]

    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        return [interval for part in self.parts for interval in part.resolve(lengths)]

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))


@dataclass(frozen=True)
class _All(Split):
    """Every split, in the order of the data set."""

    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        return [Interval(name, 0, sum(shards)) for name, shards in lengths.items()]

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class ReadInstruction(Split):
    """A slice of one split.

    Parameters
    ----------
    split_name : str
    from_, to : int or float, optional
        Begin and end of the slice; None for those of the split.
        Negative numbers count from its end. Only percentages may have a fraction.
    unit : {"abs", "%", "shard"}
        The unit of ``from_`` and ``to``: examples, percent of the examples, or shards.
    rounding : {"closest", "pct1_dropremainder"}
        Rounding of percentages to examples: to the nearest, halves to even; or in equal steps
        of one percent, with the remainder in the last open slice. In text it follows the slice:
        ``"train[:50%](pct1_dropremainder)"``.

    Raises
    ------
    ValueError
        If unit or rounding is unknown, or a number does not suit the unit.

    Examples
    --------
    >>> ReadInstruction("train", to=75, unit="%").resolve({"train": [7, 7]})
    [Interval(split='train', begin=0, end=10)]
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: Unit = "abs"
    rounding: Rounding = "closest"

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, *get_args(Unit))
        check_choice("rounding", self.rounding, *get_args(Rounding))
        for name, bound in (("from_", self.from_), ("to", self.to)):
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, int | float):
                raise ValueError(f"{name} must be a number, got {bound!r}")
            if self.unit != "%" and not isinstance(bound, int):
                raise ValueError(
                    f"{name} must be an int with unit {self.unit!r}, got {bound!r}"
                )
            if self.unit == "%" and not abs(bound) <= 100:
                raise ValueError(f"{name} must be within 100 %, got {bound!r}")

    def __str__(self) -> str:
        if self.from_ is None and self.to is None:
            return self.split_name
        unit = "" if self.unit == "abs" else self.unit
        bounds = ["" if bound is None else f"{bound}{unit}" for bound in (self.from_, self.to)]
        is_usual = self.unit != "%" or self.rounding == "closest"
        rounding = "" if is_usual else f"({self.rounding})"
        return f"{self.split_name}[{':'.join(bounds)}]{rounding}"

    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        """Return the slice as examples of the split."""
        shards = _find_split(self.split_name, lengths)
        num_examples = sum(shards)
        begin = 0 if self.from_ is None else self._to_example(self.from_, shards, is_end=False)
        end = (
            num_examples if self.to is None else self._to_example(self.to, shards, is_end=True)
        )
        for bound in (begin, end):
            if abs(bound) > num_examples:
                raise ValueError(
                    f"{self}: split {self.split_name!r} has {num_examples} examples, "
                    f"{bound} is outside"
                )
        begin += num_examples if begin < 0 else 0
        end += num_examples if end < 0 else 0
        if begin > end:
            raise ValueError(f"{self} ends at example {end}, before it begins at {begin}")
        return [Interval(self.split_name, begin, end)]

    def _to_example(self, bound: float, shards: Sequence[int], *, is_end: bool) -> int:
        num_examples = sum(shards)
        if self.unit == "shard":
            number = int(bound)
            if is_end and number == 0:
                raise ValueError(
                    f"{self}: TFDS reads an end of 0 shards as the whole split; "
                    f"leave the end open, or take no part of the split"
                )
            # Python's slices, where an end counts from the last shard first.
            return sum(shards[: number + len(shards) if is_end and number < 0 else number])
        if self.unit == "abs":
            return int(bound)
        if self.rounding == "pct1_dropremainder":
            if num_examples < 100:
                raise ValueError(
                    f"{self}: 'pct1_dropremainder' needs 100 examples, "
                    f"split {self.split_name!r} has {num_examples}"
                )
            found = Fraction(str(bound)) * (num_examples // 100)
            if found.denominator != 1:
                raise ValueError(
                    f"{self}: {bound} steps of {num_examples // 100} examples, one percent, "
                    "are no whole number of them"
                )
            return int(found)
        # The product comes first, and Python rounds half to even: 75 % of 14 is 10, not 11.
        example = round(bound * num_examples / 100.0)
        if bound < 0 and example == 0:
            warnings.warn(
                f"{self}: {bound} % of {num_examples} examples rounds to 0, which is the "
                "beginning of the split and not its end",
                stacklevel=2,
            )
        return example


@dataclass(frozen=True)
class _OneShard(Split):
    """Shard ``number`` of a split; negative numbers count from the last."""

    split_name: str
    number: int

    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        shards = _find_split(self.split_name, lengths)
        if not -len(shards) <= self.number < len(shards):
            raise ValueError(f"{self}: split {self.split_name!r} has {len(shards)} shards")
        number = self.number % len(shards)
        begin = sum(shards[:number])
        return [Interval(self.split_name, begin, begin + shards[number])]

    def __str__(self) -> str:
        return f"{self.split_name}[{self.number}shard]"


@dataclass(frozen=True)
class _EvenPart(Split):
    """Part ``index`` of ``count`` equal parts, of every part of a split."""

    split: Split
    index: int
    count: int
    drop_remainder: bool

    def resolve(self, lengths: ShardLengths) -> list[Interval]:
        parts = []
        for name, begin, end in self.split.resolve(lengths):
            size, rest = divmod(end - begin, self.count)
            cuts = [
                begin + size * i + (0 if self.drop_remainder else min(i, rest))
                for i in (self.index, self.index + 1)
            ]
            parts.append(Interval(name, cuts[0], cuts[1]))
        return parts

    def __str__(self) -> str:
        return f"even_splits({self.split}, {self.count})[{self.index}]"


def even_splits(split: SplitLike, n: int, drop_remainder: bool = False) -> list[Split]:
    """Cut a split into parts of equal size.

    Parameters
    ----------
    split : str or Split
        Each summand of a sum is cut by itself, so that sizes differ by up to the number of
        summands.
    n : int
        The number of parts, at least 1.
    drop_remainder : bool
        Drop the remaining examples. Otherwise each of the first parts has one more.

    Returns
    -------
    list of Split, length n

    Examples
    --------
    >>> lengths = {"train": [10]}
    >>> [part.resolve(lengths)[0][1:] for part in even_splits("train", 4)]
    [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    check_int("n", n, 1, 2**31)
    whole = as_split(split)
    return [_EvenPart(whole, index, n, drop_remainder) for index in range(n)]


_NAME = r"[A-Za-z0-9_\-]+"
_NUMBER = r"-?[0-9_.]+"
_SLICE = (
    rf"((?P<from>{_NUMBER})(?P<from_unit>%|shard)?)?:((?P<to>{_NUMBER})(?P<to_unit>%|shard)?)?"
)
_PART = re.compile(
    rf"(?P<name>{_NAME})"
    rf"(\[(?P<shard>{_NUMBER})shard\]|\[{_SLICE}\](\((?P<rounding>[a-z0-9_]+)\))?)?"
)


def _parse_number(spec: str, text: str, unit: str) -> float:
    try:
        return float(text) if unit == "%" else int(text)
    except ValueError:
        wanted = "a number" if unit == "%" else "an integer"
        raise ValueError(f"split {spec!r}: expected {wanted}, found {text!r}") from None


def _parse_part(spec: str, text: str) -> Split:
    found = _PART.fullmatch(text)
    name = found["name"] if found else ""
    if found and text == name:
        return _All() if name == "all" else ReadInstruction(name)
    if name == "all":
        raise ValueError(f"split {spec!r}: 'all' cannot be sliced; slice each of its splits")
    if found and found["shard"] is not None:
        return _OneShard(name, int(_parse_number(spec, found["shard"], "shard")))
    ends = [end for end in ("from", "to") if found and found[end] is not None]
    units = {found[f"{end}_unit"] or "abs" for end in ends if found}
    if found is None or not units or (found["rounding"] and "%" not in units):
        raise ValueError(
            f"split {spec!r}: {text!r} is no split; write a name, a slice such as train[:75%] "
            "or train[2:5], or a shard such as train[3shard], joined by '+'"
        )
    if len(units) > 1:
        raise ValueError(
            f"split {spec!r}: the two ends have different units, of which TFDS takes one for "
            "both; write the same unit after both numbers"
        )
    unit = cast(Unit, units.pop())
    bounds = {end: _parse_number(spec, found[end], unit) for end in ends}
    rounding = cast(Rounding, found["rounding"] or "closest")
    return ReadInstruction(name, bounds.get("from"), bounds.get("to"), unit, rounding)


def as_split(split: SplitLike) -> Split:
    """Return a split expression as an object.

    ValueError if the text is no split expression, saying what was probably meant; TypeError if
    it is neither text nor a split.
    """
    if isinstance(split, Split):
        return split
    if not isinstance(split, str):
        raise TypeError(f"split must be a str or a Split, got {type(split).__name__}")
    parts = [_parse_part(split, text) for text in re.split(r"\s*\+\s*", split)]
    return parts[0] if len(parts) == 1 else _Sum(tuple(parts))


def _find_split(name: str, lengths: ShardLengths) -> Sequence[int]:
    if name not in lengths:
        raise ValueError(f"there is no split {name!r}; there are {sorted(lengths)}")
    return lengths[name]
