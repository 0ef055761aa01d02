"""One pass over a corpus whose findings are kept beside the index of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.corpus import Corpus
from sweephand.files.index_file import (
    Index,
    describe_files,
    digest_of,
    index_places,
    keep_index,
    places_to_write,
    read_index,
    to_json,
    trusted_owners,
)
from sweephand.maps.functions import why_undigested
from sweephand.maps.task import Measured
from sweephand.maps.workers import OpenContext
from sweephand.run.locks import held
from sweephand.run.records import pack_block, read_block

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


class PassFindings(NamedTuple):
    """Findings of a pass: of a map the sizes of what it makes."""

    counts: NDArray[np.uint32]  # how many values each sequence has
    values: NDArray[np.uint32]  # those of all sequences
    facts: Mapping[str, Any] = {}  # others, as JSON
    arrays: Mapping[str, NDArray[Any]] = {}  # and as arrays
    path: Path | None = None  # of the index that keeps them


class KeptPass:
    """A pass over all sequences of a corpus in storage order, whose findings have a name.

    Nothing is kept of a pass that met damaged sequences, as they may be mended, and nothing
    without files, or if a function has no digest.
    """

    def __init__(self, corpus: Corpus, opening: OpenContext, name: str) -> None:
        self._ledger = opening.ledger
        self._num_left = self._ledger.num_left
        is_known = not any(map(why_undigested, [name, *corpus.names]))
        self._files = corpus.files if is_known else ()
        self._meaning = {
            "format": "map",
            "version": 2,
            "map": name,
            "of": list(corpus.names),
            "streams": [info.describe() for info in corpus.streams],
            "index": None if corpus.index is None else corpus.index.name,
            "size": [corpus.num_sequences, corpus.core.num_samples],
        }
        self._places = index_places(self._files, self._meaning) if self._files else []

    def recall(self) -> PassFindings | None:
        """Return the findings of an earlier pass, if the files are as they were."""
        for path in self._places:
            content = read_index(path, self._meaning, trusted_owners(self._files[0]))
            if content is not None and list(content.described) == describe_files(self._files):
                arrays = {name: np.array(one) for name, one in content.arrays.items()}
                own = arrays.pop("counts"), arrays.pop("values")
                return PassFindings(*own, content.facts[0], arrays, path)
        return None

    def keep(self, found: PassFindings) -> None:
        if not self._places or self._ledger.num_left < self._num_left:
            return
        others = len(self._files) - 1
        arrays = {"counts": found.counts, "values": found.values, **found.arrays}
        content = Index(
            described=describe_files(self._files),
            facts=[found.facts, *([{}] * others)],
            arrays=arrays,
            starts={
                name: np.array([0, *([len(array)] * (others + 1))], np.int64)
                for name, array in arrays.items()
            },
        )
        owners = trusted_owners(self._files[0])
        keep_index(content, self._meaning, places_to_write(self._places, owners))

    @contextmanager
    def alone(self) -> Iterator[Path | None]:
        """Have one process at a time make them; yields their place, None if there is none."""
        owners = trusted_owners(self._files[0]) if self._files else set()
        with ExitStack() as stack:
            found = None
            for place in places_to_write(self._places, owners):
                with suppress(OSError):  # not writable, or of a file system without locks
                    place.parent.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(held(place.with_name(f"{place.name}.lock")))
                    found = place
                    break
            yield found

    def begun(self, place: Path | None) -> MeasuredSizes:
        """Begin to measure, or go on where a pass over these files was stopped."""
        if place is None:
            return MeasuredSizes(None, b"")
        subject = to_json([self._meaning, describe_files(self._files)])
        path = place.with_name(f"{place.name}.part")
        return MeasuredSizes(path, digest_of(subject).encode())


def batches(
    corpus: Corpus, opening: OpenContext
) -> Iterator[tuple[NDArray[np.uint64], _core.engine.Batch]]:
    """Yield the numbers of sequences, and a batch with about a megabyte of them."""
    samples = batch_samples(corpus)
    for numbers, batch in one_pass(corpus, opening.ledger, samples, load_ahead=True):
        if len(numbers):
            yield numbers, batch


class MeasuredSizes:
    """Sizes of what a map makes, part by part, in a file from which a stopped pass goes on.

    It has blocks of `run/records.py`. The label of the first is what is measured; of others it
    is u32 words: 1 if the map returned lists, the number of sequences, how many values each
    has, and the values. Their payload is what was made, with ``cache=True``.
    """

    def __init__(self, path: Path | None, subject: bytes) -> None:
        self.path = path  # None: none is written
        self.several, self.is_clean = False, True  # as of `Measured`
        self.num_done = 0  # sequences
        self.offsets: list[int] = []  # of the blocks
        self.error: OSError | None = None  # why the file is not written any more
        self._counts = [np.zeros(0, np.uint32)]
        self._sizes = [np.zeros(0, np.uint32)]
        self._file: BufferedRandom | None = None
        try:
            self._go_on(subject)
        except OSError as error:
            self.error = error

    def add(self, part: Measured, packed: bytes = b"") -> None:
        """Add the sizes of the next sequences, and what was made of them."""
        self.is_clean = self.is_clean and part.is_clean
        counts = [len(own) for own in part.sizes]
        values = [size for own in part.sizes for size in own]
        words = np.array([part.several, len(counts), *counts, *values], np.uint32)
        self._note(words)
        if self._file is None or self.error is not None or not self.is_clean:
            return
        begin = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(pack_block(words.astype("<u4").tobytes(), packed))
            self._file.flush()
        except OSError as error:  # a full disk
            self.error = error
        self.offsets.append(begin)

    def findings(self) -> PassFindings:
        facts = {"several": self.several}
        return PassFindings(np.concatenate(self._counts), np.concatenate(self._sizes), facts)

    def keep_as(self, path: Path) -> int:
        """Give the file its name when the disk has it, and return its size."""
        assert self.path is not None
        assert self._file is not None
        os.fsync(self._file.fileno())
        self.path.replace(path)
        return self._file.seek(0, os.SEEK_END)

    def remove(self) -> None:
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _go_on(self, subject: bytes) -> None:
        """Take over what an earlier pass has left, up to the first block that is damaged."""
        if self.path is None:
            return
        self._file = file = self.path.open("a+b")
        file.seek(end := 0)
        with suppress(ValueError):
            if read_block(file)[0] == subject:
                end = file.tell()
                while True:
                    self._note(np.frombuffer(read_block(file)[0], "<u4"))
                    self.offsets.append(end)
                    end = file.tell()
        file.truncate(end)
        if end == 0:
            file.write(pack_block(subject, b""))
            file.flush()

    def _note(self, words: NDArray[np.uint32]) -> None:
        several, count = words[:2].tolist()
        self.several = self.several or bool(several)
        self._counts.append(words[2 : 2 + count])
        self._sizes.append(words[2 + count :])
        self.num_done += count


def batch_samples(corpus: Corpus) -> int:
    """Return how many samples a batch of a pass has."""
    return max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, corpus.sample_bytes)))
