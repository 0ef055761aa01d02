"""Megatron's indexed datasets: pairs of a ``.bin`` and an ``.idx`` file, read in place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.formats import Wanted
from sweephand.deserializers.megatron_index import read_index
from sweephand.deserializers.units.tokens import (
    check_chunk_bytes,
    one_stream,
    open_tokens,
)
from sweephand.errors import DataError
from sweephand.files.find import find_files, list_paths
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import Files, empty_corpus
from sweephand.files.urls import swap_suffix


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
        units = [index.units(self._unit, ledger) for index in indexes]
        pieces = [
            np.insert(index.pieces(unit.sequences), 0, number, axis=1)
            for number, (index, unit) in enumerate(zip(indexes, units, strict=True))
        ]
        is_served = np.concatenate([unit.is_served for unit in units])
        lengths = np.where(is_served, np.concatenate([unit.lengths for unit in units]), 0)
        starts = offsets_of([len(unit.lengths) for unit in units])
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
