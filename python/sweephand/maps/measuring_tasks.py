"""Tasks that measure the results of maps and filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sweephand.corpus.casts import whole_number
from sweephand.corpus.sample_form import Samples, WrongSamples
from sweephand.errors import DataError, shown
from sweephand.maps.task import MapTask, no_dict

UNTOLD = 2
_MOST = 2**32 - 2  # samples of a stream


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

    def __init__(self) -> None:
        self.sizes: list[list[int]] = []
        self.wrong: dict[int, DataError] = {}
        self.several = False
        self.made: list[list[Samples]] = []


@dataclass(frozen=True)
class SizesTask(MapTask, ABC):
    """Task that looks at the results of a map for their sizes."""

    lays: ClassVar[bool] = False

    def finish(  # type: ignore[override]
        self, outputs: Iterable[Any], seconds: Sequence[float] = ()
    ) -> Measured:
        """Look at the results."""
        measured = Measured()
        for number, found in enumerate(outputs):
            try:
                if isinstance(found, DataError):
                    raise found
                measured.sizes.append(self.look(number, found, measured))
            except DataError as error:
                measured.wrong[number] = error
                measured.sizes.append([1])  # its place on the timeline
        return measured

    @abstractmethod
    def look(self, number: int, found: Any, measured: Measured) -> list[int]:
        """Return the sizes of a result, or raise DataError."""


@dataclass(frozen=True)
class MeasuringTask(SizesTask):
    """Task that measures the sequences that a map makes."""

    keeps: bool = False  # whether what is made is wanted, too

    def look(self, number: int, found: Any, measured: Measured) -> list[int]:
        """Return the size of each sequence that is made."""
        is_list = isinstance(found, list)
        measured.several = measured.several or is_list
        made = [
            samples
            for one in (found if is_list else [found])
            if self.form.size(samples := self._made(number, one))
        ]
        if self.keeps:
            measured.made.append(made)
        return [self.form.size(samples) for samples in made]

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
class FilteringTask(SizesTask):
    """Task that asks a filter which sequences are kept."""

    def look(self, number: int, found: Any, measured: Measured) -> list[int]:
        """Return 1 for a sequence that is kept."""
        if isinstance(found, bool | np.bool_):
            return [1] if found else []
        kind = type(found).__name__
        raise self.error(number, f"returned {kind}, and neither True nor False")


@dataclass(frozen=True)
class LengthsTask(SizesTask):
    """Task that asks for lengths, as a map whose function is a `Lengths`.

    Of every sequence it returns 1 and each length plus 1, of one that is damaged the 1 alone,
    and `UNTOLD` of one that heads do not tell: so they are kept as sizes are, above 0.
    """

    guess: ClassVar[float] = 1e-5
    names: tuple[str, ...] = field(default=())
    are_cut: bool = False  # whether samples are cut to `Lengths.heads`

    def look(self, number: int, found: Any, measured: Measured) -> list[int]:
        """Return the lengths as sizes."""
        if found is None and self.are_cut:
            return [UNTOLD]
        lengths = [1]
        for name in self.names:
            length = whole_number(found[name])
            if length is None or not 0 <= length <= _MOST:
                problem = (
                    f"must have a length in [0, 2^32 - 2], size= said {shown(found[name])}"
                )
                raise self.error(number, problem, name)
            lengths.append(length + 1)
        return lengths
