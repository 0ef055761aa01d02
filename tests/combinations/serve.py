"""The source of a combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tests.combinations import mapped
from tests.combinations.combination import IN_CHUNKS, Combination, EventSpec
from tests.combinations.combination import Chunks as Stored
from tests.sources import order_options, ragged

import sweephand as sh

BASE = 10**6  # the samples of a corpus count from its number times this


class Chunks(sh.UserDeserializer):
    """A corpus chunk by chunk."""

    def __init__(self, chunks: Stored, base: int, has_label: bool) -> None:
        self._chunks = chunks
        self._base = base
        self._has_label = has_label

    def stream_infos(self) -> sh.StreamDefs:
        return _definitions(self._has_label)

    def num_chunks(self) -> int:
        return len(self._chunks)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        first = sum(map(len, self._chunks[:chunk_id]))
        return _streams(self._chunks[chunk_id], first, self._base, self._has_label)

    def chunk_infos(self) -> object:
        return [(len(chunk), sum(chunk)) for chunk in self._chunks]

    def sequence_lengths(self, chunk_id: int) -> object:
        return np.array(self._chunks[chunk_id], np.int64)


def _definitions(has_label: bool) -> sh.StreamDefs:
    label = {"label": sh.StreamDef()} if has_label else {}
    return sh.StreamDefs(x=sh.StreamDef(defines_mb_size=True), **label)


def _streams(sizes: Sequence[int], first: int, base: int, has_label: bool) -> dict[str, Any]:
    x = [base + 1000 * (first + n) + np.arange(size) for n, size in enumerate(sizes)]
    label = {"label": first + np.arange(len(sizes))} if has_label else {}
    return {"x": ragged(x, np.int64), **label}


def deserializers_of(combination: Combination, number: int) -> Any:
    """A corpus, or what is joined to one."""
    chunks = combination.stored[number]
    base = BASE * number
    has_label = combination.maps_values or not isinstance(combination.layout, sh.Frames)
    corpus: Any
    if combination.form == IN_CHUNKS:
        corpus = Chunks(chunks, base, has_label)
    else:
        sizes = [size for chunk in chunks for size in chunk]
        streams = _streams(sizes, 0, base, has_label)
        ids = [combination.key_of(n) for n in range(len(sizes))]
        corpus = sh.ArrayDeserializer(
            streams,
            _definitions(has_label),
            chunk_size=len(chunks[0]),
            ids=None if combination.joined is None else np.array(ids),
        )
    if not combination.maps_mixture:
        for name in combination.maps:
            corpus = mapped.apply(name, corpus)
    if combination.joined is None:
        return corpus
    return [corpus, _other(combination, number)]


def _other(combination: Combination, number: int) -> sh.Deserializer:
    """What is joined: the negative samples; with ids they are stored the other way round."""
    chunks = combination.stored[number]
    left_out = combination.left_out(chunks)
    sizes = [size for chunk in chunks for size in chunk]
    numbers = [n for n in range(len(sizes)) if n not in left_out]
    ids = None
    if combination.form != IN_CHUNKS:
        numbers.reverse()
        ids = np.array([combination.key_of(n) for n in numbers])
    runs = [-(BASE * number + 1000 * n + np.arange(sizes[n])) for n in numbers]
    return sh.ArrayDeserializer({"y": ragged(runs, np.int64)}, ids=ids, name="y")


def events_of(combination: Combination, specs: Sequence[EventSpec]) -> list[sh.events.Event]:
    return [event_of(combination, spec) for spec in specs]


def event_of(combination: Combination, spec: EventSpec) -> sh.events.Event:
    names = combination.names
    at = spec.at
    if spec.kind == "ban":
        ids = combination.all_ids or ["of nothing"]  # which is refused before
        return sh.events.Ban(
            at=at, ids=tuple(sorted({ids[n % len(ids)] for n in spec.numbers}))
        )
    if spec.kind == "skip":
        return sh.events.Skip(at=at, stop=at + spec.numbers[0])
    if spec.kind == "weights":
        return sh.events.Weights(at=at, weights=dict(zip(names, spec.numbers, strict=False)))
    if spec.kind == "add":
        weights = dict(zip(names, spec.numbers, strict=True))
        data = deserializers_of(combination, len(names) - 1)
        return sh.events.Add(at=at, corpus=names[-1], data=data, weights=weights)
    if spec.kind == "retire":
        return sh.events.Retire(at=at, corpus=names[spec.numbers[0]])
    if spec.kind == "row_length":
        return sh.events.RowLength(at=at, row_length=spec.numbers[0])
    return sh.events.MapVersion(at=at, map="versioned", version=2)


def source_of(
    combination: Combination, specs: Sequence[EventSpec], **engine: Any
) -> sh.MinibatchSource:
    corpora = [deserializers_of(combination, n) for n in range(len(combination.corpora))]
    data: Any = corpora[0]
    if combination.is_mixture:
        weights = [
            (at, dict(zip(combination.names, values, strict=False)))
            for at, values in combination.knots
        ]
        named = dict(zip(combination.names, corpora, strict=False))
        data = sh.Mixture(named, weights, at_end=combination.at_end)  # type: ignore[arg-type]
        if combination.maps_mixture:
            for name in combination.maps:
                data = mapped.apply(name, data)
    scores = combination.scores_of(combination.mapped)
    order = order_options(replace(combination.settings, scores=scores))
    options: dict[str, Any] = {**order, **engine}
    if combination.max_samples is not None:
        options["max_samples"] = combination.max_samples
    if combination.max_sweeps is not None:
        options["max_sweeps"] = combination.max_sweeps
    if combination.joined is not None:
        options["missing"] = combination.joined
    return sh.MinibatchSource(
        data,
        layout=combination.layout,
        balance=combination.balance,  # type: ignore[arg-type] # as it is drawn
        events=events_of(combination, specs),
        **options,
    )
