"""Many files, files in a store, and what is kept of each sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

import sweephand as sh

from .bench_loop import waits_of
from .contest import Found, MemoryRow, Row
from .corpora import TOKEN_BUDGET, scaled
from .memory import Growth
from .store import Store
from .turn import Steps, Turn

FILES = 10_000
LENGTH = 128  # tokens of a sequence


def tokens_of(files: str) -> Steps:
    corpus = sh.RawTokensDeserializer(files, "uint16", LENGTH)
    for minibatch in sh.MinibatchSource(corpus).minibatches(TOKEN_BUDGET):
        _ = minibatch["tokens"].values
        yield minibatch.num_samples


class TokenFiles(Row):
    """Shuffled sequences of 128 tokens, from many files and from one."""

    contenders = {
        "10,000 files": lambda: tokens_of("parts/*.bin"),
        "one file": lambda: tokens_of("x.bin"),
    }
    unit, per = "M tokens/s", 1e6

    def write_data(self) -> None:
        rng = np.random.default_rng(0)
        tokens = rng.integers(0, 60_000, (scaled(FILES), 32 * LENGTH), np.uint16)
        tokens.tofile("x.bin")
        Path("parts").mkdir()
        for n, part in enumerate(tokens):
            part.tofile(f"parts/{n:05}.bin")

    def setup_cache(self) -> Found:
        return self.compete()


ONE_NUMBER = sh.StreamDefs(tokens=sh.StreamDef(field="tokens", shape=1))


def open_ctf() -> sh.Deserializer:
    return sh.CTFDeserializer("p-*.ctf", ONE_NUMBER)


def open_json() -> sh.Deserializer:
    return sh.JSONLDeserializer("p-*.jsonl", sh.StreamDefs(tokens=sh.StreamDef()))


def opening(make: Callable[[], sh.Deserializer]) -> Steps:
    yield 0
    sh.MinibatchSource(make())
    yield 1


def first_minibatch(make: Callable[[], sh.Deserializer]) -> Steps:
    source = sh.MinibatchSource(make())
    yield 0
    _ = source.next_minibatch(256)["tokens"].values
    yield 1


class TextFiles(MemoryRow):
    """10,000 files of text whose index is there: opening, and then the first minibatch."""

    contenders = {
        "CTF, opening": lambda: opening(open_ctf),
        "JSON lines, opening": lambda: opening(open_json),
        "CTF, first minibatch": lambda: first_minibatch(open_ctf),
        "JSON lines, first minibatch": lambda: first_minibatch(open_json),
    }
    unit, per, fresh = "s", 1.0, True

    def write_data(self) -> None:
        for n in range(scaled(FILES)):
            Path(f"p-{n:05}.ctf").write_text("|tokens 1\n" * 20)
            Path(f"p-{n:05}.jsonl").write_text('{"tokens": [1, 2, 3]}\n' * 20)
        for make in (open_ctf, open_json):
            sh.MinibatchSource(make()).close()  # builds the index

    def setup_cache(self) -> Found:
        return self.compete()


# -- a store --
@contextmanager
def stored_rows(size: int) -> Iterator[tuple[Store, Iterator[sh.Minibatch]]]:
    """Serve a file, and deliver it in the default window."""
    with Store() as store:
        corpus = sh.NpyDeserializer({"rows": f"{store.url}/x.npy"})
        with sh.MinibatchSource(corpus) as source:
            yield store, iter(source.minibatches(size))


def bytes_of_store() -> Steps:
    """Count what was fetched beside what was used in 200 minibatches."""
    yield 0
    with stored_rows(16) as (store, minibatches):
        used = sum(one["rows"].values.nbytes for one in islice(minibatches, scaled(200)))
        yield Turn(used, store.fetched(), 0)


def waits_for_store() -> Steps:
    """Wait after the first minibatch, in 800 steps."""
    yield 0
    with stored_rows(64) as (_, minibatches):
        steps = list(islice(waits_of(minibatches), scaled(800)))
        yield Turn(*np.sum(steps, axis=0).tolist())


class StoreWaits(Row):
    """A file of 800 MB in a store with 50 ms latency, steps of 5 ms: waiting."""

    contenders = {"sweephand": waits_for_store}
    unit, per, fresh = "% of the time", 0.01, True

    def write_data(self) -> None:
        rows = scaled(200_000)
        np.lib.format.open_memmap("x.npy", "w+", np.float32, (rows, 1024))  # a hole

    def setup_cache(self) -> Found:
        return self.compete()


class StoreBytes(StoreWaits):
    """The same: bytes that were read, as a part of those that were used."""

    contenders = {"sweephand": bytes_of_store}
    unit, per = "bytes read of one used", 1.0

    def setup_cache(self) -> Found:
        return self.compete()


# -- the index --
def build_ctf_index(*, on_disk: bool) -> Steps:
    yield 0
    growth = Growth()
    source = sh.MinibatchSource(sh.CTFDeserializer("x.ctf", ONE_NUMBER))
    peak, count = growth.most(), source.num_sequences_per_sweep
    (index,) = Path(".sweephand").iterdir()
    size = index.stat().st_size
    index.unlink()
    yield Turn(count, size if on_disk else peak, 0)


class CtfIndex(Row):
    """The index of CNTK's text, two million sequences of one number: making it, its file."""

    contenders = {
        "at the peak": lambda: build_ctf_index(on_disk=False),
        "on disk": lambda: build_ctf_index(on_disk=True),
    }
    unit, fresh = "bytes a sequence", True

    def write_data(self) -> None:
        lines = (f"{n} |tokens {n % 97}\n" for n in range(scaled(2_000_000)))
        Path("x.ctf").write_text("".join(lines))

    def setup_cache(self) -> Found:
        return self.compete()
