"""Tasks that measure what maps and filters make of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sweephand.corpus.casts import whole_number
from sweephand.corpus.sample_form import Samples, WrongSamples
from sweephand.dataclass import dataclass, field, replace
from sweephand.errors import DataError, shown
from sweephand.maps.task import MapTask, no_dict

UNTOLD = 2
_MOST = 2**32 - 2  # samples of a stream


@dataclass(frozen=True)
class Measured:
    """Sizes of a map's results for a run of sequences.

    Attributes
    ----------
    sizes : list of list of int
        Of each sequence those of what is made of it, in samples; none if it is left out.
    wrong : dict of DataError
        Of the sequences that cannot be mapped, by their numbers among these.
    several : bool
        Whether the map returned a list of sequences.
    made : list of list of Samples
        Of each sequence what is made of it; nothing where only sizes are wanted.
    """

    sizes: list[list[int]]
    wrong: dict[int, DataError] = field(default_factory=dict)
    several: bool = False
    made: list[list[Samples]] = field(default_factory=list)


@dataclass(frozen=True)
class MeasuringTask(MapTask):
    """Task that measures the sequences that a map makes.

    Attributes
    ----------
    keeps : bool
        Whether what is made is wanted, too.
    """

    lays: ClassVar[bool] = False
    keeps: bool = False

    def finish(  # type: ignore[override]
        self, outputs: Iterable[Any], seconds: Sequence[float] = ()
    ) -> Measured:
        """Measure the results."""
        measured = Measured([])
        several = False
        for number, found in enumerate(outputs):
            several = several or isinstance(found, list)
            try:
                made = [
                    samples
                    for one in (found if isinstance(found, list) else [found])
                    if self.form.size(samples := self._made(number, one))
                ]
            except DataError as error:
                measured.wrong[number] = error
                measured.sizes.append([1])  # its place on the timeline
                continue
            measured.sizes.append([self.form.size(samples) for samples in made])
            if self.keeps:
                measured.made.append(made)
        return replace(measured, several=several)

    def _made(self, number: int, found: Any) -> Samples:
        if isinstance(found, DataError):
            raise found
        if not isinstance(found, Mapping):
            raise self.error(number, no_dict(found))
        try:
            return self.form.convert(found, may_be_empty=True)
        except WrongSamples as error:
            raise self.error(number, str(error), error.stream) from error


@dataclass(frozen=True)
class FilteringTask(MapTask):
    """Task that asks a filter which sequences are kept."""

    lays: ClassVar[bool] = False

    def finish(  # type: ignore[override]
        self, outputs: Iterable[Any], seconds: Sequence[float] = ()
    ) -> Measured:
        """Check the answers of the filter."""
        sizes: list[list[int]] = []
        wrong: dict[int, DataError] = {}
        for number, found in enumerate(outputs):
            if isinstance(found, bool | np.bool_):
                sizes.append([1] if found else [])
                continue
            error = found
            if not isinstance(found, DataError):
                kind = type(found).__name__
                error = self.error(number, f"returned {kind}, and neither True nor False")
            wrong[number] = error
            sizes.append([1])
        return Measured(sizes, wrong)


@dataclass(frozen=True)
class LengthsTask(MapTask):
    """Task that asks for lengths, as a map whose function is a `Lengths`.

    Of every sequence it returns 1 and each length plus 1, of one that is damaged the 1 alone,
    and `UNTOLD` of one that heads do not tell: so they are kept as sizes are, above 0.

    Attributes
    ----------
    names : tuple of str
    are_cut : bool
        Whether samples are cut to `Lengths.heads`.
    """

    guess: ClassVar[float] = 1e-5
    lays: ClassVar[bool] = False
    names: tuple[str, ...] = field(default=())
    are_cut: bool = False

    def finish(  # type: ignore[override]
        self, outputs: Iterable[Any], seconds: Sequence[float] = ()
    ) -> Measured:
        """Check the lengths."""
        measured = Measured([])
        for number, found in enumerate(outputs):
            if found is None and self.are_cut:
                measured.sizes.append([UNTOLD])
                continue
            try:
                measured.sizes.append([1, *self._checked(number, found)])
            except DataError as error:
                measured.wrong[number] = error
                measured.sizes.append([1])
        return measured

    def _checked(self, number: int, found: Any) -> list[int]:
        if isinstance(found, DataError):
            raise found
        lengths = []
        for name in self.names:
            length = whole_number(found[name])
            if length is None or not 0 <= length <= _MOST:
                problem = (
                    f"must have a length in [0, 2^32 - 2], size= said {shown(found[name])}"
                )
                raise self.error(number, problem, name)
            lengths.append(length + 1)
        return lengths
