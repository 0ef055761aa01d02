"""Datasets of Lance, opened at one version by its own package."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweephand import DataError
from sweephand.extend import OptionalModule, data_errors

lance = OptionalModule("lance", extra="lance")
lance_file = OptionalModule("lance.file", extra="lance")

_PANIC = "PanicException"  # of Rust: no Exception
_used_in: list[int] = []  # the process whose threads Lance has


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


def bytes_per_row(root: str, dataset: Any, fragment: Any, columns: Sequence[str]) -> float:
    """Return the bytes of a row of these columns in a fragment's files."""
    ids = {
        number
        for field in dataset.lance_schema.fields()
        if field.name() in columns
        for number in _ids_of(field)
    }
    size: int = 0
    paths = data_files(root, fragment)
    for path, file in zip(paths, fragment.metadata.files, strict=True):
        if file.file_major_version < 2:  # which do not store the size of a column
            size += Path(path).stat().st_size
            continue
        stored = lance_file.LanceFileReader(path).file_statistics().columns
        places = zip(file.fields, file.column_indices, strict=True)
        size += sum(stored[at].size_bytes for number, at in places if number in ids and at >= 0)
    return size / max(1, int(fragment.physical_rows))


def _ids_of(field: Any) -> list[int]:
    return [field.id(), *(one for child in field.children() for one in _ids_of(child))]
