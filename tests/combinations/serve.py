"""The source of a combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tests.combinations import made, mapped
from tests.combinations.combination import IN_CHUNKS, Combination, EventSpec
from tests.combinations.combination import Chunks as Stored
from tests.sources import order_options, ragged

import sweephand as sh

BASE = 10**6  # the samples of a corpus count from its number times this


class Chunks(sh.UserDeserializer):
    """A corpus chunk by chunk."""

    def __init__(self, chunks: Stored, base: int, combination: Combination) -> None:
        self._chunks = chunks
        self._base = base
        self._combination = combination

    def stream_infos(self) -> sh.StreamDefs:
        return _definitions(self._combination)

    def num_chunks(self) -> int:
        return len(self._chunks)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        first = sum(map(len, self._chunks[:chunk_id]))
        return _streams(self._chunks[chunk_id], first, self._base, self._combination)

    def chunk_infos(self) -> object:
        return [(len(chunk), sum(chunk)) for chunk in self._chunks]

    def sequence_lengths(self, chunk_id: int) -> object:
        return np.array(self._chunks[chunk_id], np.int64)


def _definitions(combination: Combination) -> sh.StreamDefs:
    mask = "mask" if combination.masks else None
    parts = "part" if combination.has_parts else None
    weights = "weight" if combination.weights else None
    tokens = sh.StreamDef(
        defines_mb_size=True, loss_mask=mask, parts=parts, label_weights=weights
    )
    streams = {"x": tokens}
    if weights:
        streams[weights] = sh.StreamDef()
    if combination.has_parts:
        streams["part"] = sh.StreamDef()
    if combination.masks:
        streams["mask"] = sh.StreamDef()
    if combination.carries:
        streams["items"] = sh.StreamDef(carried=True)
    if combination.has_label:
        streams["label"] = sh.StreamDef()
    return sh.StreamDefs(streams)


def _streams(
    sizes: Sequence[int], first: int, base: int, combination: Combination
) -> dict[str, Any]:
    numbers = range(first, first + len(sizes))
    x = [base + 1000 * n + np.arange(size) for n, size in zip(numbers, sizes, strict=True)]
    streams: dict[str, Any] = {"x": ragged(x, np.int64)}
    if combination.masks:
        masks = [
            made.mask_of(n, np.arange(size)) for n, size in zip(numbers, sizes, strict=True)
        ]
        streams["mask"] = ragged(masks, np.uint8)
    if combination.weights == "one":
        streams["weight"] = np.array([made.weight_of(n, 0) for n in numbers])
    if combination.weights == "each":
        weights = [
            made.weight_of(n, np.arange(size)) for n, size in zip(numbers, sizes, strict=True)
        ]
        streams["weight"] = ragged(weights, np.float64)
    if combination.has_parts:
        parts = [
            made.part_of(n, np.arange(size)) for n, size in zip(numbers, sizes, strict=True)
        ]
        streams["part"] = ragged(parts, np.int32)
    if combination.carries:
        streams["items"] = ragged([made.items_of(n, base) for n in numbers], np.int64)
    if combination.has_label:
        streams["label"] = np.array(numbers)
    return streams


def deserializers_of(combination: Combination, number: int) -> Any:
    """A corpus, or what is joined to one."""
    if number == combination.bare:
        combination = replace(combination, carries=False)
    chunks = combination.stored[number]
    base = BASE * number
    corpus: Any
    if combination.form == IN_CHUNKS:
        corpus = Chunks(chunks, base, combination)
    else:
        sizes = [size for chunk in chunks for size in chunk]
        streams = _streams(sizes, 0, base, combination)
        ids = [combination.key_of(n) for n in range(len(sizes))]
        corpus = sh.ArrayDeserializer(
            streams,
            _definitions(combination),
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
    at = spec.at
    if spec.kind == "ban":
        ids = combination.all_ids or ["of nothing"]  # which is refused before
        return sh.events.Ban(
            at=at, ids=tuple(sorted({ids[n % len(ids)] for n in spec.numbers}))
        )
    if spec.kind == "skip":
        return sh.events.Skip(at=at, stop=at + spec.numbers[0])
    if spec.kind == "weights":
        return sh.events.Weights(
            at=at, weights=dict(zip(combination.names, spec.numbers, strict=False))
        )
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
    options: dict[str, Any] = {**order_options(combination.settings), **engine}
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
