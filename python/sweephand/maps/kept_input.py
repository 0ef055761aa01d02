"""A check for maps that keep the arrays passed to them, and could change them later."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.one_pass import one_pass
from sweephand.corpus.own_values import copied
from sweephand.corpus.sample_form import SampleForm
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.maps.key import KeyContext
from sweephand.maps.open_context import OpenContext
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask
from sweephand.run.progress import Progress


class _Watch:
    """Calls a function with arrays of its own, and knows which are still there later."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._given: list[weakref.ref[Any]] = []

    def __call__(self, sequence: dict[str, Any], *keys: Any) -> Any:
        own = copied(sequence)
        for one in own.values():
            self._given += map(weakref.ref, one if isinstance(one, list) else [one])
        return self._function(own, *keys)

    def take_alive(self) -> list[weakref.ref[Any]]:
        """Return references to the arrays passed since the last call that are still there."""
        given, self._given = self._given, []
        return [one for one in given if one() is not None]


def kept_inputs(
    corpus: Corpus, wanted: SequenceMap, opening: OpenContext, most: int
) -> Iterator[tuple[str, bool]]:
    """Map the first sequences, each by itself, and drop the results."""
    stored, watch = StoredStreams(corpus), _Watch(wanted.function)
    watched = replace(wanted, function=watch)
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    context = KeyContext(opening.seed, wanted.name, wanted.version)
    batches = one_pass(corpus, opening.ledger, 1)
    alive: dict[str, list[weakref.ref[Any]]] = {}
    try:
        for numbers, batch in islice(batches, most):
            if len(numbers) == 0:
                continue
            task = MapTask.of_batch(stored, watched, form, numbers, batch, context)
            deque(task.outputs(Progress(), []), 0)  # each dropped at once
            alive[task.ids[0]] = watch.take_alive()
    finally:
        batches.close()
    if any(alive.values()):
        gc.collect()  # an error that was raised holds its frames, until it is collected
    for name, arrays in alive.items():
        yield name, any(one() is not None for one in arrays)
