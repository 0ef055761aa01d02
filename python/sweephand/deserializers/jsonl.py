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
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.streams import StreamDefs
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.jsonl_columns import (
    LACKING,
    PADDING,
    REPEATED,
    JsonField,
    read_ordinary,
)
from sweephand.deserializers.jsonl_guess import guess_fields
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.kept_scans import (
    all_follow,
    check_ends,
    check_runs,
    require,
    spread,
)
from sweephand.deserializers.units.unit_loader import Piece
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError
from sweephand.files.access import access_to
from sweephand.files.index_file import Advance, Index
from sweephand.files.paths import AnyPath, head_of
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_UNIT_BYTES = 1 << 20
_MAX_LINE_BYTES = 256 << 20
_BOM = b"\xef\xbb\xbf"
_OTHERS = {
    b"\xff\xfe": "in UTF-16",
    b"\xfe\xff": "in UTF-16",
    b"\x1f\x8b": "compressed by gzip; unpack it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it",
}


class JSONLDeserializer(IndexedDeserializer):
    r"""Serve the lines of JSON files, each a sequence.

    A list of numbers or of texts is a sequence of samples; a single number or text is one
    sample; a field that a line lacks is an empty sequence there. Text is delivered as
    ``bytes``. All lines are parsed once for the index, which keeps where they begin and how
    long their lists are, and again, about a MiB of a file at a time, when one is wanted.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Blank lines are passed over.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all that the first lines hold. ``field`` is the key. Numbers are stored as
        int64, or as float64 if one of them has a fraction; with ``shape`` lists of numbers are
        samples of that shape.
    index : {"auto", "cache", None}
        Where the index is kept: beside the files, or in a cache folder where they cannot be
        written; only there; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every line, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if a file is compressed or in UTF-16; beyond ``max_errors`` if a line
        is no JSON object, or a field holds null, an object or lists that differ.

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

    format = "jsonl 1"
    in_parts = True

    def guess_streams(self) -> StreamDefs:
        """Return the fields of the first lines that hold numbers, text or lists of them."""
        streams, self.left_out = guess_fields(self.first_file)
        return streams

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Parse every line once."""
        scan = UnitScan()
        fields = self._fields()
        units: list[tuple[int, ...]] = []  # begin, end, first line, first row
        with open_to_scan(file) as source:
            begin = _find_begin(file)
            source.seek(begin)
            line = 1
            while text := _read_text(source, file):
                first_row = sum(scan.rows)
                place = (begin, begin + len(text), line, first_row)
                padded = np.frombuffer(text + bytes(PADDING), np.uint8)
                columns, wrong = self._convert(padded, fields, file, place)
                for name, column in zip(fields, columns, strict=True):
                    scan.lengths.setdefault(name, []).append(column.lengths)
                for row, error in wrong.items():
                    scan.add_error(error)
                    scan.damaged_rows.append(first_row + row)
                scan.rows.append(columns[0].num_sequences)
                scan.num_bytes.append(len(text))
                units.append(place)
                advance(len(text))
                begin = place[1]
                line += text.count(b"\n")
        scan.facts["units"] = units
        for name, field in fields.items():
            if field.dtype is not None:
                dtype = "bytes" if field.dtype == object else field.dtype.name
                scan.kinds[name] = SampleType(dtype, field.shape, is_ragged=True)
        return scan

    def read_units(
        self, file: SourceFile, facts: Mapping[str, Any], begin: int, end: int
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Parse the lines of some units."""
        first, _, *numbers = facts["units"][begin]
        stop = facts["units"][end - 1][1]
        padded = file.fetch(first, stop - first, PADDING)
        if not padded.flags.writeable:  # the answer of a store
            padded = padded.copy()
        padded[stop - first :] = 0
        return self._convert(padded, self._fields(), file, (first, stop, *numbers))

    def read_together(self, pieces: Sequence[Piece]) -> list[ColumnData] | None:
        """Parse the lines of small files as one text, if all are ordinary."""
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
        fields = self._fields()
        keys = [self.fields[name] for name in fields]
        return read_ordinary(list(fields.values()), keys, padded)

    def check_facts(self, index: Index) -> None:
        """Refuse units that are not runs of lines that fill the files."""
        units, starts = check_runs([facts["format"]["units"] for facts in index.facts], 4)
        require(np.array_equal(starts, index.starts["rows"]), "units")
        begins, ends, lines, first_rows = units.T
        rows = offsets_of(index.arrays["rows"])
        is_all = (
            np.array_equal(first_rows, rows[:-1] - spread(rows[starts[:-1]], starts))
            and all_follow(begins[1:] == ends[:-1], starts)
            and np.array_equal(index.arrays["num_bytes"], ends - begins)
            and bool((ends > begins).all())
            and all_follow(lines[1:] >= lines[:-1], starts)
        )
        require(is_all, "units")
        sizes = np.array([file.size for file in index.files], np.int64)
        filled, firsts, lasts = check_ends(begins, ends, starts)
        require(bool(np.isin(firsts, (0, len(_BOM))).all()), "units")
        require(np.array_equal(lasts, sizes[filled]), "the end of the units")
        sizes[filled] = 0
        require(bool((sizes <= len(_BOM)).all()), "no units")

    def _fields(self) -> dict[str, JsonField]:
        """Return the fields, with the dtypes that a scan of all files found."""
        return {
            name: JsonField(
                definition.sample_shape or (),
                definition.dtype,
                self.kinds[name].dtype.replace("bytes", "object") if self.kinds else None,
            )
            for name, definition in self.definitions.items()
        }

    def _convert(
        self,
        padded: NDArray[np.uint8],
        fields: Mapping[str, JsonField],
        file: SourceFile,
        place: tuple[int, ...],
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Return the streams of some lines; `place` is their begin, end, first line and row."""
        keys = [self.fields[name] for name in fields]
        ordinary = read_ordinary(list(fields.values()), keys, padded)
        if ordinary is not None:
            return ordinary, {}
        lines = io.BytesIO(padded[: place[1] - place[0]].data).readlines()
        return self._convert_one_by_one(lines, fields, file, place)

    def _convert_one_by_one(
        self,
        lines: Sequence[bytes],
        fields: Mapping[str, JsonField],
        file: SourceFile,
        place: tuple[int, ...],
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Do so for lines that hold something else, and find what is wrong with them."""
        offset, _, first_line, first_row = place
        objects: list[dict[str, Any]] = []
        texts: list[bytes] = []
        places: list[tuple[int, int]] = []  # offset and line of every row
        reasons: dict[int, tuple[str, str | None]] = {}  # and the stream
        for number, line in enumerate(lines, first_line):
            if not line.isspace():
                places.append((offset, number))
                texts.append(line)
                try:
                    objects.append(_parse(line))
                except (ValueError, RecursionError) as error:
                    reasons[len(objects)] = f"no JSON object: {error}", None
                    objects.append({})
            offset += len(line)
        columns = []
        for name, field in fields.items():
            key = self.fields[name]
            values = [one.get(key, LACKING) for one in objects]
            column, wrong = field.convert(values, partial(_parse_exactly, texts, key))
            columns.append(column)
            for row, reason in wrong.items():
                reasons.setdefault(row, (f"the field {key!r} {reason}", name))
        return columns, {
            row: DataError(
                reason, file.path, places[row][0], None, stream, first_row + row, places[row][1]
            )
            for row, (reason, stream) in sorted(reasons.items())
        }


def _parse(line: bytes, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    text = line.decode().rstrip("\r\n")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=parse_float,
            object_pairs_hook=_mark_repeated,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _parse_exactly(texts: Sequence[bytes], key: str, row: int) -> Any:
    return _parse(texts[row], Decimal)[key]


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


def _find_begin(file: SourceFile) -> int:
    """Return where the first line begins, behind a byte order mark."""
    head = file.read(0, min(file.size, 4)).tobytes()
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"the file is {name}", file.path, 0)
    return len(_BOM) if head.startswith(_BOM) else 0


def _read_text(source: io.BufferedReader, file: SourceFile) -> bytes:
    """Return the next lines, about as many bytes as make a unit."""
    text = source.read(_UNIT_BYTES)
    if text and not text.endswith(b"\n"):
        text += source.readline(_MAX_LINE_BYTES + 1)
        begin = text.rfind(b"\n", 0, -1) + 1
        if len(text) - begin > _MAX_LINE_BYTES:
            raise DataError(
                f"a line has more than {_MAX_LINE_BYTES} bytes; is this JSON lines?",
                file.path,
                source.tell() - (len(text) - begin),
            )
    return text


def _is_jsonl(path: AnyPath) -> bool:
    return head_of(path, 64).removeprefix(_BOM).lstrip().startswith(b"{")


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    return wanted.open_files(JSONLDeserializer, files)


FORMAT = Format("JSON lines", _is_jsonl, _open)
