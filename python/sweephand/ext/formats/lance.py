"""Lance datasets, read fragment by fragment by Lance itself.

::

    train.lance/_versions   what each version consists of: fragments, and rows deleted in them
    train.lance/data        the columns of fragments; a file never changes

https://lance.org/format
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sweephand import DataError, StreamDefs
from sweephand.ext.formats.lance_reader import (
    bytes_per_row,
    check_process,
    data_files,
    lance,
    lance_errors,
    open_dataset,
)
from sweephand.extend import (
    Advance,
    AnyPath,
    ArrowUnits,
    Columns,
    Facts,
    FileList,
    Index,
    Keep,
    Ledger,
    RowIds,
    SourceFile,
    StoredCorpus,
    StreamsLike,
    UnitScan,
    check_row_runs,
    empty_batch,
    is_url,
    spec_of,
    splits_of,
    stat_file,
    streams_of,
)

_UNIT_BYTES = 1 << 20


class LanceDeserializer(ArrowUnits):
    """Serve the rows of a Lance dataset, each a sequence.

    Columns become streams as in `ParquetDeserializer`. The version is fixed when the corpus is
    made: rows that are added or deleted later change nothing in it, and it is part of a state,
    so that a resume with another one is refused. The lengths of lists are learnt once, fragment
    by fragment, and kept in an index; a chunk is about 8 MiB of the columns that are asked for.

    Parameters
    ----------
    source : path, or LanceDataset
        A folder of this machine, or the dataset that ``lance.dataset`` opened there, at its
        version.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        As in `ParquetDeserializer`.
    version : int or str, optional
        The number of a version, or a tag; by default the newest.
    index : {"auto", "cache", None}
        Place of the index: in the folder, or in a cache folder if that is not writable; only in
        the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        As in `ParquetDeserializer`.

    Attributes
    ----------
    version : int
        The version of the served rows.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ImportError
        If Lance is not installed.
    DataError
        If there is no such version, or it is damaged; else as in `ParquetDeserializer`. Lance's
        files have no checksums of their values.
    RuntimeError
        If a forked process reads a source that its parent has begun: Lance's threads do not
        fork.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.LanceDeserializer("train.lance", version=3)  # doctest: +SKIP
    """

    format = "lance 1"
    decoder = lance

    def __init__(
        self,
        source: Any,
        streams: StreamsLike | None = None,
        *,
        version: int | str | None = None,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        lance()  # says what to install
        if hasattr(source, "get_fragments"):
            source, version = source.uri, source.version
        self._root = spec_of(source).removeprefix("file://").rstrip(os.sep)
        if is_url(self._root):
            raise ValueError(
                f"{self._root!r}: Lance datasets of a store are not read; copy it to a disk"
            )
        if not os.path.isdir(self._root):  # noqa: PTH112 - as spec_of
            raise FileNotFoundError(2, "there is no such folder of Lance", self._root)
        self._opened: Any = open_dataset(self._root, version)
        self.version: int = self._opened.version
        files, self._fragments, changed = self._list_fragments()
        # Files never change; other conditions of the rows are part of the index's meaning.
        self.options = {"changed": changed}
        super().__init__(files, streams, index=index, ids=ids)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that open the same version in another process."""
        return {**super().__getstate__(), "_opened": None}

    def _dataset(self) -> Any:
        check_process()
        if self._opened is None:
            self._opened = open_dataset(self._root, self.version)
        return self._opened

    def _schema(self) -> Any:
        with lance_errors(self._root, "the schema"):
            return self._dataset().schema

    def _list_fragments(self) -> tuple[FileList, dict[str, int], list[list[str]]]:
        """Return a file for each fragment, the fragments' numbers, and the changed files."""
        name = os.path.basename(self._root)  # noqa: PTH119 - as spec_of
        files: list[SourceFile] = []
        numbers = {}
        changed = []
        with lance_errors(self._root, "the list of fragments"):
            fragments = self._dataset().get_fragments()
        for fragment in fragments:
            paths = data_files(self._root, fragment)
            number = fragment.fragment_id
            files.append(replace(stat_file(paths[0]), name=f"{name}/{number}"))
            numbers[paths[0]] = number
            deleted = fragment.metadata.deletion_file
            if len(paths) > 1 or deleted is not None:
                changed.append([*paths[1:], str(deleted)])
        if not files:
            raise DataError(f"version {self.version} has no rows", self._root)
        return FileList(files, []), numbers, changed

    def guess_streams(self) -> StreamDefs:
        """Return the columns of the schema that can be served."""
        streams, self.left_out = streams_of(self._schema(), self._root)
        return streams

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        corpus = super().open(ledger)
        return replace(corpus, names=[f"version {self.version}", *corpus.names])

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read the columns of lists once, by units of about a MiB."""
        scan = UnitScan()
        dataset = self._dataset()
        self.add_kinds(scan, self._schema(), file.path)
        fragment = dataset.get_fragment(self._fragments[file.path])
        with lance_errors(file.path, "the fragment"):
            num_rows = fragment.count_rows()
            columns = self._columns(list(self.definitions))
            row_bytes = bytes_per_row(self._root, dataset, fragment, columns)
        streams = [name for name, kind in scan.kinds.items() if kind.is_ragged]
        step = max(1, int(_UNIT_BYTES / max(1.0, row_bytes)))
        units = [[at, min(at + step, num_rows)] for at in range(0, num_rows, step)]
        scan.facts = {"units": units}
        for begin, end in units:
            size = end - begin, int(row_bytes * (end - begin))
            read = partial(self._read, file, begin, end)
            self.add_unit(scan, size, streams, read, file.path)
            advance(file.size * (end - begin) // num_rows)
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read rows of a fragment."""
        file.check_unchanged()  # Lance opens it by its name
        first, stop = facts["units"][begin][0], facts["units"][end - 1][1]
        return self.to_columns(self._read(file, first, stop, list(self.definitions)), file.path)

    def check_facts(self, index: Index) -> None:
        """Refuse units that are not consecutive runs of rows."""
        check_row_runs(index)

    def _read(
        self, file: SourceFile, begin: int, end: int, streams: Sequence[str]
    ) -> list[Any]:
        what = f"rows {begin} to {end - 1}"
        dataset = self._dataset()
        with lance_errors(file.path, what):
            fragment = dataset.get_fragment(self._fragments[file.path])
            batches = list(
                fragment.to_batches(
                    columns=self._columns(streams), offset=begin, limit=end - begin
                )
            )
        found = sum(batch.num_rows for batch in batches)
        if found != end - begin:
            raise DataError(f"{what} are {found} rows", file.path)
        return batches or [empty_batch(self._schema())]

    def _columns(self, streams: Sequence[str]) -> list[str]:
        """Return the columns that streams are of; of ``a.b`` that is a."""
        names = self._schema().names
        fields = [self.fields[name] for name in streams]
        outer = [one for field in fields for one, _ in splits_of(field) if one in names]
        return list(dict.fromkeys(outer))


def is_lance(path: AnyPath) -> bool:
    """Return True if a folder is a table."""
    return path.is_dir() and (path / "_versions").is_dir() and (path / "data").is_dir()
