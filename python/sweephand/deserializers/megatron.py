"""Megatron's indexed datasets: pairs of a ``.bin`` and an ``.idx`` file, read in place.

::

    .bin   tokens | tokens | tokens | ...            bare numbers, nothing between them
    .idx   "MMIDIDX" 0 0 | u64 version 1 | u8 dtype | u64 S sequences | u64 D bounds
           | i32 length[S] | i64 offset[S] | i64 first sequence of document[D] | i8 mode[S]

Numbers are little endian; modes may be absent. A document is a run of sequences; the last bound
is S, so that there are D - 1 documents. https://github.com/NVIDIA/Megatron-LM,
megatron/core/datasets/indexed_dataset.py
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.format import Wanted
from sweephand.deserializers.tokens import check_chunk_bytes, one_stream, open_tokens
from sweephand.errors import DataError, printable
from sweephand.files.find import find_files, list_paths
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import Files, SourceFile, empty_corpus
from sweephand.files.urls import swap_suffix

_MAGIC = b"MMIDIDX\0\0"
_LEGACY_MAGIC = b"TNTIDX\0\0"
_HEADER = 34
_DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}
_FLOATS = {6: "float64", 7: "float32"}


@dataclass(frozen=True)
class MegatronIndex:
    """Content of the index, checked to be possible."""

    path: str
    dtype: np.dtype[np.generic]  # of the tokens
    # tokens of every sequence, and the byte of `.bin` where it begins
    lengths: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_good: NDArray[np.bool_]  # false for those that are damaged
    bounds: NDArray[np.int64]  # the first sequence of every document, and the end

    def fills(self, data_size: int) -> bool:
        """Return True if the sequences are consecutive and fill the file.

        So it is in nearly every index; others are looked at number by number.
        """
        if not self.lengths.size or self.lengths.min() < 0:
            return False
        ends = self.offsets + self.lengths * self.dtype.itemsize
        return bool(
            self.offsets[0] == 0
            and ends[-1] == data_size
            and np.array_equal(self.offsets[1:], ends[:-1])
        )

    def serve(
        self, unit: str, ledger: Ledger
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Return the tokens of each sequence or document, which are served, and their pieces.

        Those without tokens go into the ledger. A piece is its offset and size in bytes.
        """
        lengths, is_good = self.lengths, self.is_good
        if unit == "document":
            starts = offsets_of(np.where(is_good, lengths, 0))
            bad = offsets_of((~is_good).astype(np.int64))
            lengths, is_good = np.diff(starts[self.bounds]), np.diff(bad[self.bounds]) == 0
        is_served = is_good & (lengths > 0)
        for number in np.flatnonzero(is_good & ~is_served).tolist():
            ledger.add(DataError(f"the {unit} has no tokens", self.path, sequence=number))
        is_used = is_served
        if unit == "document":
            is_used = np.repeat(is_served, np.diff(self.bounds))
        begins = self.offsets[is_used]
        ends = begins + self.lengths[is_used] * self.dtype.itemsize
        first = np.flatnonzero(np.append(True, begins[1:] != ends[:-1])[: len(begins)])
        last = np.append(first[1:], len(begins))[: len(first)] - 1
        pieces = np.stack([begins[first], ends[last] - begins[first]], axis=1)
        return np.where(is_served, lengths, 0), is_served, pieces


def read_index(
    file: SourceFile, data: SourceFile, ledger: Ledger, *, any_order: bool
) -> MegatronIndex:
    """Read an index and check every number in it before it is used."""
    content = file.read(0, file.size)
    dtype, num_sequences, num_bounds = _read_header(content[:_HEADER].tobytes(), file.path)
    lengths, offsets, bounds = _read_sections(content, file.path, num_sequences, num_bounds)
    _check_bounds(bounds, num_sequences, file.path)
    index = MegatronIndex(
        path=file.path,
        dtype=dtype,
        lengths=lengths.astype(np.int64),
        offsets=offsets.astype(np.int64),
        is_good=np.ones(num_sequences, np.bool_),
        bounds=bounds.astype(np.int64),
    )
    if index.fills(data.size):
        return index
    _check_sequences(index, data.size, ledger, any_order=any_order)
    used = int(index.lengths[index.is_good].sum()) * dtype.itemsize
    if used < data.size:
        warnings.warn(
            f"{data.size - used} bytes of {printable(data.path)} belong to no sequence",
            UserWarning,
            stacklevel=2,
        )
    return index


