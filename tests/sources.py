"""Sources over the corpora of the model, whose data tell where they came from."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import sweephand as sh
from tests import model
from tests.model import Entry, ModelCorpus, ModelSettings

KINDS = ("array", "npy", "measured chunks", "told chunks")
DEFAULT_WINDOW_CHUNKS = 128

TIMEOUT = 60
"""Seconds, of waits that end at once unless something is wrong."""

Sequences = list[NDArray[Any]]


# What the corpora hold ------------------------------------------------------------------------


def content(corpus: ModelCorpus) -> dict[str, Sequences]:
    """One array per sequence and stream: counted samples, one label each, and some notes.

    "x" has as many samples as the sequence is long, "label" has one of shape (2,), and "notes"
    has at most two, often none.
    """
    ends = np.cumsum(corpus.sizes)
    return {
        "x": np.split(np.arange(corpus.num_samples, dtype=np.int64), ends[:-1]),
        "label": [np.array([[n, -n]], np.float32) for n in range(corpus.num_sequences)],
        "notes": [
            np.full(min(n % 3, size), n % 251, np.uint8) for n, size in enumerate(corpus.sizes)
        ],
    }


def ragged(sequences: Sequences, dtype: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(values, offsets) of any number of sequences, none too."""
    lengths = [len(sequence) for sequence in sequences]
    return np.concatenate([np.empty(0, dtype), *sequences]), np.cumsum([0, *lengths])


def in_equal_chunks(corpus: ModelCorpus) -> ModelCorpus:
    """The same sequences in chunks as long as the first one: all that arrays can say."""
    step = max(1, len(corpus.chunks[0]))
    sizes = corpus.sizes
    return ModelCorpus.of([sizes[i : i + step] for i in range(0, len(sizes), step)])


class Chunks(sh.UserDeserializer):
    """A corpus chunk by chunk; `loads` are the chunks that were asked for."""

    def __init__(self, corpus: ModelCorpus, *, told: bool) -> None:
        self.corpus = corpus
        self.told = told
        self.loads: list[int] = []
        self._content = content(corpus)

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef(), label=sh.StreamDef(), notes=sh.StreamDef())

    def num_chunks(self) -> int:
        return len(self.corpus.chunks)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        self.loads.append(chunk_id)
        members = self.corpus.members[chunk_id]
        x, label, notes = (
            [sequences[n] for n in members] for sequences in self._content.values()
        )
        return {
            "x": ragged(x, np.int64),
            "label": np.concatenate([np.empty((0, 2), np.float32), *label]),
            "notes": ragged(notes, np.uint8),
        }

    def chunk_infos(self) -> object:
        return [(len(chunk), sum(chunk)) for chunk in self.corpus.chunks] if self.told else None

    def sequence_lengths(self, chunk_id: int) -> object:
        return np.array(self.corpus.chunks[chunk_id], np.int64) if self.told else None


class Rows(sh.UserDeserializer):
    """Rows in chunks of four, whose values are their numbers.

    A chunk that is closed waits until its gate is opened; `entered` says that one waits.
    """

    thread_safe = True  # so that a chunk that waits holds up no other

    def __init__(self, num_chunks: int = 8, closed: Iterable[int] = ()) -> None:
        self._num_chunks = num_chunks
        self.gates = {chunk: threading.Event() for chunk in closed}
        self.entered = threading.Event()

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return self._num_chunks

    def chunk_infos(self) -> object:
        return [(4, 4)] * self._num_chunks

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        if chunk_id in self.gates:
            self.entered.set()
            assert self.gates[chunk_id].wait(TIMEOUT)
        return {"x": np.arange(4) + 4 * chunk_id}


def save_npy(corpus: ModelCorpus, folder: Path) -> dict[str, Any]:
    """Write a corpus as files; returns what `NpyDeserializer` takes."""
    streams: dict[str, Any] = {"label": folder / "label.npy"}
    found = content(corpus)
    np.save(folder / "label.npy", np.concatenate(found["label"]))
    for name, dtype in (("x", np.int64), ("notes", np.uint8)):
        paths = folder / f"{name}.npy", folder / f"{name}_offsets.npy"
        for path, array in zip(paths, ragged(found[name], dtype), strict=True):
            np.save(path, array)
        streams[name] = paths
    return streams


