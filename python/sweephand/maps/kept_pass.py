"""One pass over a corpus whose findings are kept beside the index of its files.

They lie in an index of their own. While a map is measured, a file grows there, in blocks of
`run/records.py`, from which a pass that was stopped goes on::

    first block   label: digest of the meaning and the files, 32 hex digits
    other blocks  payload: u32, little endian; of every sequence how many are made of it, and
                  their sizes
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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
from sweephand.files.source_file import SourceFile
from sweephand.maps.digests import why_undigested
from sweephand.maps.workers import OpenContext
from sweephand.run.locks import wait_for_lock
from sweephand.run.records import AppendedFile, RecordKind, pack_block, resume

MEASURED = RecordKind(b"SWEEPMSR", 1, "file of measured sizes", "delete it")


class Sizes(NamedTuple):
    """Sizes of the results of a map."""

    counts: NDArray[np.uint32]  # how many sequences it makes of each
    sizes: NDArray[np.uint32]
    several: bool  # it returns lists


@dataclass(frozen=True)
class MeasuredStore:
    """The place of a map's measurements of files; without files there is none."""

    files: Sequence[SourceFile]
    meaning: Mapping[str, Any]  # all that decides what is measured, as JSON
    num_sequences: int

    @classmethod
    def of(cls, corpus: Corpus, fingerprint: str) -> MeasuredStore:
        """Return the place of a map's or filter's measurements of a corpus."""
        meaning = {
            "format": "map",
            "map": fingerprint,
            "of": list(corpus.names),
            "streams": [info.describe() for info in corpus.streams],
            "index": None if corpus.index is None else corpus.index.name,
            "size": [corpus.num_sequences, corpus.core.num_samples],
        }
        is_known = not any(map(why_undigested, [fingerprint, *corpus.names]))
        return cls(corpus.files if is_known else (), meaning, corpus.num_sequences)

    def read(self) -> Sizes | None:
        """Return the kept sizes, if they belong to the files as they are."""
        found = self.read_index()
        return None if found is None else found[1]

    def read_index(self) -> tuple[IndexContent, Sizes, Path] | None:
        """Return the kept sizes, with their other arrays and their path."""
        for path in self.places:
            content = read_index(path, self.meaning, trusted_owners(self.files[0]))
            if content is None or list(content.described) != describe_files(self.files):
                continue
            counts, sizes = content.arrays["counts"], content.arrays["sizes"]
            several = content.facts[0].get("several")
            if (
                isinstance(several, bool)
                and counts.shape == (self.num_sequences,)
                and sizes.shape == (int(counts.sum(dtype=np.uint64)),)
                and counts.dtype == sizes.dtype == np.uint32
                and (sizes > 0).all()
            ):
                return content, Sizes(np.array(counts), np.array(sizes), several), path
        return None

    @contextmanager
    def begin(self) -> Iterator[MeasuringPass]:
        """Resume a pass that was stopped, or begin a new pass; finished parts stay."""
        place = self.place_to_write()
        if place is None:
            yield MeasuringPass(self, None, [])
            return
        path = place.with_name(f"{place.name}.part")
        try:
            file = AppendedFile(wait_for_lock(path))
        except OSError:  # writing is not allowed here
            yield MeasuringPass(self, None, [])
            return
        with closing(file):
            found = self.read()  # another process may have measured meanwhile
            if found is not None:
                yield MeasuringPass(self, None, [], found)
                path.unlink(missing_ok=True)
                return
            try:
                blocks = resume(file, MEASURED, self.digest.encode())
            except OSError:  # a full disk
                yield MeasuringPass(self, None, [])
                return
            content = file.content()
            words = [np.frombuffer(one.payload(content), "<u4").tolist() for one in blocks]
            progress = MeasuringPass(self, file, [word for block in words for word in block])
            yield progress
            if progress.is_finished:
                path.unlink(missing_ok=True)

    def keep(
        self,
        sizes: Sizes,
        arrays: Mapping[str, NDArray[Any]] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the measurements, with optional arrays and facts, if there is a place."""
        if not self.places:
            return
        counts, own, several = sizes
        num_files = len(self.files)
        whole = {"counts": counts, "sizes": own, **(arrays or {})}
        content = IndexContent(
            described=describe_files(self.files),
            facts=[{"several": several, **(facts or {})}, *([{}] * (num_files - 1))],
            arrays=whole,
            starts={
                name: np.array([0, *([len(array)] * num_files)], np.int64)
                for name, array in whole.items()
            },
        )
        owners = trusted_owners(self.files[0])
        keep_index(content, self.meaning, places_to_write(self.places, owners))

    @property
    def digest(self) -> str:
        """Digest of the map and the files that are measured."""
        return digest_of(to_json([self.meaning, describe_files(self.files)]))

    @property
    def places(self) -> list[Path]:
        """Places for it, the best first."""
        return index_places(self.files, self.meaning) if self.files else []

    def place_to_write(self) -> Path | None:
        """Return where it is written first; None if there is no such place."""
        if not self.files:
            return None
        for path in places_to_write(self.places, trusted_owners(self.files[0])):
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                if os.access(path.parent, os.W_OK):
                    return path
        return None


class MeasuringPass:
    """Progress of a measuring pass; `found` is all of it, if it is kept."""

    def __init__(
        self,
        store: MeasuredStore,
        file: AppendedFile | None,
        words: list[int],
        found: Sizes | None = None,
    ) -> None:
        self.found = found
        self._store = store
        self._file = file
        self._counts: list[int] = []
        self._sizes: list[int] = []
        self._several = False
        self._is_clean = True
        self.is_finished = False
        at = 0
        while at < len(words):
            self._counts.append(words[at] & _COUNT)
            self._several = self._several or bool(words[at] & _LIST)
            self._sizes += words[at + 1 : at + 1 + self._counts[-1]]
            at += 1 + self._counts[-1]

    @property
    def num_done(self) -> int:
        """Sequences that are measured."""
        return len(self._counts)

    def add(self, sizes: Sequence[Sequence[int]], *, several: bool, is_clean: bool) -> None:
        """Add the sizes of the results of the next sequences."""
        self._several = self._several or several
        self._is_clean = self._is_clean and is_clean
        words: list[int] = []
        mark = _LIST if several else 0
        for own in sizes:
            self._counts.append(len(own))
            self._sizes += own
            words += [len(own) | mark, *own]
        if self._file is not None and self._is_clean and words:
            try:
                self._file.append(pack_block(b"", np.array(words, "<u4").tobytes()))
            except OSError:  # a full disk: it is measured all the same
                self._file = None

    def finish(self) -> Sizes:
        """Return all that was measured, and keep it if nothing was damaged."""
        counts, sizes = (np.array(one, np.uint32) for one in (self._counts, self._sizes))
        found = Sizes(counts, sizes, self._several)
        if self._is_clean:
            self._store.keep(found)
            self.is_finished = True
        return found


_LIST = 1 << 31  # beside a count: the map returned a list
_COUNT = _LIST - 1


_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


class PassFindings(NamedTuple):
    """Findings of a pass."""

    counts: NDArray[np.uint32]  # how many values each sequence has
    values: NDArray[np.uint32]  # those of all sequences, below 2^32 - 1
    facts: Mapping[str, Any] = {}  # others, as JSON
    arrays: Mapping[str, NDArray[Any]] = {}  # and as arrays


class KeptPass:
    """A pass over all sequences of a corpus in storage order.

    Nothing is kept of a pass that met damaged sequences, as they may be mended.
    """

    def __init__(self, corpus: Corpus, opening: OpenContext) -> None:
        self._corpus, self._ledger = corpus, opening.ledger
        self._num_errors = len(self._ledger.errors)

    def recall(self, name: str) -> PassFindings | None:
        """Return the findings of an earlier pass, if the files are as they were."""
        kept = MeasuredStore.of(self._corpus, name).read_index()
        if kept is None:
            return None
        content, (counts, sizes, _), _ = kept
        return PassFindings(counts, sizes - np.uint32(1), content.facts[0], content.arrays)

    def batches(self) -> Iterator[tuple[NDArray[np.uint64], _core.engine.Batch]]:
        """Yield the numbers of sequences, and a batch with about a megabyte of them."""
        samples = max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, self._corpus.sample_bytes)))
        for numbers, batch in one_pass(self._corpus, self._ledger, samples, load_ahead=True):
            if len(numbers):
                yield numbers, batch

    def keep(
        self,
        name: str,
        values: NDArray[np.uint32],
        counts: NDArray[np.uint32] | None = None,
        facts: Mapping[str, Any] | None = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Keep the findings of the pass, by default one value of each sequence."""
        if len(self._ledger.errors) == self._num_errors:
            counts = np.ones(len(values), np.uint32) if counts is None else counts
            sizes = values + np.uint32(1)  # no size is 0
            store = MeasuredStore.of(self._corpus, name)
            store.keep(Sizes(counts, sizes, False), arrays, facts)
