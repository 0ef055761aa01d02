"""A look at a map's result for the first sequences: its streams, and arrays that it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.calls import copied
from sweephand.corpus.columns import ColumnData, describe_stream
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.sample_form import SampleForm, Samples, WrongSamples, count
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError
from sweephand.maps.task import MapTask, OpenedMap, no_dict

_MOST_TRIED = 64  # sequences, once streams are known


@dataclass(frozen=True)
class FirstLook:
    """Streams of a map, as its first result shows them."""

    form: SampleForm
    definitions: StreamDefs
    sample_bytes: float  # of all streams for one sample
    columns: Mapping[str, ColumnData]  # the first sequence

    @classmethod
    def of(cls, found: Mapping[str, Any], definitions: StreamDefs, whose: str) -> FirstLook:
        """Look at a map's result for a sequence; WrongSamples if these are no samples."""
        # Transforms are functions of the user, which need not go to another process.
        plain = {name: replace(one, transforms=()) for name, one in definitions.items()}
        form = SampleForm(StreamDefs(plain), "sequence", whose, warns=False)
        first: Samples = form.convert(found)
        form.like = first
        columns = form.to_columns([first])
        num_bytes = sum(column.num_bytes for column in columns.values())
        return cls(form, definitions, num_bytes / form.size(first), columns)

    def streams(self, corpus: Corpus, *, keeps_size: bool) -> list[StreamInfo]:
        """Return the streams; ValueError if they contradict their declaration.

        A stream whose one sample comes with a first axis has one per sequence if it had so
        before, if all sequences have one, or if this one has more in others.
        """
        known = {info.name: info.is_single for info in corpus.streams}
        all_single = keeps_size and corpus.core.common_size == 1
        others = self.form.size(self.form.like) > 1
        return [
            describe_stream(
                name,
                column,
                self.definitions[name],
                is_single=name not in self.form.sequence_streams
                or (count(self.form.like[name]) == 1 and known.get(name, all_single or others)),
            )
            for name, column in self.columns.items()
        ]


def look_at_first(opened: OpenedMap) -> FirstLook:
    """Map sequences until a result shows the streams, at best with several samples.

    DataError if none can be mapped, or more fail than the budget holds; ValueError if nothing
    is made of any.
    """
    wrong: list[DataError] = []
    look: FirstLook | None = None
    batches = one_pass(opened.corpus, opened.opening.ledger, 1)
    try:
        for number, (numbers, batch) in enumerate(batches):
            if look is not None and number >= _MOST_TRIED:
                break
            if len(numbers) == 0:
                continue
            found = _look_at(opened, numbers, batch)
            if isinstance(found, FirstLook):
                look = look or found
                if opened.corpus.core.common_size or found.form.size(found.form.like) > 1:
                    return found
                continue
            wrong += [found] if found else []
            if len(wrong) > opened.opening.ledger.num_left:
                raise wrong[0]
    finally:
        batches.close()
    if look is not None:
        return look
    if wrong:
        raise wrong[0]
    raise ValueError(f"nothing is left: {opened.map} makes no samples of any sequence")


def _look_at(
    opened: OpenedMap, numbers: NDArray[np.uint64], batch: _core.engine.Batch
) -> FirstLook | DataError | None:
    """Return the streams that a sequence shows, its error, or None if the result is empty."""
    wanted = opened.map
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    task = opened.task(LookingTask, form, numbers, batch)
    looked: Looked = opened.opening.workers.run_first(task)
    if looked.wrong:
        return looked.wrong[0]
    found = looked.found
    if isinstance(found, list):
        if wanted.size != "measured":
            problem = "returned a list; one that makes several says size='measured'"
            return task.error(0, problem)
        if not found:
            return None
        found = found[0]
    if not isinstance(found, Mapping):
        return task.error(0, no_dict(found))
    if not found:
        return task.error(0, "returned no stream")
    definitions = wanted.streams
    if definitions is None:
        known = {info.name: info.definition.of_form() for info in opened.corpus.streams}
        definitions = StreamDefs(
            {
                name: replace(known.get(name, StreamDef()), **wanted.declared(name))
                for name in map(str, found)
            }
        )
    try:
        return FirstLook.of(found, definitions, str(wanted))
    except WrongSamples as error:
        if wanted.size != "same" and error.stream is None:
            return None
        return task.error(0, str(error), error.stream)


@dataclass(frozen=True)
class Looked:
    """What a map returned for a first sequence."""

    found: Any = None
    wrong: Mapping[int, DataError] = field(default_factory=dict)


@dataclass(frozen=True)
class LookingTask(MapTask):
    """Task of one sequence that returns what the map does."""

    def finish(self, outputs: Iterable[Any], seconds: Sequence[float]) -> Looked:
        """Return a copy of it."""
        found = copied(next(iter(outputs)))
        return Looked(wrong={0: found}) if isinstance(found, DataError) else Looked(found)
