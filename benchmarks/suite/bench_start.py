"""What a run waits for, each in a new process: from what a user writes to what he gets.

Data are there before, and what is written here is imported; all else counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import (
    ArrayDeserializer,
    CTFDeserializer,
    Deserializer,
    MinibatchSource,
    NpyDeserializer,
    Packed,
    StreamDef,
    StreamDefs,
    UserDeserializer,
)
from sweephand._core.compose import Fitting, Planner, Request
from sweephand._core.order import OrderSettings, SweepTimeline

from .contest import Found, MemoryRow, Row, peer
from .corpora import (
    MANY_SEQUENCES,
    ROW_LENGTH,
    TOKEN_BUDGET,
    make_lengths,
    make_offsets,
    make_short_lengths,
    make_tokens,
    scaled,
    untouched,
)
from .made_corpus import MadeCorpus
from .memory import Growth
from .turn import Clock, Steps, Turn

FAR_LANES = 16_384
Lengths = NDArray[np.int64]


def first_of(make: Callable[[], Deserializer], held: int = 0) -> Steps:
    """Take the first minibatch of a corpus that holds so many bytes of lengths."""
    yield 0
    growth, clock = Growth(), Clock()
    with clock.running():
        _ = MinibatchSource(make()).next_minibatch(TOKEN_BUDGET)["tokens"].values
    yield clock.turn(1, growth.most() - held)


def in_memory() -> Steps:
    offsets = np.load("tokens_offsets.npy")
    tokens = np.zeros(offsets[-1], np.uint8)
    return first_of(lambda: ArrayDeserializer({"tokens": (tokens, offsets)}))


def mapped() -> Steps:
    offsets = np.load("tokens_offsets.npy", mmap_mode="r")
    tokens = np.load("tokens.npy", mmap_mode="r")
    return first_of(lambda: ArrayDeserializer({"tokens": (tokens, offsets)}))


class FirstMinibatch(MemoryRow):
    """The first minibatch of 50 M sequences of unequal lengths, from construction."""

    contenders = {
        "arrays": in_memory,
        "mapped arrays": mapped,
        "`.npy` files": lambda: first_of(
            lambda: NpyDeserializer("tokens.npy"), held=8 * scaled(MANY_SEQUENCES)
        ),
        "Grain MapDataset": peer("grain_maps.first_minibatch"),
    }
    unit, per, fresh = "ms", 1e-3, True

    def write_data(self) -> None:
        offsets = make_offsets(make_short_lengths(MANY_SEQUENCES, 40))
        np.save("tokens_offsets.npy", offsets)
        shape = (int(offsets[-1]),)
        np.lib.format.open_memmap("tokens.npy", "w+", np.uint8, shape)  # a hole

    def setup_cache(self) -> Found:
        return self.compete()


def go_to(part_of_sweep: float) -> Steps:
    """Go to a place of the next sweep, and take a minibatch."""
    source = MinibatchSource(untouched(make_short_lengths(100_000_000, 40)))
    source.next_minibatch(TOKEN_BUDGET)
    yield 0
    source.current_position = int(source.num_samples_per_sweep * (1 + part_of_sweep))
    source.next_minibatch(TOKEN_BUDGET)
    yield 1


class Seek(MemoryRow):
    """A minibatch of another sweep over 10^8 sequences of unequal lengths, in default order."""

    contenders = {"start": lambda: go_to(0), "80 %": lambda: go_to(0.8)}
    unit, per, fresh = "ms", 1e-3, True

    def setup_cache(self) -> Found:
        return self.compete()


def resume(*, with_opening: bool) -> Steps:
    data = {"tokens": tuple(make_tokens())}
    state = json.loads((np.load("state.npy")).item())
    yield 0
    opening, restoring = Clock(), Clock()
    with opening.running():
        source = MinibatchSource(ArrayDeserializer(data))
        with restoring.running():
            source.restore_from_checkpoint(state)
            _ = source.next_minibatch(TOKEN_BUDGET)["tokens"].values
    yield (opening if with_opening else restoring).turn()


class Resume(Row):
    """A state at 80 % of 200,000 sequences, to the first minibatch."""

    contenders = {
        "with opening": lambda: resume(with_opening=True),
        "from restore": lambda: resume(with_opening=False),
        "Grain MapDataset, with opening": peer("grain_maps.resume"),
    }
    unit, per, fresh = "ms", 1e-3, True

    def write_data(self) -> None:
        tokens = make_tokens()
        source = MinibatchSource(ArrayDeserializer({"tokens": tuple(tokens)}))
        source.current_position = int(0.8 * len(tokens.tokens))
        np.save("state.npy", json.dumps(source.get_checkpoint_state()))

    def setup_cache(self) -> Found:
        return self.compete()


class MadeChunks(UserDeserializer):
    """Chunks of ten sequences with their lengths; made when asked for."""

    def __init__(self, num_chunks: int) -> None:
        self._num_chunks = num_chunks
        self._lengths = make_lengths(10)

    def stream_infos(self) -> StreamDefs:
        return StreamDefs(tokens=StreamDef())

    def num_chunks(self) -> int:
        return self._num_chunks

    def chunk_infos(self) -> object:
        one = len(self._lengths), int(self._lengths.sum())
        return np.tile(np.array([one]), (self._num_chunks, 1))

    def sequence_lengths(self, chunk_id: int) -> object:
        return self._lengths

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"tokens": [np.zeros(length, np.int32) for length in self._lengths]}


def place() -> Steps:
    source = MinibatchSource(MadeChunks(scaled(10**7)))
    yield 0
    source.current_position = source.num_samples_per_sweep * 9 // 10
    yield 1


class Place(MemoryRow):
    """Going to 90 % of a sweep over 10^7 chunks, in the default window."""

    contenders = {"sweephand": place}
    unit, per, fresh = "ms", 1e-3, True

    def setup_cache(self) -> Found:
        return self.compete()


class ManyChunks(MadeChunks):
    """As `MadeChunks`, with chunks and lengths as made corpora have them."""

    def __init__(self, corpus: MadeCorpus) -> None:
        self._num_chunks = len(corpus.chunk_samples)
        self._samples = corpus.chunk_samples
        self._tile = corpus.tile.reshape(-1, corpus.chunk_sequences)

    def chunk_infos(self) -> object:
        counts = np.full(self._num_chunks, self._tile.shape[1], np.int64)
        return np.stack([counts, self._samples.astype(np.int64)], axis=1)

    def sequence_lengths(self, chunk_id: int) -> Lengths:
        return self._tile[chunk_id % len(self._tile)].astype(np.int64)

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"tokens": [np.zeros(n, np.int32) for n in self.sequence_lengths(chunk_id)]}


def far_place(num_chunks: int) -> Steps:
    """Go to a third of a sweep over 10^12 samples in 16,384 lanes."""
    corpus = MadeCorpus.draw("long", scaled(10**12), scaled(num_chunks), 0)
    yield 0
    settings = OrderSettings(
        seed=0, num_lanes=FAR_LANES, window_chunks=FAR_LANES, window_samples=0, randomize=True
    )
    planner = Planner(SweepTimeline(corpus.core(), settings), Fitting(), 2**64 - 1)
    planner.seek(corpus.num_samples // 3)
    planner.next(Request(1, 1, 0, crosses_sweeps=True, balance=None))
    yield 1


def far_place_of_user(num_chunks: int) -> Steps:
    chunks = ManyChunks(MadeCorpus.draw("long", scaled(10**12), scaled(num_chunks), 0))
    source = MinibatchSource(
        chunks, num_lanes=FAR_LANES, randomization_window_in_chunks=FAR_LANES, num_threads=0
    )
    yield 0
    source.current_position = source.num_samples_per_sweep // 3
    source.next_minibatch(1)
    yield 1


class FarPlace(MemoryRow):
    """Going to a third of a sweep over 10^12 samples in 16,384 lanes."""

    contenders = {
        "10^6 chunks": lambda: far_place(10**6),
        "10^7 chunks": lambda: far_place(10**7),
        "a `UserDeserializer` of 10^6": lambda: far_place_of_user(10**6),
    }
    unit, per, fresh = "ms", 1e-3, True

    def setup_cache(self) -> Found:
        return self.compete()


def chunked_text() -> MinibatchSource:
    """Return 10^6 chunks of a text file: each has up to 88 bytes, two or three sequences."""
    text = CTFDeserializer("many.ctf", {"x": StreamDef(shape=1)}, chunk_size_in_bytes=88)
    lanes = {"num_lanes": FAR_LANES, "randomization_window_in_chunks": FAR_LANES}
    return MinibatchSource(text, num_threads=0, **lanes)


def open_text() -> Steps:
    yield 0
    chunked_text()
    yield 1


def go_far_in_text() -> Steps:
    source = chunked_text()
    yield 0
    source.current_position = source.num_samples_per_sweep // 3
    source.next_minibatch(1)
    yield 1


class FarPlaceOfText(MemoryRow):
    """A text file of 10^6 chunks with its index, in 16,384 lanes."""

    contenders = {"opening": open_text, "a third of a sweep": go_far_in_text}
    unit, per, fresh = "ms", 1e-3, True

    def write_data(self) -> None:
        lengths = make_short_lengths(2_500_000, 3)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        with Path("many.ctf").open("w") as file:
            for part in np.array_split(rows, 100):
                file.writelines(f"{row} |x {row % 1000}\n" for row in part.tolist())
        chunked_text()  # builds the index

    def setup_cache(self) -> Found:
        return self.compete()


def open_chunks(num_chunks: int, **options: Any) -> Steps:
    chunks = MadeChunks(scaled(num_chunks))
    yield 0
    MinibatchSource(chunks, **options)
    yield 1


class OpenChunks(MemoryRow):
    """Opening a `UserDeserializer` of 10^6 chunks with their lengths."""

    contenders = {
        "Packed": lambda: open_chunks(10**6, layout=Packed(ROW_LENGTH)),
        "Ragged": lambda: open_chunks(10**6),
    }
    unit, per, fresh = "s", 1.0, True

    def setup_cache(self) -> Found:
        return self.compete()


_IMPORT = """
import json, time
import numpy
{before}
wall, processor = time.perf_counter(), time.process_time()
{code}
print(json.dumps([1, time.perf_counter() - wall, time.process_time() - processor]))
"""


def importing(code: str, before: str = "") -> Steps:
    """Import in processes that hold NumPy and nothing else; the first of them compiles."""
    yield 0
    while True:
        command = [sys.executable, "-c", _IMPORT.format(before=before, code=code)]
        # NumPy's threads spin for a while after its import, beside all that is measured.
        alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        told = subprocess.run(command, check=True, capture_output=True, env=alone).stdout
        yield Turn(*json.loads(told))


class Import(Row):
    """The package, beyond NumPy."""

    contenders = {
        "`import sweephand`": lambda: importing("import sweephand"),
        "and what a loop over arrays uses": lambda: importing(
            "import sweephand as sh\n"
            "source = sh.MinibatchSource(sh.ArrayDeserializer({'x': numpy.arange(9)}))\n"
            "source.next_minibatch(4)['x'].values"
        ),
        "`import torch`": lambda: importing("import torch"),
    }
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


_FIRST = """
import sweephand as sh
source = sh.MinibatchSource({corpus})
{restore}source.next_minibatch({size})["tokens"].values
"""


def starting(corpus: str, before: str = "", restore: str = "") -> Steps:
    """Import, open a corpus and take the first minibatch."""
    code = _FIRST.format(corpus=corpus, restore=restore, size=TOKEN_BUDGET)
    return importing(code, before)


_ARRAYS = 'sh.ArrayDeserializer({"tokens": (tokens, offsets)})'
_LOADED = 'offsets = numpy.load("{}_offsets.npy")\ntokens = numpy.zeros(offsets[-1], "uint8")'
_MAPPED = """
offsets = numpy.load("tokens_offsets.npy", mmap_mode="r")
tokens = numpy.load("tokens.npy", mmap_mode="r")
"""


class FromImport(Row):
    """The first minibatch of a process that holds NumPy and the data: imports are inside."""

    contenders = {
        "50 M sequences, arrays": lambda: starting(_ARRAYS, _LOADED.format("tokens")),
        "50 M sequences, mapped arrays": lambda: starting(_ARRAYS, _MAPPED),
        "50 M sequences, `.npy` files": lambda: starting('sh.NpyDeserializer("tokens.npy")'),
        "200,000 sequences, of a state at 80 %": lambda: starting(
            _ARRAYS,
            _LOADED.format("few"),
            'import json\nstate = json.loads(numpy.load("state.npy").item())\n'
            "source.restore_from_checkpoint(state)\n",
        ),
    }
    unit, per = "ms", 1e-3

    def write_data(self) -> None:
        FirstMinibatch().write_data()
        offsets = make_offsets(make_short_lengths(200_000, 40))
        np.save("few_offsets.npy", offsets)
        tokens = np.zeros(offsets[-1], np.uint8)
        source = MinibatchSource(ArrayDeserializer({"tokens": (tokens, offsets)}))
        source.current_position = int(0.8 * len(tokens))
        np.save("state.npy", json.dumps(source.get_checkpoint_state()))

    def setup_cache(self) -> Found:
        return self.compete()
