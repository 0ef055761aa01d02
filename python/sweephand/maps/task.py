"""The mapping of some sequences: cut into tasks, which give the same whoever does them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Self

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.sample_form import SampleForm, Samples, WrongSamples
from sweephand.corpus.turns import Turn
from sweephand.errors import DataError
from sweephand.maps.key import Key
from sweephand.maps.sequence_map import SequenceMap, Sequences


@dataclass(frozen=True)
class Made:
    """What became of some sequences.

    Attributes
    ----------
    columns : list of ColumnData
        One per stream, with a sequence for each.
    wrong : dict of DataError
        Of the sequences that cannot be delivered, by their numbers among these.
    """

    columns: Sequence[ColumnData]
    wrong: Mapping[int, DataError]

    def to_chunk(self) -> _core.read.Chunk:
        """Return it as a chunk that skips those."""
        return make_chunk(self.columns, owned=False, skipped=sorted(self.wrong))


@dataclass(frozen=True)
class MapTask:
    """Some sequences that are to be mapped.

    Attributes
    ----------
    map : SequenceMap
    form : SampleForm
        Of what it returns.
    sequences : dict of list
        Per stream what the map is given.
    keys : list of Key or None
        Of the sequences; None: it asks for none.
    ids : list of str
        Of the sequences, for errors.
    sizes : list of int
        What each must have, in samples.
    parts : list of (int, int) or None
        Of each which one it is of how many that the map makes of one sequence; None: it makes
        one of each.
    """

    map: SequenceMap
    form: SampleForm
    sequences: Sequences
    keys: Sequence[Key] | None
    ids: Sequence[str]
    sizes: Sequence[int]
    parts: Sequence[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def part(self, begin: int, end: int) -> Self:
        """Return the task for some of the sequences."""
        return replace(
            self,
            sequences={name: values[begin:end] for name, values in self.sequences.items()},
            keys=None if self.keys is None else self.keys[begin:end],
            ids=self.ids[begin:end],
            sizes=self.sizes[begin:end],
            parts=None if self.parts is None else self.parts[begin:end],
        )

    def do(self, turn: Turn) -> Made:
        """Map the sequences."""
        usable: list[Samples] = []
        wrong: dict[int, DataError] = {}
        for number, found in enumerate(self.outputs(turn)):
            made = found if isinstance(found, DataError) else self._samples(number, found)
            if isinstance(made, DataError):
                wrong[number] = made
                made = self.form.like  # in its place, and never delivered
            usable.append(made)
        return Made(list(self.form.to_columns(usable).values()), wrong)

    def outputs(self, turn: Turn) -> Iterator[Any]:
        """Return what the map returns for each sequence, or in its place the reason."""
        if self.map.batched:
            yield from self._by_batch(turn)
            return
        for number in range(len(self)):
            yield self._one(number, turn)

    def _one(self, number: int, turn: Turn) -> Any:
        try:
            with self._calling(number, turn):
                return self.map.call_one(self.sequences, self.keys, number)
        except Exception as error:
            return self._raised(number, error)

    def _by_batch(self, turn: Turn) -> Iterator[Any]:
        try:
            with self._calling(0, turn):
                found = self.map.call(self.sequences, self.keys, 0, len(self))
        except Exception as error:  # each by itself tells which one it was
            if len(self) > 1:
                for number in range(len(self)):
                    yield from self.part(number, number + 1)._by_batch(turn)
            else:
                yield self._raised(0, error)
            return
        if not isinstance(found, Mapping):
            yield from [self.error(n, no_dict(found)) for n in range(len(self))]
            return
        lists = {name: list(values) for name, values in found.items()}
        short = next((name for name, one in lists.items() if len(one) != len(self)), None)
        for number in range(len(self)):
            if short is None:
                yield {name: values[number] for name, values in lists.items()}
            else:
                told = f"returned {len(lists[short])} values of {short!r} for {len(self)}"
                yield self.error(number, f"{told} sequences")

    def _calling(self, number: int, turn: Turn) -> AbstractContextManager[None]:
        return turn.take(f"{self.map}, at sequence {self.ids[number]!r}")

    def _samples(self, number: int, found: Any) -> Samples | DataError:
        """Return the samples of what the map returned for a sequence."""
        if self.parts is not None:
            part, count = self.parts[number]
            if not isinstance(found, list):
                found = [found]
            if len(found) != count:
                return self.error(
                    number,
                    f"made {len(found)} sequences where {count} were measured; if it is "
                    "another map than it was, give it another version=",
                )
            found = found[part]
        if not isinstance(found, Mapping):
            return self.error(number, no_dict(found))
        try:
            samples = self.form.convert(found)
        except WrongSamples as error:
            return self.error(number, str(error), error.stream)
        size = self.form.size(samples)
        if size != self.sizes[number]:
            return self.error(number, self._wrong_size(size, self.sizes[number]))
        return samples

    def _wrong_size(self, size: int, wanted: int) -> str:
        if self.map.size == "same":
            return (
                f"returned {size} samples where the sequence has {wanted}; if that is one "
                "sample declare its shape by streams=, and a map that changes sizes says "
                "size='measured'"
            )
        what = "were measured" if self.map.size == "measured" else "size= said"
        return f"returned {size} samples where {wanted} {what}; it must do the same every time"

    def _raised(self, number: int, error: Exception) -> DataError:
        told = self.error(number, f"raised {type(error).__name__}: {error}")
        told.__cause__ = error
        return told

    def error(self, number: int, reason: str, stream: str | None = None) -> DataError:
        """Return why the map is wrong at a sequence."""
        return DataError(f"{self.map} {reason}", stream=stream, sequence=self.ids[number])


def no_dict(found: object) -> str:
    """Say that a map returned something else than a dict."""
    return f"returned {type(found).__name__}, and not a dict of streams"
