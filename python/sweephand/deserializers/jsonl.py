"""JSON lines: one object a line, with numbers, text or lists of them as streams."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData, column_of_bytes
from sweephand.corpus.objects import member_at
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.deserializers.jsonl_columns import PADDING, REPEATED, JsonField, read_ordinary
from sweephand.deserializers.jsonl_guess import guess_fields
from sweephand.deserializers.units.line_scan import BOM, LineConverter, LinePlace
from sweephand.deserializers.units.line_units import LineUnits
from sweephand.deserializers.units.unit_loader import Piece
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError
from sweephand.files.access import access_to
from sweephand.files.contents import PACKINGS, head_of_content
from sweephand.files.paths import AnyPath
from sweephand.files.source_file import SourceFile


class JSONLDeserializer(LineUnits):
    r"""Serve the lines of JSON files, each a sequence.

    A list of numbers or of texts is a sequence of samples; a single number or text is one
    sample; a field that a line lacks is an empty sequence there. Text is delivered as
    ``bytes``. Objects, and lists that hold some, are Python objects, one sample each, for maps
    (``StreamDef(dtype=object)`` where their form changes from line to line); one that a line
    lacks is None. All lines are parsed once for the index of their places and lengths, and
    again, about a MiB of a file at a time, on demand.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs; plain, or compressed by gzip or zstd. Blank lines are ignored.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all that the first lines hold. ``field`` is the key; ``a.b.c`` is the key c
        in the object b in the object a. Numbers are stored as int64, or as float64 if one of
        them has a fraction; with ``shape`` lists of numbers are samples of that shape.
    max_expansion : int
        Largest expansion of a compressed file, by factor; a file that exceeds it beyond its
        first 64 MiB is refused.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every line, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if a file is in UTF-16; beyond ``max_errors`` if a line is no JSON
        object, a field holds null, values of different forms, or compressed bytes are damaged
        or cut.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.jsonl"
    >>> lines = ['{"tokens": [1, 2, 3], "score": 0.5}', '{"tokens": [4], "score": 1}']
    >>> _ = path.write_text("\n".join(lines))
    >>> corpus = sh.JSONLDeserializer(path, sh.StreamDefs(
    ...     tokens=sh.StreamDef(defines_mb_size=True), score=sh.StreamDef(dtype="float32")))
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(4)
    >>> minibatch["tokens"].as_sequences(), minibatch["score"].values
    ([array([1, 2, 3]), array([4])], array([0.5, 1. ], dtype=float32))
    """

    format = "jsonl 2"

    def guess_streams(self) -> StreamDefs:
        """Return the fields of the first lines that hold numbers, text or lists of them."""
        streams, self.left_out = guess_fields(self.head, self.first_file.path)
        return streams

    def converter(self) -> LineConverter:
        """Return the parser of lines."""
        return JsonLines(self.definitions, self.fields, self.kinds, are_ids=self.are_ids)

    def read_together(self, pieces: Sequence[Piece]) -> list[ColumnData] | None:
        """Parse the lines of small files as one text, if all are ordinary."""
        if self.are_ids or any("compression" in facts for _, facts, *_ in pieces):
            return None
        local = access_to([file for file, *_ in pieces]).local
        if local is None:
            return None
        units = [facts["units"] for _, facts, *_ in pieces]
        begins = [own[begin][0] for own, (*_, begin, _) in zip(units, pieces, strict=True)]
        ends = [own[end - 1][1] for own, (*_, end) in zip(units, pieces, strict=True)]
        offsets, sizes = np.array(begins, np.uint64), np.array(ends, np.uint64)
        sizes -= offsets
        num_bytes = int(sizes.sum()) + len(pieces)
        padded = _core.read.empty_bytes(num_bytes + PADDING)
        padded[num_bytes:] = 0
        listed = [file.listed() for file in local]
        _core.read.read_each(listed, offsets, sizes, ord("\n"), padded[:num_bytes])
        return JsonLines(self.definitions, self.fields, self.kinds).read_ordinary(padded)


class JsonLines:
    """Parser of lines, with the dtypes from a scan of all files, or those found until now.

    Where numbers `are_ids`, they are the text that they are written as.
    """

    padding = PADDING

    def __init__(
        self,
        definitions: StreamDefs,
        keys: Mapping[str, str],
        kinds: Mapping[str, SampleType],
        *,
        are_ids: bool = False,
    ) -> None:
        self._are_ids = are_ids
        self._parse = partial(_parse, read_float=str, read_int=str) if are_ids else _parse
        self._keys = [keys[name] for name in definitions]
        self._fields = {
            name: JsonField(
                definition.sample_shape or (),
                definition.dtype,
                _known_type(kinds[name]) if kinds else "object" if are_ids else None,
                is_object=bool(kinds) and kinds[name].dtype == "objects",
            )
            for name, definition in definitions.items()
        }

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that are known."""
        return {
            name: SampleType("objects")
            if field.is_object
            else SampleType(
                "bytes" if field.dtype == object else field.dtype.name,
                field.shape,
                is_ragged=True,
            )
            for name, field in self._fields.items()
            if field.dtype is not None
        }

    def read_ordinary(self, padded: NDArray[np.uint8]) -> list[ColumnData] | None:
        """Return the streams of lines that hold nothing out of the ordinary; else None."""
        if not self._are_ids:
            return read_ordinary(list(self._fields.values()), self._keys, padded)
        found = read_ordinary([JsonField(())], self._keys, padded)
        return None if found is None else _integers_as_text(found[0])

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        """Return the streams of lines, and the faults by row."""
        ordinary = self.read_ordinary(padded)
        if ordinary is not None:
            return ordinary, {}
        lines = io.BytesIO(padded[: place.end - place.begin].data).readlines()
        offset = place.begin
        objects: list[dict[str, Any]] = []
        texts: list[bytes] = []
        places: list[tuple[int, int]] = []  # offset and line of every row
        reasons: dict[int, tuple[str, str | None]] = {}  # and the stream
        for number, line in enumerate(lines, place.line):
            if not line.isspace():
                places.append((offset, number))
                texts.append(line)
                try:
                    objects.append(self._parse(line))
                except (ValueError, RecursionError) as error:
                    reasons[len(objects)] = f"no JSON object: {error}", None
                    objects.append({})
            offset += len(line)
        columns = []
        for key, (name, field) in zip(self._keys, self._fields.items(), strict=True):
            values = [member_at(one, key) for one in objects]
            column, wrong = field.convert(values, partial(_parse_exactly, texts, key))
            columns.append(column)
            for row, reason in wrong.items():
                reasons.setdefault(row, (f"the field {key!r} {reason}", name))
        return columns, {
            row: DataError(
                reason,
                file.path,
                places[row][0],
                None,
                stream,
                place.row + row,
                places[row][1],
            )
            for row, (reason, stream) in sorted(reasons.items())
        }


def _known_type(kind: SampleType) -> str:
    return "object" if kind.are_bytes else kind.dtype


def _integers_as_text(column: ColumnData) -> list[ColumnData] | None:
    """Return the digits of integers, and texts as they are; None for what else there is."""
    if column.is_bytes:
        return [column]
    if column.dtype != np.int64 or column.values is None:
        return None
    digits = [b"%d" % one for one in column.values.tolist()]
    return [column_of_bytes(digits, column.sample_offsets)]


def _parse(
    line: bytes,
    read_float: Callable[[str], Any] | None = None,
    read_int: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    text = line.decode().rstrip("\r\n")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=read_float,
            parse_int=read_int,
            object_pairs_hook=_mark_repeated,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _parse_exactly(texts: Sequence[bytes], key: str, row: int) -> Any:
    return member_at(_parse(texts[row], Decimal), key)


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


def is_jsonl(path: AnyPath) -> bool:
    """Return True if a file, decompressed if necessary, begins with an object."""
    return head_of_content(path, 64, PACKINGS).removeprefix(BOM).lstrip().startswith(b"{")