def deserializer_of(kind: str, corpus: ModelCorpus, folder: Path) -> sh.Deserializer:
    """A deserializer that serves a corpus; arrays and files must have equal chunks."""
    if kind.endswith("chunks"):
        return Chunks(corpus, told=kind == "told chunks")
    size = len(corpus.chunks[0])
    if kind == "npy":
        return sh.NpyDeserializer(save_npy(corpus, folder), chunk_size=size)
    found = content(corpus)
    return sh.ArrayDeserializer(
        {
            "x": ragged(found["x"], np.int64),
            "label": np.concatenate(found["label"]),
            "notes": found["notes"],
        },
        chunk_size=size,
    )


# Sources --------------------------------------------------------------------------------------


def order_options(settings: ModelSettings) -> dict[str, Any]:
    """The settings of the model as options of a source."""
    options: dict[str, Any] = {
        "randomize": settings.randomize,
        "randomization_seed": settings.seed,
        "num_lanes": settings.num_lanes,
    }
    if settings.window_chunks is not None:
        options["randomization_window_in_chunks"] = settings.window_chunks
    if settings.window_samples is not None:
        options["randomization_window_in_samples"] = settings.window_samples
    return options


def as_served(
    kind: str, corpus: ModelCorpus, settings: ModelSettings
) -> tuple[ModelCorpus, ModelSettings]:
    """Corpus and settings as a source over this kind of deserializer has them."""
    if not kind.endswith("chunks"):
        return in_equal_chunks(corpus), settings
    if settings.window_chunks is None and settings.window_samples is None:
        settings = replace(settings, window_chunks=DEFAULT_WINDOW_CHUNKS)
    return corpus, settings


@contextmanager
def serving(
    kind: str, corpus: ModelCorpus, settings: ModelSettings, **options: Any
) -> Iterator[sh.MinibatchSource]:
    """A source over a corpus, closed in the end."""
    with TemporaryDirectory() as folder:
        deserializer = deserializer_of(kind, corpus, Path(folder))
        with sh.MinibatchSource(deserializer, **order_options(settings), **options) as source:
            yield source


def engines() -> st.SearchStrategy[dict[str, Any]]:
    """Threads and prefetch: none, one, more than there are minibatches."""
    return st.fixed_dictionaries(
        {"num_threads": st.sampled_from([0, 1, 2]), "prefetch": st.sampled_from([0, 1, 3])}
    )


def request_of(request: int) -> int:
    """A request of the model as a minibatch size."""
    return sh.FULL_DATA_SWEEP if request == model.FULL_DATA_SWEEP else request


# What they deliver ----------------------------------------------------------------------------


def numbers(ids: list[str]) -> list[int]:
    """The numbers in the corpus of sequences with these ids."""
    return [int(name.rpartition("__")[2]) for name in ids]


def check_share(
    minibatch: sh.Minibatch,
    corpus: ModelCorpus,
    taken: list[Entry],
    share: list[Entry] | None = None,
) -> None:
    """Hold a minibatch to what the model takes, and to the share of the worker that asked."""
    share = taken if share is None else share
    assert bool(minibatch) == bool(taken)
    assert numbers(minibatch.ids) == [entry.sequence for entry in share]
    if not taken:
        assert len(minibatch) == 0
        return
    assert minibatch.nominal_time == taken[0].time
    assert minibatch.global_num_samples == sum(entry.size for entry in taken)
    assert minibatch.num_samples == sum(entry.size for entry in share)
    assert minibatch.num_sequences == len(share)
    assert minibatch.sweeps_ended == model.sweeps_ended(corpus, taken)
    assert minibatch.end_of_sweep == (minibatch.sweeps_ended > 0)
    for name, sequences in content(corpus).items():
        wanted = [sequences[entry.sequence] for entry in share]
        found = minibatch[name].as_sequences()
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
