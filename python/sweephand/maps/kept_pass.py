"""One pass over a corpus whose findings are kept beside the index of its files.

They lie in an index of their own. While a map is measured, a file grows there, in blocks of
`run/records.py`, from which a pass that was stopped goes on::

    first block   label: digest of the meaning and the files, 32 hex digits
    other blocks  label: u32, little endian; 1 if the map returned lists, of how many sequences
                  it is, of each of them how many are made of it, and the sizes of those
                  payload: what was made, as a file of NumPy's arrays, with ``cache=True``
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.corpus import Corpus
from sweephand.files.index_arrays import IndexContent, digest_of, read_index, to_json
from sweephand.files.index_file import (
    describe_files,
    index_places,
    keep_index,
    places_to_write,
    trusted_owners,
)
from sweephand.maps.digests import why_undigested
from sweephand.maps.task import Measured
from sweephand.maps.workers import OpenContext
from sweephand.run.locks import wait_for_lock
from sweephand.run.records import AppendedFile, RecordKind, pack_block, resume

MEASURED = RecordKind(b"SWEEPMSR", 2, "file of a map", "delete it, and it is made again")

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


class PassFindings(NamedTuple):
    """Findings of a pass: of a map the sizes of what it makes."""

    counts: NDArray[np.uint32]  # how many values each sequence has
    values: NDArray[np.uint32]  # those of all sequences
    facts: Mapping[str, Any] = {}  # others, as JSON
    arrays: Mapping[str, NDArray[Any]] = {}  # and as arrays
    path: Path | None = None  # of the index that keeps them

    @classmethod
    def one_each(cls, values: NDArray[np.uint32], **facts: Any) -> PassFindings:
        """Return one value of each sequence."""
        return cls(np.ones(len(values), np.uint32), values, facts)


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
        """Keep the findings of the pass."""
        if not self._places or self._ledger.num_left < self._num_left:
            return
        others = len(self._files) - 1
        arrays = {"counts": found.counts, "values": found.values, **found.arrays}
        content = IndexContent(
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
    def begin(self) -> Iterator[UnfinishedPass]:
        """Resume a pass that was stopped, or begin a new pass; finished parts stay."""
        unfinished = UnfinishedPass(self._place_to_write())
        with ExitStack() as stack:
            try:
                if unfinished.place is not None:
                    lock = wait_for_lock(unfinished.path)
                    unfinished.file = stack.enter_context(closing(AppendedFile(lock)))
                    unfinished.found = self.recall()  # another process may have made it
                    if unfinished.found is None:
                        described = to_json([self._meaning, describe_files(self._files)])
                        unfinished.resume(digest_of(described).encode())
            except OSError as error:  # writing is not allowed here, or a full disk
                unfinished.error = error
            yield unfinished
            if unfinished.found is not None or unfinished.error or unfinished.is_over:
                unfinished.remove()

    def _place_to_write(self) -> Path | None:
        """Return where findings are written first; None if there is no such place."""
        for path in self._places:
            if places_to_write([path], trusted_owners(self._files[0])):
                with suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if os.access(path.parent, os.W_OK):
                        return path
        return None


def batches(
    corpus: Corpus, opening: OpenContext
) -> Iterator[tuple[NDArray[np.uint64], _core.engine.Batch]]:
    """Yield the numbers of sequences, and a batch with about a megabyte of them."""
    samples = batch_samples(corpus)
    for numbers, batch in one_pass(corpus, opening.ledger, samples, load_ahead=True):
        if len(numbers):
            yield numbers, batch


class UnfinishedPass:
    """A pass that is under way, and its file; `found` is all of it, if it is kept."""

    def __init__(self, place: Path | None) -> None:
        self.place = place  # of its index
        self.file: AppendedFile | None = None
        self.found: PassFindings | None = None
        self.error: OSError | None = None  # why it is not written
        self.is_clean, self.is_over = True, False  # whether its file is of no use any more
        self.offsets: list[int] = []  # of what is written, in bytes
        self.num_done = 0  # sequences
        self._several = False
        self._counts: list[NDArray[np.uint32]] = []
        self._sizes: list[NDArray[np.uint32]] = []

    @property
    def path(self) -> Path:
        """The path of its file."""
        assert self.place is not None
        return self.place.with_name(f"{self.place.name}.part")

    def resume(self, subject: bytes) -> None:
        """Go on with what the file has."""
        assert self.file is not None
        for block in resume(self.file, MEASURED, subject):
            several, count, *_ = words = np.frombuffer(block.label, "<u4")
            self.offsets.append(block.begin)
            self._note(bool(several), words[2 : 2 + count], words[2 + count :])

    def add(self, part: Measured, packed: bytes = b"") -> None:
        """Add the results of the next sequences, and what was made, if it is to be kept."""
        counts = np.array([len(own) for own in part.sizes], np.uint32)
        sizes = np.array([size for own in part.sizes for size in own], np.uint32)
        self._note(part.several, counts, sizes)
        self.is_clean = self.is_clean and part.is_clean
        if self.file is None or self.error is not None or not self.is_clean:
            return
        label = np.concatenate([[part.several, len(counts)], counts, sizes]).astype("<u4")
        begin = self.file.end
        try:
            self.file.append(pack_block(label.tobytes(), packed))
        except OSError as error:  # a full disk: it is measured all the same
            self.error = error
        else:
            self.offsets.append(begin)

    def findings(self) -> PassFindings:
        """Return all that was measured."""
        return PassFindings(
            np.concatenate([np.zeros(0, np.uint32), *self._counts]),
            np.concatenate([np.zeros(0, np.uint32), *self._sizes]),
            {"several": self._several},
        )

    def remove(self) -> None:
        """Remove its file, if it has one."""
        if self.place is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _note(
        self, several: bool, counts: NDArray[np.uint32], sizes: NDArray[np.uint32]
    ) -> None:
        self._several = self._several or several
        self._counts.append(counts)
        self._sizes.append(sizes)
        self.num_done += len(counts)


def batch_samples(corpus: Corpus) -> int:
    """Return how many samples a batch of a pass has."""
    return max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, corpus.sample_bytes)))
