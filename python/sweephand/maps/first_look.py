"""A look at what a map makes of the first sequence, which tells what its streams are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.one_pass import one_pass
from sweephand.corpus.sample_form import SampleForm, Samples, WrongSamples, count
from sweephand.corpus.streams import StreamDef, StreamDefs, StreamInfo
from sweephand.errors import DataError
from sweephand.maps.key import KeyContext
from sweephand.maps.opening import Opening
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask, no_dict

_MOST_TRIED = 64  # sequences


@dataclass(frozen=True)
class FirstLook:
    """What the streams of a map are.

    Attributes
    ----------
    form : SampleForm
    definitions : StreamDefs
    sample_bytes : float
        Of all streams for one sample.
    columns : dict of ColumnData
        The first sequence.
    """

    form: SampleForm
    definitions: StreamDefs
    sample_bytes: float
    columns: Mapping[str, ColumnData]

    @classmethod
    def of(cls, found: Mapping[str, Any], definitions: StreamDefs, whose: str) -> FirstLook:
        """Look at what a map returned for a sequence.

        Raises
        ------
        WrongSamples
            If these are no samples.
        """
        form = SampleForm(definitions, "sequence", whose, warns=False)
        first: Samples = form.convert(found)
        form.like = first
        columns = form.to_columns([first])
        num_bytes = sum(column.num_bytes for column in columns.values())
        return cls(form, definitions, num_bytes / form.size(first), columns)

    def streams(self, stored: StoredStreams, *, keeps_size: bool) -> list[StreamInfo]:
        """Return the streams; ValueError if they cannot be what they are declared.

        A stream whose one sample comes with a first axis has one per sequence if it had so
        before, if all sequences have one, or if this one has more in others.
        """
        known = {info.name: info.is_single for info in stored.corpus.streams}
        all_single = keeps_size and stored.corpus.core.common_size == 1
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


def look_at_first(stored: StoredStreams, wanted: SequenceMap, opening: Opening) -> FirstLook:
    """Map sequences until one shows what the streams are, best one of several samples.

    Raises
    ------
    DataError
        If none of the first can be mapped, or more fail than the budget holds.
    """
    wrong: DataError | None = None
    look: FirstLook | None = None
    batches = one_pass(stored.corpus, opening.ledger, 1)
    try:
        for _, (numbers, batch) in zip(range(_MOST_TRIED), batches, strict=False):
            if len(numbers) == 0:
                continue
            found = _look_at(stored, wanted, opening, numbers, batch)
            if isinstance(found, FirstLook):
                look = look or found
                if stored.corpus.core.common_size or found.form.size(found.form.like) > 1:
                    return found
                continue
            if opening.ledger.num_left < 1 and found is not None:
                raise found
            wrong = wrong or found
    finally:
        batches.close()
    if look is not None:
        return look
    raise wrong or DataError(f"{wanted} made no sequence of the first {_MOST_TRIED}")


def _look_at(
    stored: StoredStreams,
    wanted: SequenceMap,
    opening: Opening,
    numbers: NDArray[np.uint64],
    batch: _core.engine.Batch,
) -> FirstLook | DataError | None:
    """Return what a sequence shows, or the reason if it is wrong; None if it makes nothing."""
    ids = stored.corpus.ids.names(numbers)
    context = KeyContext(opening.seed, wanted.name, wanted.version)
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    task = MapTask(
        wanted,
        form,
        stored.sequences_of(batch),
        ids,
        [1] * len(ids),
        context=context if wanted.random else None,
        sweeps=[0] * len(ids),
    )
    found = next(iter(task.outputs(opening.workers.turn, [])))
    if isinstance(found, list):
        if wanted.size != "measured":
            return task.error(0, "returned a list; one that makes several says size='measured'")
        if not found:
            return None
        found = found[0]
    if isinstance(found, DataError):
        return found
    if not isinstance(found, Mapping):
        return task.error(0, no_dict(found))
    if not found:
        return task.error(0, "returned no stream")
    definitions = wanted.streams
    if definitions is None:
        definitions = StreamDefs({str(name): _definition(stored, name) for name in found})
    try:
        return FirstLook.of(found, definitions, str(wanted))
    except WrongSamples as error:
        if wanted.size == "measured" and error.stream is None:
            return None
        return task.error(0, str(error), error.stream)


def _definition(stored: StoredStreams, name: str) -> StreamDef:
    """Return how a stream is defined that keeps its name, or a new one."""
    info = next((one for one in stored.corpus.streams if one.name == name), None)
    if info is None:
        return StreamDef()
    return StreamDef(
        defines_mb_size=info.defines_mb_size,
        broadcast=info.broadcast,
        transforms=info.transforms,
    )