def _read_header(content: bytes, path: str) -> tuple[np.dtype[np.generic], int, int]:
    if content[: len(_LEGACY_MAGIC)] == _LEGACY_MAGIC:
        raise DataError(
            "this is the legacy format TNTIDX; prepare the data again by Megatron's tools",
            path,
            0,
        )
    if content[: len(_MAGIC)] != _MAGIC[: len(content)] or not content:
        raise DataError(
            f"no Megatron index: it begins with {content[:9]!r}, not {_MAGIC!r}", path, 0
        )
    if len(content) < _HEADER:
        raise DataError(
            f"the file ends in its header of {_HEADER} bytes, there are {len(content)}",
            path,
            len(content),
        )
    version = int.from_bytes(content[9:17], "little")
    if version != 1:
        raise DataError(f"version {version} is not supported, only 1", path, 9)
    code = content[17]
    if code in _FLOATS:
        raise DataError(f"the elements are {_FLOATS[code]}, which are no tokens", path, 17)
    if code not in _DTYPES:
        raise DataError(f"there is no dtype code {code}; there are 1 to 8", path, 17)
    counts = np.frombuffer(content, "<u8", 2, 18).tolist()
    return np.dtype(_DTYPES[code]), counts[0], counts[1]


def _read_sections(
    content: NDArray[np.uint8], path: str, num_sequences: int, num_bounds: int
) -> list[NDArray[np.signedinteger]]:
    sections = []
    end = _HEADER
    for name, dtype, count in (
        ("lengths", "<i4", num_sequences),
        ("offsets", "<i8", num_sequences),
        ("document bounds", "<i8", num_bounds),
    ):
        begin, end = end, end + count * np.dtype(dtype).itemsize
        if end > len(content):
            raise DataError(
                f"the file ends in its section of {name}: {count} of them end at byte {end}, "
                f"there are {len(content)}",
                path,
                len(content),
            )
        sections.append(np.frombuffer(content, dtype, count, begin))
    if len(content) not in (end, end + num_sequences):
        raise DataError(
            f"{len(content) - end} bytes follow the document bounds; there may be one per "
            f"sequence, {num_sequences}, or none",
            path,
            end,
        )
    return sections


def _check_bounds(bounds: NDArray[np.signedinteger], num_sequences: int, path: str) -> None:
    """Refuse bounds that do not ascend from 0 to the number of sequences."""
    is_wrong = np.diff(bounds, prepend=0) < 0
    is_wrong[:1] |= bounds[:1] != 0
    is_wrong[-1:] |= bounds[-1:] != num_sequences
    if not bounds.size or is_wrong.any():
        at = int(is_wrong.argmax()) if bounds.size else 0
        found = f"bound {at} is {bounds[at]}" if bounds.size else "there is none"
        raise DataError(
            f"the document bounds do not ascend from 0 to the number of sequences, "
            f"{num_sequences}: {found}",
            path,
            _HEADER + 12 * num_sequences + 8 * at,
        )


def _check_sequences(
    index: MegatronIndex, data_size: int, ledger: Ledger, *, any_order: bool
) -> None:
    """Take out the sequences that cannot be, one reason after the other."""
    lengths, offsets, is_good = index.lengths, index.offsets, index.is_good
    item = index.dtype.itemsize
    sizes = lengths * item  # at most 2^31 * 8: no overflow
    offsets_at = _HEADER + 4 * len(lengths)

    def refuse(is_wrong: NDArray[np.bool_], reason: str, begin: int, step: int) -> None:
        wrong = np.flatnonzero(is_wrong & is_good)
        for number in wrong.tolist():
            ledger.add(DataError(reason, index.path, begin + step * number, sequence=number))
        is_good[wrong] = False

    refuse(lengths < 0, "the length is negative", _HEADER, 4)
    refuse(offsets < 0, "the offset is negative", offsets_at, 8)
    reason = f"the offset is no multiple of the {item} bytes of a token"
    refuse(offsets % item != 0, reason, offsets_at, 8)
    reason = f"the sequence ends after the {data_size} bytes of the .bin file"
    refuse((offsets > data_size) | (sizes > data_size - offsets), reason, offsets_at, 8)
    good = np.flatnonzero(is_good)
    reason = (
        "the sequence begins before the end of an earlier one; any_order=True accepts another "
        "order, without overlaps"
    )
    if any_order:
        good = good[np.argsort(offsets[good], kind="stable")]
        reason = "the sequence overlaps another one"
    ends = np.maximum.accumulate(offsets[good] + sizes[good])
    overlaps = np.zeros(len(lengths), np.bool_)
    overlaps[good[1:]] = offsets[good[1:]] < ends[:-1]
    refuse(overlaps, reason, offsets_at, 8)


