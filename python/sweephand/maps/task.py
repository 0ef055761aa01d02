"""Tasks of mapping sequences, which give the same result on any worker."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.calls import copied
from sweephand.corpus.casts import whole_number
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.given_data import SampleForm, Samples, WrongSamples, count
from sweephand.errors import DataError, shown
from sweephand.maps.functions import Lengths
from sweephand.maps.key import Key, KeyContext
from sweephand.maps.sequence_map import SequenceMap, StoredStreams, StreamSequences
from sweephand.maps.workers import OpenContext
from sweephand.run.processes import Progress


@dataclass(frozen=True)
class OpenedMap:
    """A map over a corpus that is opened."""

    stored: StoredStreams
    map: SequenceMap
    opening: OpenContext

    @property
    def corpus(self) -> Corpus:
        return self.stored.corpus

    def call(self, look: Look | None, form: SampleForm) -> MapCall:
        """Return the call of the map, for its results or for a look at them."""
        context = KeyContext(self.opening.seed, self.map.name, self.map.version)
        return MapCall(self.map, form, context if self.map.random else None, look)

    def task(
        self, call: MapCall, numbers: NDArray[np.uint64], batch: _core.engine.Batch
    ) -> MapTask:
        """Return the task for the sequences of a batch, with keys of sweep 0."""
        first, end = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        sizes = self.corpus.core.sizes(first, end - first)[numbers - first]
        ids = self.corpus.ids.names(numbers)
        sequences, none = self.stored.sequences_of(batch), [0] * len(ids)
        return MapTask(call, sequences, ids, sizes.tolist(), sweeps=none)


@dataclass(frozen=True)
class MapResult:
    """Result of mapping a batch of sequences."""

    columns: Sequence[ColumnData]  # one per stream, with a sequence for each
    # of the sequences that cannot be delivered, by their numbers among these
    wrong: Mapping[int, DataError]
    calls: int  # of the map, and the seconds that they took
    seconds: float


@dataclass(frozen=True)
class MapCall:
    """The part that all tasks of a map share, which goes to a process once."""

    map: SequenceMap
    form: SampleForm  # of what it returns
    context: KeyContext | None = None  # of the keys; None: the map asks for none
    look: Look | None = None  # returns the sizes of a result, which are wanted in its place

    @property
    def modules(self) -> list[str]:
        module = getattr(self.map.function, "__module__", None)
        return ["sweephand.maps.task", module or "builtins"]

    def __call__(self, own: tuple[Any, ...], progress: Progress) -> Any:
        """Do a task in another process."""
        result = MapTask(self, *own).do(progress)
        for error in result.wrong.values():  # tracebacks do not go to another process
            if error.__cause__ is not None:
                trace = traceback.format_exception(error.__cause__)
                error.add_note("".join(trace).rstrip())
        return result


@dataclass(frozen=True)
class MapTask:
    """Task of mapping a run of sequences."""

    call: MapCall
    # per stream the samples of every sequence: arrays (samples, *shape), CSR matrices, objects
    sequences: Mapping[str, StreamSequences]
    ids: Sequence[str]  # of the sequences
    sizes: Sequence[int]  # what each must have, in samples
    # of each which one it is of how many that the map makes of one sequence; None: it makes one
    # of each
    parts: Sequence[tuple[int, int]] | None = None
    sweeps: Sequence[int] = ()  # of the sequences, for their keys

    def __len__(self) -> int:
        return len(self.sizes)

    def __str__(self) -> str:
        return str(self.call.map)

    @property
    def is_joint(self) -> bool:
        """True if one call maps all sequences."""
        return self.call.map.batched

    @property
    def argument(self) -> tuple[Any, ...]:
        """What `call` is given in another process."""
        return self.sequences, self.ids, self.sizes, self.parts, self.sweeps

    def part(self, begin: int, end: int) -> Self:
        return replace(
            self,
            sequences={name: values[begin:end] for name, values in self.sequences.items()},
            ids=self.ids[begin:end],
            sizes=self.sizes[begin:end],
            parts=None if self.parts is None else self.parts[begin:end],
            sweeps=self.sweeps[begin:end],
        )

    def do(self, progress: Progress) -> Any:
        seconds: list[float] = []
        calls = self._in_batches if self.call.map.batched else self._one_by_one
        return self.finish(calls(progress, seconds), seconds)

    def failed(self, reason: str) -> Any:
        """Return the result of a sequence that is given up."""
        return self.finish([self.error(0, reason)], [0.0])

    def finish(self, outputs: Iterable[Any], seconds: Sequence[float]) -> MapResult | Measured:
        """Return the result of the map's outputs, each of which is an error if it is wrong."""
        if self.call.look is not None:
            return self._looked_at(self.call.look, outputs, seconds)
        # An output is copied before the next call, as a function may use a buffer again. What
        # is like the first result, of numbers or texts, is looked at by the core alone.
        columns = self.call.form.begin_columns(self.sizes)
        is_plain = self.parts is None and not isinstance(self.call.map.size, Lengths)
        wrong: dict[int, DataError] = {}
        for number, found in enumerate(outputs):
            if is_plain and columns.append(found):
                continue
            try:
                made = self._samples(number, found)
            except DataError as error:
                wrong[number] = error
                made = self.call.form.like  # in its place, and never delivered
            columns.append_checked(self.call.form.checked(made))
        found = self.call.form.end_columns(columns)
        return MapResult(found, wrong, len(seconds), sum(seconds))

    def _looked_at(
        self, look: Look, outputs: Iterable[Any], seconds: Sequence[float]
    ) -> Measured:
        measured = Measured()
        for number, found in enumerate(outputs):
            try:
                if isinstance(found, DataError):
                    raise found
                measured.sizes.append(look(self, number, found, measured))
            except DataError as error:
                measured.wrong[number] = error
                measured.sizes.append([1])  # its place on the timeline
        measured.calls, measured.seconds = len(seconds), sum(seconds)
        return measured

    def _one_by_one(self, progress: Progress, seconds: list[float]) -> Iterator[Any]:
        """Yield the map's output for each sequence, or its error; add how long it took."""
        function, keys = self.call.map.function, self._keys
        streams = [one.to_list() for one in self.sequences.values()]
        for number, values in enumerate(zip(*streams, strict=True)):
            sequence = dict(zip(self.sequences, values, strict=True))
            progress.begin(number)
            try:
                found = function(sequence, keys[number]) if keys else function(sequence)
            except (Exception, SystemExit) as error:
                found = self._raised(number, error)
            seconds.append(progress.end())
            yield found

    def _in_batches(self, progress: Progress, seconds: list[float]) -> Iterable[Any]:
        keys = [] if self.call.context is None else [self._keys]
        lists = {name: one.to_list() for name, one in self.sequences.items()}
        took = 0.0
        progress.begin(0)
        try:
            found = self.call.map.function(lists, *keys)
        except (Exception, SystemExit) as error:
            found = self._raised(0, error)
        finally:
            took = progress.end()
        if isinstance(found, DataError) and len(self) > 1:
            singles = (self.part(number, number + 1) for number in range(len(self)))
            # retried singly to find the item that failed
            return chain.from_iterable(one._in_batches(progress, seconds) for one in singles)
        seconds += [took / len(self)] * len(self)
        return self._each_of(found)

    def _each_of(self, found: Any) -> Iterable[Any]:
        """Return the output of a batch for each of its sequences."""
        if isinstance(found, DataError):
            return [found]
        if not isinstance(found, Mapping):
            return [self.error(n, no_dict(found)) for n in range(len(self))]
        lists = {name: list(values) for name, values in found.items()}
        short = next((name for name, one in lists.items() if len(one) != len(self)), None)
        if short is not None:
            problem = f"returned {len(lists[short])} values of {short!r} for {len(self)}"
            return [self.error(n, f"{problem} sequences") for n in range(len(self))]
        return [{name: one[n] for name, one in lists.items()} for n in range(len(self))]

    @property
    def _keys(self) -> list[Key]:
        if self.call.context is None:
            return []
        return [Key(self.call.context, *one) for one in zip(self.sweeps, self.ids, strict=True)]

    def _samples(self, number: int, found: Any) -> Samples:
        """Return the samples of the map's output for a sequence; DataError if it is wrong."""
        if self.parts is not None and not isinstance(found, DataError):
            part, num_parts = self.parts[number]
            several = found if isinstance(found, list) else [found]
            if len(several) != num_parts:
                problem = f"made {len(several)} sequences where {num_parts} were measured; if "
                advice = "it is another map than it was, give it another version="
                raise self.error(number, problem + advice)
            found = several[part]
        samples = self.convert(number, found)
        size, wanted = self.call.form.size(samples), self.call.map.size
        if size != self.sizes[number]:
            raise self.wrong_size(number, size)
        if isinstance(wanted, Lengths):
            sequence = {name: one[number] for name, one in self.sequences.items()}
            try:
                lengths = wanted(sequence)
            except ValueError as error:
                raise self.error(number, str(error)) from error
            for name, length in lengths.items():
                if name in samples and (own := count(samples[name])) != length:
                    told = f"of {name!r} where size= said {length}"
                    problem = f"returned {own} samples {told}; it must do the same every time"
                    raise self.error(number, problem)
        return samples

    def convert(self, number: int, found: Any, *, may_be_empty: bool = False) -> Samples:
        """Return the samples of an output; DataError if it has none."""
        if isinstance(found, DataError):
            raise found
        if not isinstance(found, Mapping):
            raise self.error(number, no_dict(found))
        try:
            return self.call.form.convert(found, may_be_empty=may_be_empty)
        except WrongSamples as error:
            raise self.error(number, str(error), error.stream) from error

    def wrong_size(self, number: int, size: int) -> DataError:
        """Return the error of a sequence that is made with another size than it must have."""
        problem = f"returned {size} samples where "
        if self.call.map.size == "same":
            problem += (
                f"the sequence has {self.sizes[number]}; if that is one sample declare its "
                "shape by streams=, and a map that changes sizes says size='measured'"
            )
        else:
            told = "were measured" if self.call.map.size == "measured" else "size= said"
            problem += f"{self.sizes[number]} {told}; it must do the same every time"
        return self.error(number, problem)

    def _raised(self, number: int, error: BaseException) -> DataError:
        wrapped = self.error(number, f"raised {type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped

    def error(self, number: int, reason: str, stream: str | None = None) -> DataError:
        return DataError(f"{self.call.map} {reason}", stream=stream, sequence=self.ids[number])


def no_dict(found: object) -> str:
    """Describe a result of a map that is no dict."""
    return f"returned {type(found).__name__}, and not a dict of streams"


UNKNOWN = 2
_MOST = 2**32 - 2  # samples of a stream


@dataclass
class Measured:
    """Sizes of a map's results for sequences that follow each other in storage order."""

    # of each sequence, those of what is made of it, in samples; none if it is left out
    sizes: list[list[int]] = field(default_factory=list)
    wrong: dict[int, DataError] = field(default_factory=dict)  # by numbers among these
    several: bool = False  # the map returned a list of sequences
    # of each sequence what is made of it; nothing where only sizes are wanted
    made: list[Any] = field(default_factory=list)
    calls: int = 0  # of the map, and the seconds that they took
    seconds: float = 0.0
    is_clean: bool = True  # whether none of them is damaged, as they are stored or by the map

    def add(self, other: Measured) -> None:
        """Add those of the next sequences, but their errors."""
        self.sizes += other.sizes
        self.made += other.made
        self.several = self.several or other.several
        self.is_clean = self.is_clean and other.is_clean and not other.wrong


Look = Callable[[MapTask, int, Any, Measured], list[int]]
"""Returns the sizes of the output for the sequence of a number, or raises DataError."""


def sizes_made(
    task: MapTask, number: int, found: Any, measured: Measured, *, keeps: bool = False
) -> list[int]:
    """Return the size of each sequence that is made; `keeps` if these are wanted, too."""
    is_list = isinstance(found, list)
    measured.several = measured.several or is_list
    several = found if is_list else [found]
    # What is kept is copied, as a function may use a buffer again.
    converted = [
        task.convert(number, one, may_be_empty=True)
        for one in (copied(several) if keeps else several)
    ]
    made = [samples for samples in converted if task.call.form.size(samples)]
    sizes = [task.call.form.size(samples) for samples in made]
    if keeps:
        measured.made.append(made)
        if task.call.map.size == "same" and sizes != [task.sizes[number]]:
            raise task.wrong_size(number, sum(sizes))
    return sizes


def size_if_kept(task: MapTask, number: int, found: Any, measured: Measured) -> list[int]:
    """Return 1 for a sequence that a filter keeps."""
    if isinstance(found, bool | np.bool_):
        return [1] if found else []
    kind = type(found).__name__
    raise task.error(number, f"returned {kind}, and neither True nor False")


def lengths_found(
    task: MapTask,
    number: int,
    found: Any,
    measured: Measured,
    *,
    names: tuple[str, ...],
    are_cut: bool,
) -> list[int]:
    """Return the lengths of streams as sizes, of a map whose function is a `Lengths`.

    Of every sequence it is 1 and each length plus 1, of one that is damaged the 1 alone, and
    `UNKNOWN` of one that samples do not tell that are cut to heads: so they are kept as sizes
    are, above 0.
    """
    if found is None and are_cut:
        return [UNKNOWN]
    lengths = [1]
    for name in names:
        length = whole_number(found[name])
        if length is None or not 0 <= length <= _MOST:
            problem = f"must have a length in [0, 2^32 - 2], size= said {shown(found[name])}"
            raise task.error(number, problem, name)
        lengths.append(length + 1)
    return lengths


def output_alone(task: MapTask, number: int, found: Any, measured: Measured) -> list[int]:
    """Keep a copy of what the map returned."""
    measured.made.append(copied(found))
    return []
