"""JSON lines: one object a line, with numbers, text or lists of them as streams.

A number or a text is one sample and a list a sequence of samples; with a shape, innermost lists
of that shape are the samples. A field that a row lacks is an empty sequence there. Objects, and
lists that hold some, are one sample each, whatever they are; one that a row lacks is None.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.corpus.casts import cast, element_type, kinds_in, leaves
from sweephand.corpus.columns import ColumnData, bytes_column, column_of_bytes, offsets_of
from sweephand.corpus.given_data import IS_NULL
from sweephand.corpus.objects import (
    LACKING,
    OBJECT,
    Unusable,
    column_of_values,
    is_nested,
    member_at,
)
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.open_path import Look
from sweephand.deserializers.units.line_units import BOM, LineConverter, LinePlace, LineUnits
from sweephand.deserializers.units.text_numbers import is_narrow, round_once
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError
from sweephand.files.inflate import PACKINGS
from sweephand.files.source_file import SourceFile

REPEATED = Unusable("is there twice")
CoreColumn = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None, object]

PADDING = _core.formats.JSON_PADDING
"""Zeros after the text that `read_ordinary` needs."""

_OBJECTS = SampleType("objects")
_TEXT = np.dtype(object)
_BOOL, _INT, _FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64)
_HEAD_BYTES = 1 << 20
_LINE_BYTES = 64 << 20  # of a first line that is longer than the head


class JSONLDeserializer(LineUnits):
    r"""Serve the lines of JSON files, each a sequence; blank lines are ignored.

    A list of numbers or of texts is a sequence of samples; a single number or text is one
    sample; a field that a line lacks is an empty sequence there. Text is delivered as
    ``bytes``. Objects, and lists that hold some, are Python objects, one sample each, for maps
    (``StreamDef(dtype=object)`` where their form changes from line to line); one that a line
    lacks is None.

    Parameters
    ----------
    files, index, ids
        As in `ParquetDeserializer`; files may be compressed by gzip or zstd.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all that the first lines hold. ``field`` is the key; ``a.b.c`` is the key c
        in the object b in the object a. Numbers are stored as int64, or as float64 if one of
        them has a fraction; with ``shape`` lists of numbers are samples of that shape.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.jsonl"
    >>> lines = ['{"tokens": [1, 2, 3], "score": 0.5}', '{"tokens": [4], "score": 1}']
    >>> _ = path.write_text("\n".join(lines))
    >>> source = sh.MinibatchSource(sh.JSONLDeserializer(path), randomize=False)
    >>> minibatch = source.next_minibatch(4)
    >>> minibatch["tokens"].as_sequences(), minibatch["score"].values
    ([array([1, 2, 3]), array([4])], array([0.5, 1. ]))
    """

    format = "jsonl 2"

    def guess_streams(self) -> StreamDefs:
        streams, self.left_out = guess_fields(self.head, self.first_file.path)
        return streams

    def converter(self) -> LineConverter:
        return JsonLines(self.definitions, self.fields, self.kinds)


class JsonLines:
    """Parser of lines, with the dtypes from a scan of all files, or those found until now."""

    padding = PADDING

    def __init__(
        self,
        definitions: StreamDefs,
        keys: Mapping[str, str],
        kinds: Mapping[str, SampleType],
    ) -> None:
        self._keys = [keys[name] for name in definitions]
        self._fields = {
            name: JsonField(one.sample_shape or (), one.dtype, kinds.get(name))
            for name, one in definitions.items()
        }

    def kinds(self) -> dict[str, SampleType]:
        kinds = {name: field.kind for name, field in self._fields.items()}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        ordinary = read_ordinary(list(self._fields.values()), self._keys, padded)
        if ordinary is not None:
            return ordinary, {}
        lines = io.BytesIO(padded[: place.end - place.begin].data).readlines()
        offset = place.begin
        objects: list[dict[str, Any]] = []
        texts: list[bytes] = []
        places: list[tuple[int, int]] = []  # offset and line of every row
        reasons: dict[int, tuple[str, str | None]] = {}  # of rows, and the stream
        for number, line in enumerate(lines, place.line):
            if not line.isspace():
                places.append((offset, number))
                texts.append(line)
                try:
                    objects.append(parse_object(line))
                except (ValueError, RecursionError) as error:
                    reasons[len(objects)] = f"no JSON object: {error}", None
                    objects.append({})
            offset += len(line)
        columns = []
        for key, (name, field) in zip(self._keys, self._fields.items(), strict=True):
            values = [member_at(one, key) for one in objects]
            column, wrong = field.convert(values, _exact_numbers(texts, key))
            columns.append(column)
            for row, reason in wrong.items():
                reasons.setdefault(row, (f"the field {key!r} {reason}", name))
        return columns, {
            row: DataError(reason, file.path, at, None, stream, place.row + row, number)
            for row, (reason, stream) in sorted(reasons.items())
            for at, number in [places[row]]
        }


def parse_object(
    line: bytes,
    read_float: Callable[[str], Any] | None = None,
    read_constant: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Return the members of an object; ValueError or RecursionError if it is none."""
    text = line.decode().rstrip("\r\n")
    try:
        value = json.loads(
            text,
            parse_constant=read_constant or _refuse_constant,
            parse_float=read_float,
            object_pairs_hook=_mark_repeated,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _exact_numbers(texts: Sequence[bytes], key: str) -> Callable[[int, int], Any]:
    """Return a function that returns a number of a row, as a Decimal if it has a fraction."""

    @lru_cache(1)  # a row with many such numbers is parsed once
    def numbers_of(row: int) -> list[Any]:
        return list(leaves([member_at(parse_object(texts[row], Decimal), key)]))

    return lambda row, place: numbers_of(row)[place]


def _mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; those that are there twice have no value."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                members[key] = REPEATED
            seen.add(key)
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def is_jsonl(look: Look) -> bool:
    """Return True if a file, decompressed if necessary, begins with an object."""
    return look.content(64, PACKINGS).removeprefix(BOM).lstrip().startswith(b"{")


class JsonField:
    """One field of many rows, and the types of the values seen.

    `dtype` is bool, int64 or float64, whichever holds all values, object for texts and objects,
    and None before the first value; `wanted` is what will be delivered: integers admit no
    floats, and floats make integers floats.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        wanted: DTypeLike | None = None,
        kind: SampleType | None = None,
    ) -> None:
        self.shape = shape
        self.wanted = None if wanted is None else np.dtype(wanted)
        self.is_object = self.wanted == OBJECT or kind == _OBJECTS
        self.dtype: np.dtype[Any] | None = None
        if kind is not None:
            self.dtype = _TEXT if kind.are_bytes else np.dtype(kind.dtype)
        if self.is_object:
            self.wanted, self.dtype = None, _TEXT
        self._num_rows = 0  # that were converted before
        self._float: np.dtype[Any] = _FLOAT  # the type in which floats are delivered
        if self.wanted is not None and (self.wanted == _FLOAT or is_narrow(self.wanted)):
            self._float = self.wanted
            self.dtype = self.dtype or _FLOAT

    @property
    def kind(self) -> SampleType | None:
        """The type of samples, if it is known."""
        if self.is_object or self.dtype is None:
            return _OBJECTS if self.is_object else None
        dtype = "bytes" if self.dtype == _TEXT else self.dtype.name
        return SampleType(dtype, self.shape, is_ragged=True)

    def convert(
        self, values: Sequence[Any], parse_exactly: Callable[[int, int], Any] | None = None
    ) -> tuple[ColumnData, dict[int, str]]:
        if self._are_objects(values):
            return column_of_values(values)
        self._num_rows += len(values)
        rows: list[Any] = []
        wrong: dict[int, str] = {}
        exact = parse_exactly if is_narrow(self._float) else None
        for number, value in enumerate(values):
            try:
                row = self.samples(value)
                if exact and isinstance(row, np.ndarray) and row.dtype == _FLOAT:
                    row = round_once(row, self._float, partial(exact, number))
                rows.append(row)
            except ValueError as error:
                wrong[number] = str(error)
                rows.append(())
        for number, row in enumerate(rows if self.dtype == _FLOAT else ()):
            if isinstance(row, np.ndarray) and row.dtype == _INT:
                try:
                    self._check_integers(row)
                except ValueError as error:
                    wrong[number] = str(error)
                    rows[number] = ()
        offsets = offsets_of([len(row) for row in rows])
        if self.dtype == _TEXT:
            return column_of_bytes([text for row in rows for text in row], offsets), wrong
        dtype = self.dtype or _FLOAT
        blank = np.empty((0, *self.shape), dtype)
        numbers = np.concatenate([blank, *(row for row in rows if len(row))]).astype(dtype)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets), wrong

    def _are_objects(self, values: Sequence[Any]) -> bool:
        """Return True if values are objects, by their known type or by the first of them."""
        if self.dtype is None and not (self.shape or self._num_rows):
            held = (one for one in values if one is not LACKING and one != [])
            self.is_object = is_nested(next(held, None))
            self.dtype = _TEXT if self.is_object else None
        return self.is_object

    def adopt(self, found: CoreColumn) -> ColumnData:
        """Return the core's values of ordinary rows in the form of `convert`."""
        values, offsets, begins = found[:3]
        if begins is not None:
            self._learn(_TEXT)
            return bytes_column(values.view(np.uint8), begins, offsets)
        if len(values):
            self._learn(values.dtype)
        if self.dtype == _TEXT:
            return column_of_bytes([], offsets)
        dtype = self.dtype or _FLOAT
        numbers = cast(values, dtype) if len(values) else np.empty(0, dtype)
        return ColumnData(numbers, dtype, self.shape, len(numbers), offsets)

    def samples(self, value: Any) -> Sequence[bytes] | NDArray[Any]:
        """Return the samples of one row, and learn their dtype."""
        if value is LACKING or value == []:
            return ()
        if isinstance(value, Unusable):
            raise ValueError(value.reason)
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and isinstance(texts[0], str):
            if None in texts:
                raise ValueError(IS_NULL)
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("holds text and other things")
            if self.shape:
                raise ValueError(f"holds text, which has no shape {self.shape}")
            try:
                encoded = [text.encode() for text in texts]
            except UnicodeEncodeError:
                raise ValueError("holds text with half a surrogate pair") from None
            self._learn(_TEXT)
            return encoded
        try:
            array = np.array(value)
        except ValueError:
            raise ValueError("holds lists that differ in length") from None
        if array.dtype.kind == "O" and None in leaves([value]):
            raise ValueError(IS_NULL)
        kinds = kinds_in("the list", [value]) if array.dtype.kind in "bif" else set("?")
        if kinds - {"i", array.dtype.kind} or not kinds & {array.dtype.kind}:
            raise ValueError(
                "holds an object, values of several kinds, or an integer of more than 64 bits; "
                "declare StreamDef(dtype=object)"
            )
        if "f" in kinds and not np.isfinite(array).all():
            raise ValueError("holds a number that is beyond float64")
        if "i" in kinds and "f" in kinds:
            self._check_integers([one for one in leaves(value) if isinstance(one, int)])
        if array.ndim == len(self.shape):
            array = array[None]
        if array.shape[1:] != self.shape:
            raise ValueError(f"holds samples of shape {array.shape[1:]}, not {self.shape}")
        self._learn(array.dtype)
        return array

    def _check_integers(self, integers: Sequence[int] | NDArray[np.int64]) -> None:
        """Refuse integers that the floats of the column cannot hold."""
        try:
            cast(np.array(integers, np.int64), self._float)
        except (ValueError, OverflowError):
            raise ValueError(f"holds an integer that {self._float} cannot hold") from None

    def _learn(self, dtype: np.dtype[Any]) -> None:
        if self.wanted is not None and dtype != _TEXT:
            if self.wanted.kind in "iu" and dtype.kind == "f":
                raise ValueError("holds a float where integers are wanted")
            if (self.wanted == _BOOL) != (dtype == _BOOL):
                held, wanted = _words(dtype), _words(self.wanted)
                raise ValueError(f"holds {held} where {wanted} are wanted")
        known = self.dtype
        if known is None:
            self.dtype = dtype
        elif _words(known) != _words(dtype):
            raise ValueError(f"holds {_words(dtype)}, and {_words(known)} in other rows")
        elif dtype != _TEXT:
            self.dtype = np.promote_types(known, dtype)


def _words(dtype: np.dtype[Any]) -> str:
    return {_TEXT: "text", _BOOL: "true or false"}.get(dtype, "numbers")


def read_ordinary(
    fields: Sequence[JsonField], keys: Sequence[str], padded: NDArray[np.uint8]
) -> list[ColumnData] | None:
    """Return the fields of whole lines that hold nothing out of the ordinary; else None."""
    if any(field.shape or field.is_object for field in fields) or len(set(keys)) < len(keys):
        return None
    wanted = [
        _core.formats.JsonKey(key, element_type(field.wanted or _TEXT))
        for key, field in zip(keys, fields, strict=True)
    ]
    found = _core.formats.read_json_lines(wanted, padded)
    if found is None:
        return None
    try:
        return [field.adopt(one) for field, one in zip(fields, found, strict=True)]
    except ValueError:
        return None


def guess_fields(
    read_head: Callable[[int], bytes], path: str
) -> tuple[StreamDefs, dict[str, str]]:
    """Return the fields of the first lines that can be served, and why others cannot.

    A list of equally long lists of numbers is a sequence of samples of that shape. A field that
    is an object in one of the lines, or a list that holds some, is a Python object.
    """
    shapes: dict[str, tuple[int, ...] | None] = {}
    nested: set[str] = set()
    others: dict[str, str] = {}
    wrong: str | None = None
    for line in _first_lines(read_head):
        try:
            members = parse_object(line)
        except (ValueError, RecursionError) as error:
            wrong = wrong or f"{error}"
            continue
        for name, value in members.items():
            shape = None
            try:
                if is_nested(value):
                    nested.add(name)
                elif value == []:
                    raise ValueError("is an empty list")
                else:
                    shape = _shape_of(value)
                    JsonField(shape or ()).samples(value)
            except ValueError as error:
                others.setdefault(name, f"it {error}")
            else:
                shapes.setdefault(name, shape)
    if shapes:
        streams = {
            name: StreamDef(dtype=object) if name in nested else StreamDef(shape=shape)
            for name, shape in shapes.items()
        }
        return StreamDefs(streams), {n: why for n, why in others.items() if n not in shapes}
    if wrong is not None:
        wrong += "; JSON lines have a whole one in every line"
        raise DataError(f"the first line is no JSON object: {wrong}", path, line=1)
    raise DataError("the first lines have no numbers and no text", path, line=1)


def _first_lines(read_head: Callable[[int], bytes]) -> list[bytes]:
    size = _HEAD_BYTES
    head = read_head(size)
    if b"\n" not in head.strip() and len(head) == size:
        size = _LINE_BYTES
        head = read_head(size)
    if len(head) == size and b"\n" in head:
        head = head[: head.rindex(b"\n")]  # the last line is not whole
    return [line for line in head.removeprefix(BOM).splitlines() if line.strip()]


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a sample if the lists are regular; else None."""
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return None
    try:
        return np.array(value).shape[1:]
    except ValueError:
        return None
