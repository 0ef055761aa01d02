"""The shards of MosaicML's streaming datasets, by their ``index.json``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweephand import DataError
from sweephand.extend import (
    AnyPath,
    Compression,
    ContentFile,
    FileList,
    InflatedFile,
    PathLike,
    SourceFile,
    as_path,
    find_files,
    head_of,
    read_file,
)

_MOST_BYTES = 2**32  # of a shard, whose offsets have 32 bits
_SCALARS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_BYTES = ("bytes", "str", "json", "jpeg", "png", "str_int", "str_float", "str_decimal")
_NO_NAMES = ("\0", "\\", "://", "?", "*", "[", "{")  # of other systems, and of patterns
_PACKINGS: dict[str, Compression] = {"zstd": "zstd", "gz": "gzip"}


@dataclass(frozen=True)
class MdsColumn:
    """One column of all samples."""

    name: str
    encoding: str
    size: int | None  # bytes in every sample; None: each sample says it

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype by the encoding; None for bytes, or if each array has its own."""
        if self.encoding == "int":
            return np.dtype(np.int64)
        kind, _, rest = self.encoding.partition(":")
        name = rest.partition(":")[0] if kind == "ndarray" else self.encoding
        return np.dtype(name) if name in _SCALARS else None

    @property
    def is_array(self) -> bool:
        """True if samples are arrays."""
        return self.encoding.partition(":")[0] == "ndarray"

    @property
    def array_shape(self) -> tuple[int, ...] | None:
        """Shape of arrays, if all have the same; else None."""
        shape = self.encoding.split(":")[2:]
        return tuple(map(int, shape[0].split(","))) if shape else None

    @property
    def refusal(self) -> str | None:
        """Reason to refuse the column; None if it can be served."""
        if self.encoding == "pkl":
            return "it holds pickled objects, which are never loaded"
        if self.encoding in _BYTES or self.is_array or self.dtype is not None:
            return None
        return f"its encoding {self.encoding!r} is not read here"


@dataclass(frozen=True)
class MdsIndex:
    """The shards of a data set, in their order."""

    columns: tuple[MdsColumn, ...]  # in the order in which a sample has them
    files: FileList  # the shards, as what they unpack to
    counts: dict[str, int]  # samples in each, by its path


def read_mds_index(folders: Sequence[PathLike]) -> MdsIndex:
    """Read the index of one folder or several."""
    columns: tuple[MdsColumn, ...] | None = None
    shards: list[tuple[AnyPath, dict[str, Any]]] = []
    for folder in folders:
        path = _index_at(as_path(folder))
        for shard in _shards_in(path):
            try:
                own = _columns_of(shard)
                shards.append((path, shard))
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"the index says what cannot be: {error}", str(path)) from None
            if columns is not None and own != columns:
                raise DataError(
                    "the columns of its shards are not those of the others: all of a corpus "
                    "must agree",
                    str(path),
                )
            columns = own
    if columns is None:
        raise DataError("the index names no shards", str(_index_at(as_path(folders[0]))))
    return _find_shards(columns, shards)


def _index_at(path: AnyPath) -> AnyPath:
    return path if path.name == "index.json" else path / "index.json"


def is_mds(path: AnyPath) -> bool:
    """Return True if a folder, or its index, is of shards in this format."""
    index = _index_at(path)
    if not index.is_file():
        return False
    content = head_of(index, 4096)  # has been read, and nearly always says it
    if not _says_mds(content):
        content = read_file(index)
    return _says_mds(content)


def _says_mds(content: bytes) -> bool:
    return b'"mds"' in content and b'"shards"' in content


def _shards_in(path: AnyPath) -> list[dict[str, Any]]:
    try:
        index = json.loads(read_file(path))
        version, shards = index["version"], index["shards"]
        if not all(isinstance(shard, dict) for shard in shards):
            raise TypeError("a shard is an object")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"this is no index of shards: {error}", str(path)) from None
    if version != 2:
        raise DataError(f"the index has version {version!r:.20}, and 2 is read", str(path))
    found: list[dict[str, Any]] = shards
    return found


