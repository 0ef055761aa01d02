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

from sweephand.base.checks import check_choice
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.format import Wanted
from sweephand.deserializers.tokens import TokenFiles, one_stream
from sweephand.errors import DataError, printable
from sweephand.files.find import find_files, list_paths
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import Files, SourceFile, empty_corpus
from sweephand.files.urls import swap_suffix

_MAGIC = b"MMIDIDX\0\0"
_HEADER = 34
_DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}


@dataclass(frozen=True)
class _Index:
    """Content of an index, checked to be possible."""

    path: str
    dtype: np.dtype[np.generic]  # of the tokens
    # tokens of every sequence, and the byte of `.bin` where it begins
    lengths: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_good: NDArray[np.bool_]  # false for those that are damaged
    bounds: NDArray[np.int64]  # the first sequence of every document, and the end

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


def _read_index(file: SourceFile, data: SourceFile, ledger: Ledger) -> _Index:
    """Read an index and check every number in it before it is used."""
    content = file.read(0, file.size)
    head = content[:_HEADER].tobytes()
    if head[: len(_MAGIC)] != _MAGIC:
        reason = f"no Megatron index: it begins with {head[:9]!r}, not {_MAGIC!r}"
        raise DataError(reason, file.path, 0)
    if len(head) < _HEADER:
        raise DataError(f"its header has {len(head)} bytes of {_HEADER}", file.path, len(head))
    version, code = int.from_bytes(head[9:17], "little"), head[17]
    if version != 1:
        raise DataError(f"version {version} is not supported, only 1", file.path, 9)
    if code not in _DTYPES:
        codes = ", ".join(map(str, _DTYPES))
        raise DataError(f"no tokens have the dtype code {code}, only {codes}", file.path, 17)
    count, num_bounds = np.frombuffer(head, "<u8", 2, 18).tolist()
    size = _HEADER + 12 * count + 8 * num_bounds
    if len(content) not in (size, size + count):
        raise DataError(
            f"{count} sequences and {num_bounds} document bounds take {size} bytes, or "
            f"{size + count} with modes, there are {len(content)}",
            file.path,
            min(size, len(content)),
        )
    bounds_at = _HEADER + 12 * count
    index = _Index(
        path=file.path,
        dtype=np.dtype(_DTYPES[code]),
        lengths=np.frombuffer(content, "<i4", count, _HEADER).astype(np.int64),
        offsets=np.frombuffer(content, "<i8", count, _HEADER + 4 * count).astype(np.int64),
        is_good=np.ones(count, np.bool_),
        bounds=np.frombuffer(content, "<i8", num_bounds, bounds_at).astype(np.int64),
    )
    ends = np.append(index.bounds[1:], count)
    is_wrong = index.bounds > ends[:num_bounds]
    is_wrong[:1] |= index.bounds[:1] != 0
    is_wrong[-1:] |= index.bounds[-1:] != count
    if not num_bounds or is_wrong.any():
        at = int(is_wrong.argmax()) if num_bounds else 0
        raise DataError(
            f"document bound {at} of {num_bounds} is wrong: they ascend from 0 to the number "
            f"of sequences, {count}",
            file.path,
            bounds_at + 8 * at,
        )
    _check_sequences(index, data.size, ledger)
    return index


def _check_sequences(index: _Index, data_size: int, ledger: Ledger) -> None:
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
    reason = f"the offset is negative, or no multiple of the {item} bytes of a token"
    refuse((offsets < 0) | (offsets % item != 0), reason, offsets_at, 8)
    reason = f"the sequence ends after the {data_size} bytes of the .bin file"
    refuse((offsets > data_size) | (sizes > data_size - offsets), reason, offsets_at, 8)
    good = np.flatnonzero(is_good)  # in any order, as in merged sets
    good = good[np.argsort(offsets[good], kind="stable")]
    ends = np.maximum.accumulate(offsets[good] + sizes[good])
    overlaps = np.zeros(len(lengths), np.bool_)
    overlaps[good[1:]] = offsets[good[1:]] < ends[:-1]
    refuse(overlaps, "the sequence overlaps another one", offsets_at, 8)
    used = int(sizes[is_good].sum())
    if used < data_size:
        warnings.warn(
            f"{data_size - used} bytes of the .bin file of {printable(index.path)} belong to "
            "no sequence",
            stacklevel=2,
        )


class MegatronDeserializer(TokenFiles):
    """Serve tokens that Megatron's tools prepared, without converting them.

    They are read as by `RawTokensDeserializer`. The begin of each sequence is kept in memory,
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
    chunk_size_in_bytes : int, optional
        As in `RawTokensDeserializer`.

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
        chunk_size_in_bytes: int | None = None,
    ) -> None:
        super().__init__(streams, chunk_size_in_bytes)
        check_choice("unit", unit, "sequence", "document")
        self._unit = unit
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
            _read_index(index, data, ledger)
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
        lengths, are_served, pieces = zip(*served, strict=True)
        skipped = np.flatnonzero(~np.concatenate(are_served))
        return self.make_corpus(indexes[0].dtype, pieces, lengths, skipped)


def _beside(spec: str, suffix: str) -> str:
    return swap_suffix(spec, suffix, known=(".idx", ".bin"))


def _index_of(path: AnyPath) -> AnyPath:
    name = _beside(path.name, ".idx")
    return path if path.name == name else path.with_name(name)


def open_pairs(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of pairs of files."""
    indexes = list(dict.fromkeys(_index_of(file) for file in files))  # of pairs one each
    return MegatronDeserializer(indexes, wanted.choose(partial(one_stream, None)))
