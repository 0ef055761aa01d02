"""A source that does nothing but what decides an order, where the model has none.

It has the corpora as they are planned, one thread, one worker, no map but one that tells the
sweep, and no state is taken but to go back. What it gives is held to the promises of
docs/mixtures.md by tests of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.combinations.combination import NAMES, Combination, EventSpec
from tests.combinations.units import Piece, Unit
from tests.sources import order_options

import sweephand as sh

if TYPE_CHECKING:
    from tests.combinations.plans import PlannedMinibatch


class _Sizes(sh.UserDeserializer):
    """Sequences of these sizes: each sample has the number of its sequence and its own."""

    def __init__(self, chunks: Sequence[Sequence[int]]) -> None:
        self._chunks = chunks

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(place=sh.StreamDef(shape=(2,)))

    def num_chunks(self) -> int:
        return len(self._chunks)

    def chunk_infos(self) -> object:
        return [(len(chunk), sum(chunk)) for chunk in self._chunks]

    def sequence_lengths(self, chunk_id: int) -> object:
        return np.array(self._chunks[chunk_id], np.int64)

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        first = sum(map(len, self._chunks[:chunk_id]))
        return {
            "place": [
                np.stack([np.full(size, first + n), np.arange(size)], 1)
                for n, size in enumerate(self._chunks[chunk_id])
            ]
        }


def _corpus_of(chunks: Sequence[Sequence[int]]) -> Any:
    """An array, which is planned faster, where it has such chunks."""
    count = len(chunks[0]) if chunks[-1] else 0
    if (
        any(len(chunk) != count for chunk in chunks[:-1])
        or len(chunks[-1]) > count
        or not count
    ):
        return _Sizes(chunks)
    whole = _Sizes([[size for chunk in chunks for size in chunk]])
    return sh.ArrayDeserializer(whole.get_chunk(0), chunk_size=count)


def _tell_sweep(sequence: dict[str, Any], key: sh.Key) -> dict[str, Any]:
    return {**sequence, "sweep": np.array([key.sweep])}


class Reference:
    """A plan that asks such a source."""

    def __init__(self, combination: Combination, specs: list[EventSpec]) -> None:
        self._combination = combination
        self._specs = [one for one in specs if one.kind not in ("ban", "map_version")]
        self._source = self._open()

    def _open(self) -> sh.MinibatchSource:
        from tests.combinations.serve import events_of

        combination = self._combination
        corpora = [_corpus_of(made.model.chunks) for made in combination.made]
        names = combination.names
        data: Any = corpora[0]
        if combination.is_mixture:
            weights = [
                (at, dict(zip(names, values, strict=False))) for at, values in combination.knots
            ]
            given: Any = dict(zip(names, corpora, strict=True))
            data = sh.Mixture(given, weights, at_end=combination.at_end)  # type: ignore[arg-type]
        options = order_options(combination.order)
        if not any("window" in name for name in options):
            options["randomization_window_in_samples"] = sh.FULL_DATA_SWEEP
        if combination.max_samples is not None:
            options["max_samples"] = combination.max_samples
        if combination.max_sweeps is not None:
            options["max_sweeps"] = combination.max_sweeps
        return sh.MinibatchSource(
            data.map(_tell_sweep, random=True),
            layout=combination.layout,
            events=events_of(combination, self._specs),
            num_threads=0,
            prefetch=0,
            num_map_workers=0,
            **options,
        )

    def add(self, spec: EventSpec) -> None:
        if spec.kind not in ("ban", "map_version"):
            state = self._source.get_checkpoint_state()
            self._specs.append(spec)
            self._source = self._open()
            self._source.restore_from_checkpoint(state)

    def place(self) -> object:
        return self._source.get_checkpoint_state()

    def go_to(self, place: object) -> None:
        self._source.restore_from_checkpoint(place)  # type: ignore[arg-type]

    def take(self, size: int) -> PlannedMinibatch:
        from tests.combinations.plans import PlannedMinibatch

        minibatch = self._source.next_minibatch(size)
        if not minibatch:
            return PlannedMinibatch(self._source.current_position, ())
        pieces = self._pieces_of(minibatch)
        layout = self._combination.layout
        units: list[Unit] = []
        time = minibatch.nominal_time
        if isinstance(layout, sh.Packed | sh.TruncatedBPTT):
            for row in _rows_of(minibatch, pieces):
                if not row and isinstance(layout, sh.Packed):
                    continue  # of a micro-batch that is not full
                units.append(Unit(time, tuple(row), row_length=_row_length(minibatch, layout)))
                time += units[-1].size
        else:
            for piece in pieces:
                units.append(Unit(time, (piece,), self._lane_of(piece)))
                time += piece.size
        ended = None if self._combination.is_mixture else minibatch.sweeps_ended
        return PlannedMinibatch(
            minibatch.nominal_time, tuple(units), ended, minibatch.bucket_key
        )

    def _pieces_of(self, minibatch: sh.Minibatch) -> list[Piece]:
        places = minibatch["place"].as_sequences()
        sweeps = minibatch["sweep"].as_sequences()
        found = []
        for name, place, sweep in zip(minibatch.ids, places, sweeps, strict=True):
            corpus = NAMES.index(name.split("/")[0]) if "/" in name else 0
            number, first = place[0].tolist()
            size = self._combination.made[corpus].all[number].size
            found.append(
                Piece(corpus, number, int(np.ravel(sweep)[0]), first, len(place),
                      first + len(place) < size)
            )  # fmt: skip
        return found

    def _lane_of(self, piece: Piece) -> int:
        from dataclasses import replace

        from tests import model
        from tests.combinations.units import mixture_of

        combination, settings = self._combination, self._combination.order
        if combination.is_mixture:
            own = mixture_of(combination, ()).own_settings(combination.names[piece.corpus])
            settings = replace(own)
        corpus = combination.made[piece.corpus].model
        entries = model.sweep_entries(corpus, settings, piece.sweep)
        return next(entry.lane for entry in entries if entry.sequence == piece.made)


def _row_length(minibatch: sh.Minibatch, layout: sh.Layout) -> int:
    return minibatch["place"].asarray().shape[1] if isinstance(layout, sh.Packed) else 0


def _rows_of(minibatch: sh.Minibatch, pieces: list[Piece]) -> list[list[Piece]]:
    """The pieces of each row: cells that are not gaps are dealt to rows in order."""
    left = iter(pieces)
    rows = []
    for mask in minibatch["place"].mask:
        row: list[Piece] = []
        cells = int((mask > 0).sum())
        while sum(piece.size for piece in row) < cells:
            row.append(next(left))
        rows.append(row)
    return rows
