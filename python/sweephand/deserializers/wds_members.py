"""The members of an archive that are a field of its samples, and their content."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.casts import check_dtype
from sweephand.corpus.columns import column_of_bytes
from sweephand.corpus.objects import LACKING, Unusable, member_at
from sweephand.corpus.stream_defs import StreamDef
from sweephand.deserializers.jsonl_columns import JsonField
from sweephand.deserializers.npy_header import NpyHeader, parse_header
from sweephand.deserializers.units.placed import add_held, add_placed, samples_of
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError

_KEY = "__key__"
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx")
_JSON = re.compile(r"(?P<member>(?:.*\.)?json)\.(?P<key>.+)")
_HEAD_BYTES = {"npy": 1024, "json": 16 << 20, "number": 64}  # that are looked at


def is_held(field: str) -> bool:
    """Return True if the index holds the values of a field, rather than their places."""
    return _decoding_of(field)[1] in ("key", "number", "json")


def heads_of(fields: Iterable[str]) -> dict[str, int]:
    """Return the members that fields are of, and how much of each is looked at."""
    heads: dict[str, int] = {}
    for field in fields:
        member, decoding = _decoding_of(field)[:2]
        heads[member] = max(heads.get(member, 0), _HEAD_BYTES.get(decoding, 0))
    return {member: size for member, size in heads.items() if size}


class Members:
    """One field of all samples of an archive."""

    def __init__(self, samples: Any, definition: StreamDef, field: str, path: str) -> None:
        self._member, self._decoding, self._key = _decoding_of(field)
        self._keys = samples.keys if self._decoding == "key" else []
        self._definition = definition
        self._path = path
        self._field = field
        self._offsets, self._sizes, heads, starts = samples.field(self._member)
        self._heads: bytes = heads.tobytes()
        self._starts = starts.tolist()

    def add(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        """Add the stream; errors of members become faults of their samples."""
        if self._decoding == "key":
            each: NDArray[np.int64] = np.arange(len(self._keys) + 1)
            column = column_of_bytes(self._keys, each)
            add_held(scan, name, column, is_known=bool(self._keys))
        elif self._decoding in ("number", "json"):
            self._add_parsed(scan, name, faults)
        elif self._decoding == "npy":
            self._add_arrays(scan, name, faults)
        else:
            is_there = self._offsets > 0
            kind = SampleType("bytes", is_ragged=True) if is_there.any() else None
            add_placed(scan, name, kind, is_there, self._offsets, self._sizes)

    def _add_parsed(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        parse = _number if self._decoding == "number" else self._parse_json
        values: list[Any] = []
        for row, offset in enumerate(self._offsets.tolist()):
            values.append(LACKING)
            if offset:
                try:
                    values[-1] = parse(self._head(row))
                except (ValueError, RecursionError) as error:
                    faults.setdefault(row, self._fault(name, row, f"{error}"))
        shape = self._definition.sample_shape or ()
        field = JsonField(shape, self._definition.dtype)
        column, wrong = field.convert(values)
        for row, reason in wrong.items():
            faults.setdefault(row, self._fault(name, row, reason))
        add_held(scan, name, column, is_known=field.dtype is not None)

    def _parse_json(self, text: bytes) -> Any:
        value = _parse_object(text)
        found = member_at(value, self._key) if isinstance(value, dict) else LACKING
        return LACKING if isinstance(found, Unusable) else found

    def _add_arrays(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        lengths = np.zeros(len(self._offsets), np.int64)
        begins, sizes = lengths.copy(), lengths.copy()
        known: SampleType | None = None
        for row, offset in enumerate(self._offsets.tolist()):
            if not offset:
                continue
            try:
                head = self._head(row)
                known_head = head[: 10 + int.from_bytes(head[8:10], "little")]
                header = _npy_header(known_head, int(self._sizes[row]))
                kind, lengths[row] = self._kind_of(header)
                if known is not None and kind != known:
                    raise ValueError(f"holds {kind}, and {known} in other samples")
            except (DataError, ValueError, TypeError) as error:
                reason = error.reason if isinstance(error, DataError) else f"{error}"
                faults.setdefault(row, self._fault(name, row, reason))
                lengths[row] = 0
                continue
            known = kind
            begins[row] = offset + header.offset
            sizes[row] = self._sizes[row] - header.offset
        sizes[lengths == 0] = 0
        add_placed(scan, name, known, lengths, begins, sizes)

    def _kind_of(self, header: NpyHeader) -> tuple[SampleType, int]:
        """Return type and number of an array's samples."""
        check_dtype("the array", header.dtype)
        if not header.dtype.isnative:
            raise ValueError(f"is big-endian ({header.dtype.str}); save it in native order")
        return samples_of(header.dtype, header.shape, self._definition.sample_shape)

    def _head(self, row: int) -> bytes:
        head = self._heads[self._starts[row] : self._starts[row + 1]]
        if len(head) < self._sizes[row] and self._decoding != "npy":
            raise ValueError(f"has {self._sizes[row]} bytes; at most {len(head)} are decoded")
        return head

    def _fault(self, name: str, row: int, reason: str) -> DataError:
        return DataError(
            f"the member {self._member!r} {reason}",
            self._path,
            int(self._offsets[row]),
            stream=name,
            sequence=row,
        )


def _decoding_of(field: str) -> tuple[str, str, str]:
    """Return the member that a field is of, how it is decoded, and the key within it."""
    if field == _KEY:
        return "", "key", ""
    if found := _JSON.fullmatch(field):
        return found["member"], "json", found["key"]
    last = field.rpartition(".")[2]
    if last in _NUMBERS:
        return field, "number", ""
    return field, "npy" if last == "npy" else "bytes", ""


def _number(text: bytes) -> int:
    if not re.fullmatch(rb"\s*-?[0-9]{1,19}\s*", text):
        raise ValueError("holds no integer")
    return int(text)


@lru_cache(maxsize=4)  # of one sample, for several keys
def _parse_object(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None


@lru_cache(maxsize=1024)  # most arrays of a corpus are alike
def _npy_header(head: bytes, size: int) -> NpyHeader:
    return parse_header(io.BytesIO(head), size, "")
