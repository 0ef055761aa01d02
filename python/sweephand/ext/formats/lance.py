"""Lance datasets, read fragment by fragment by Lance itself.

::

    train.lance/_versions   what each version consists of: fragments, and rows deleted in them
    train.lance/data        the columns of fragments; a file never changes

https://lance.org/format
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sweephand import DataError, StreamDefs
from sweephand.extend import (
    ArrowUnits,
    Columns,
    FileList,
    Keep,
    KnownRows,
    Ledger,
    Look,
    OptionalModule,
    RowIds,
    RowRun,
    RunDeserializer,
    SourceFile,
    StoredCorpus,
    StreamsLike,
    data_errors,
    empty_batch,
    is_url,
    spec_of,
    splits_of,
    stat_file,
    streams_of,
)

_UNIT_BYTES = 1 << 20
_LOOKED_AT = 64  # rows, to know about how large they are
lance = OptionalModule("lance", extra="lance")
_PANIC = "PanicException"  # of Rust: no Exception
_used_in: list[int] = []  # the process whose threads Lance has


class LanceDeserializer(ArrowUnits, RunDeserializer):
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
    index, ids
        As in `ParquetDeserializer`.

    Attributes
    ----------
    version : int
        The version of the served rows.

    Raises
    ------
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
        return FileList(files), numbers, changed

    def guess_streams(self) -> StreamDefs:
        """Return the columns of the schema that can be served."""
        streams, self.left_out = streams_of(self._schema(), self._root)
        return streams

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        corpus = super().open(ledger)
        return replace(corpus, names=[f"version {self.version}", *corpus.names])

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Return the rows of a fragment, about a MiB at a time."""
        dataset = self._dataset()
        kinds = self.kinds_of(self._schema(), file.path)
        fragment = dataset.get_fragment(self._fragments[file.path])
        with lance_errors(file.path, "the fragment"):
            num_rows = fragment.count_rows()
        row_bytes = self._row_bytes(file, min(num_rows, _LOOKED_AT))
        step = max(1, int(_UNIT_BYTES / max(1.0, row_bytes)))
        borders = np.append(np.arange(0, num_rows, step), num_rows)
        return KnownRows(borders, (np.diff(borders) * row_bytes).astype(np.int64), kinds)

    def _row_bytes(self, file: SourceFile, count: int) -> float:
        """Return about the bytes of a row, by the first ones."""
        try:
            batches = self._read(file, 0, count, list(self.definitions))
        except DataError:  # which is found again
            return file.size / max(1, count)
        size: int = sum(one.nbytes for one in batches)
        return size / max(1, count)

    def read_rows(self, run: RowRun) -> Columns:
        """Read rows of a fragment."""
        run.file.check_unchanged()  # Lance opens it by its name
        batches = self._read(run.file, run.begin, run.end, run.streams)
        return self.to_columns(batches, run.file.path, run.streams, run.begin)

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


def is_lance(look: Look) -> bool:
    """Return True if a folder is a table."""
    return {"_versions/", "data/"} <= {*look.names}


@contextmanager
def lance_errors(path: str, what: str) -> Iterator[None]:
    """Raise Lance's errors on damaged bytes as a DataError of one line."""
    try:
        with data_errors(path, what):
            yield
    except DataError as error:
        raise DataError(" ".join(error.reason.split())[:300], path) from error
    except BaseException as error:
        if not isinstance(error, RuntimeError) and type(error).__name__ != _PANIC:
            raise
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"{what} cannot be decoded: {reason}", path) from error


def open_dataset(root: str, version: int | str | None) -> Any:
    """Return a dataset at a version; None is the newest, of a name that tag's."""
    check_process()
    with lance_errors(root, "the dataset"):
        return lance.dataset(root, version=version)


def check_process() -> None:
    """Refuse to use Lance in a process that was forked off another that did."""
    if not _used_in:
        _used_in.append(os.getpid())
    if _used_in[0] != os.getpid():
        raise RuntimeError(
            "Lance cannot be used in a process that was forked off one that used it, as its "
            "threads are not here: start workers by 'spawn' or 'forkserver'"
        )


def data_files(root: str, fragment: Any) -> list[str]:
    """Return the paths of a fragment's files."""
    files, deletions = fragment.metadata.files, fragment.metadata.deletion_file
    for one in files:
        path = Path(one.path)
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"it names the file {one.path!r}, which is outside of it", root)
    if any(getattr(one, "base_id", None) is not None for one in (*files, deletions)):
        raise DataError(
            f"fragment {fragment.fragment_id} is in another folder, as of a shallow clone: "
            "give the dataset that it is of, or a copy",
            root,
        )
    return [str(Path(root) / "data" / one.path) for one in files]