def _columns_of(shard: dict[str, Any]) -> tuple[MdsColumn, ...]:
    if shard["format"] != "mds":
        raise ValueError(f"a shard has the format {shard['format']!r:.20}, not 'mds'")
    definitions = zip(
        shard["column_names"], shard["column_encodings"], shard["column_sizes"], strict=True
    )
    columns = []
    for name, encoding, size in definitions:
        if not (isinstance(name, str) and isinstance(encoding, str)):
            raise TypeError("names and encodings of columns are texts")
        if not (size is None or (type(size) is int and 0 <= size < _MOST_BYTES)):
            raise ValueError(f"column {name!r} has {size!r:.20} bytes")
        column = MdsColumn(name, encoding, size or None)
        _check_size(column)
        columns.append(column)
    if len({one.name for one in columns}) < len(columns):
        raise ValueError("two columns have one name")
    return tuple(columns)


def _check_size(column: MdsColumn) -> None:
    """Refuse a size that is not that of the encoding."""
    shape, dtype = column.array_shape, column.dtype
    if shape is not None and min(shape) < 1:
        raise ValueError(f"column {column.name!r} has arrays of shape {shape}")
    wanted = None
    if dtype is not None and not column.is_array:
        wanted = dtype.itemsize
    elif dtype is not None and shape is not None:
        wanted = dtype.itemsize * math.prod(shape)
    if (wanted is not None or column.is_array) and column.size != wanted:
        raise ValueError(f"{column.encoding} has {wanted} bytes, not {column.size}")


def _find_shards(
    columns: tuple[MdsColumn, ...], shards: Sequence[tuple[AnyPath, dict[str, Any]]]
) -> MdsIndex:
    """Return the shards that are there: plain, or else compressed."""
    specs: list[str] = []
    sizes: list[int] = []
    packings: list[Compression | None] = []
    counts: list[int] = []
    for path, shard in shards:
        try:
            raw, packed = shard["raw_data"], shard.get("zip_data")
            counts.append(_count(shard["samples"]))
            sizes.append(_count(raw["bytes"]))
            place = path.parent / _name_below(raw["basename"])
            packing: Compression | None = None
            if packed is not None and not place.exists():
                place = path.parent / _name_below(packed["basename"])
                packing = _packing_of(shard["compression"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the index says what cannot be: {error}", str(path)) from None
        specs.append(os.fspath(place))
        packings.append(packing)
    try:
        found = find_files(specs, as_given=True)
    except FileNotFoundError as error:
        raise DataError(
            f"the index names a shard that is not there: {error}", str(shards[0][0])
        ) from error
    files: list[SourceFile] = []
    for file, size, packing in zip(found.files, sizes, packings, strict=True):
        if packing is None:
            files.append(file)
            continue
        content = InflatedFile(file, packing, max(200, size // max(file.size, 1) + 1))
        files.append(ContentFile(file.path, file.name, size, file.tag, content))
    by_path = {file.path: count for file, count in zip(files, counts, strict=True)}
    return MdsIndex(columns, FileList(files, found.leftovers), by_path)


def _packing_of(compression: object) -> Compression:
    known = _PACKINGS.get(str(compression).partition(":")[0])
    if known is None:
        raise ValueError(
            f"shards are compressed by {compression!r:.20}, and zstd and gz are read here; "
            "unpack them"
        )
    return known


def _count(number: object) -> int:
    if type(number) is not int or not 0 <= number < _MOST_BYTES:
        raise ValueError(f"{number!r:.20} is no count")
    return number


def _name_below(name: object) -> str:
    """Return the name of a shard: a path below the folder of the index, as merging makes."""
    is_path = isinstance(name, str) and not any(one in name for one in _NO_NAMES)
    if not is_path or any(part in ("", ".", "..") for part in str(name).split("/")):
        raise ValueError(f"{name!r:.40} is no name of a file in the folder, or below it")
    return str(name)