class MegatronDeserializer(Deserializer):
    """Serve tokens that Megatron's tools prepared, without converting them.

    Local files are mapped into memory and read in place, in any order. With a window of the
    source they are read in chunks that are held, as remote files always are. A file that is cut
    or changed meanwhile is an error, not a crash. The begin of each sequence is kept in memory,
    in 8 bytes.

    Parameters
    ----------
    prefix_or_prefixes : str, path, or sequence of them
        Paths, globs or URLs, without ``.bin`` and ``.idx``, or with one of them.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "tokens"; by default it has that name too.
    unit : {"sequence", "document"}
        The unit of a sequence: an entry of the index, which is a sentence or a document by
        decision of the preparer, or all entries of a document.
    any_order : bool
        Accept entries that are not in ascending order in ``.bin``, as in merged sets. They must
        not overlap in any case.
    chunk_size_in_bytes : int, optional
        Bytes in a chunk, the unit that a window shuffles and a store is asked for; by default 8
        MiB of local files and 1 MiB of those in a store.

    Raises
    ------
    FileNotFoundError
        If one of the two files is absent.
    DataError
        If a header field, a length, an offset or a document bound cannot be, naming it.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.MegatronDeserializer("corpus_text_document")  # doctest: +SKIP
    """

    def __init__(
        self,
        prefix_or_prefixes: Files,
        streams: StreamsLike | None = None,
        *,
        unit: Literal["sequence", "document"] = "sequence",
        any_order: bool = False,
        chunk_size_in_bytes: int | None = None,
    ) -> None:
        self._chunk_bytes = check_chunk_bytes(chunk_size_in_bytes)
        if unit not in ("sequence", "document"):
            raise ValueError(f"unit must be 'sequence' or 'document', got {unit!r}")
        self._streams = one_stream(streams)
        self._unit = unit
        self._any_order = any_order
        given = list_paths(prefix_or_prefixes)
        indexes = find_files([_beside(os.fspath(one), ".idx") for one in given]).files
        files = find_files([_beside(file.spec, ".bin") for file in indexes]).files
        pairs = [
            pair for pair in zip(indexes, files, strict=True) if pair[0].size or pair[1].size
        ]
        if not pairs:
            raise empty_corpus([file.path for file in files])
        self._indexes, self.files = map(list, zip(*pairs, strict=True))

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        indexes = [
            read_index(index, data, ledger, any_order=self._any_order)
            for index, data in zip(self._indexes, self.files, strict=True)
        ]
        for index in indexes[1:]:
            if index.dtype != indexes[0].dtype:
                raise DataError(
                    f"the tokens are {index.dtype} here and {indexes[0].dtype} in "
                    f"{indexes[0].path}; all files of a corpus must agree",
                    index.path,
                )
        served = [index.serve(self._unit, ledger) for index in indexes]
        lengths, is_served = (np.concatenate([one[at] for one in served]) for at in (0, 1))
        pieces = [np.insert(one[2], 0, number, axis=1) for number, one in enumerate(served)]
        starts = offsets_of([len(one[0]) for one in served])
        return open_tokens(
            self._streams,
            ShardIds([file.name for file in self.files], starts.tolist()),
            self.files,
            np.concatenate(pieces).astype(np.uint64),
            offsets_of(lengths),
            indexes[0].dtype,
            skipped=np.flatnonzero(~is_served),
            chunk_size_in_bytes=self._chunk_bytes,
        )

    def _description(self) -> str:
        return brief([file.name for file in self.files], self._streams)


def _beside(spec: str, suffix: str) -> str:
    return swap_suffix(spec, suffix, known=(".idx", ".bin"))


def _index_of(path: AnyPath) -> AnyPath:
    name = _beside(path.name, ".idx")
    return path if path.name == name else path.with_name(name)


def open_pairs(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of pairs of files."""
    indexes = list(dict.fromkeys(_index_of(file) for file in files))  # of pairs one each
    return MegatronDeserializer(indexes, wanted.choose(partial(one_stream, None)))
