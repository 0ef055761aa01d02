"""Tables of text, CSV and TSV, parsed by pyarrow."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus.casts import element_type
from sweephand.corpus.columns import ColumnData, concat_columns, spread
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.units.arrow_columns import convert
from sweephand.deserializers.units.line_scan import BOM, LineConverter, LinePlace, records_of
from sweephand.deserializers.units.line_units import LineUnits
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.deserializers.units.text_numbers import guess_dtype, read_numbers
from sweephand.deserializers.units.unit_scan import Columns, SampleType, known_fields
from sweephand.errors import DataError
from sweephand.files.contents import MAX_EXPANSION
from sweephand.files.index_places import Keep
from sweephand.files.source_file import Files, SourceFile

pa = OptionalModule("pyarrow", extra="parquet")
pa_csv = OptionalModule("pyarrow.csv", extra="parquet")

_HEAD_BYTES = 1 << 20
_PIECE_BYTES = 1 << 19  # that are parsed at a time
_PREFIX = re.compile(r"CSV parse error: (Row #\d+: )?")


class CSVDeserializer(LineUnits):
    r"""Serve the rows of tables of text, each a sequence of one sample in every stream.

    The first line of every file names the columns. A column holds integers, floats, true and
    false, or text, which is delivered as ``bytes``; the first MiB of the first file, or a
    ``dtype``, decides. Numbers are exact or errors, by the table in ``docs/numbers.md``;
    ``nan`` and ``inf`` are floats, and an empty cell is not a number. Values in quotes (``"``)
    may hold delimiters, line ends, and doubled quotes. Blank lines are ignored.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs; plain, or compressed by gzip or zstd.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns. ``field`` is the name of the column; ``dtype=object`` reads
        numbers as text.
    delimiter : str, optional
        The character between values; by default a tab if the first file is named ``.tsv``, else
        a comma.
    max_expansion : int
        Largest expansion of a compressed file, by factor; a file that exceeds it beyond its
        first 64 MiB is refused.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a column of integers or text, or one id
        for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if a file has other columns than the first; beyond ``max_errors`` if
        a row has more or fewer values than there are columns, a number is missing, or a value
        does not fit its column.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text('score,text\n1.5,"a, b"\n2,c\n')
    >>> source = sh.MinibatchSource(sh.CSVDeserializer(path), randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(2)
    >>> minibatch["score"].values, minibatch["text"].values
    (array([1.5, 2. ]), array([b'a, b', b'c'], dtype=object))
    """

    format = "csv 2"
    decoder = pa_csv
    quote = b'"'
    has_header = True

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        delimiter: str | None = None,
        *,
        max_expansion: int = MAX_EXPANSION,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
            raise ValueError(f"delimiter must be one character of ASCII, got {delimiter!r:.20}")
        self._delimiter = delimiter
        self._found: dict[str, str] | None = None
        super().__init__(files, streams, max_expansion=max_expansion, index=index, ids=ids)
        columns = self._columns()
        self.options = {"delimiter": self._separator, "columns": list(columns.items())}
        for name, field in self.fields.items():
            if field not in columns:
                known = known_fields(lambda: columns)
                reason = f"there is no field {field!r}{known}"
                raise DataError(reason, self.first_file.path, stream=name)

    @property
    def _separator(self) -> str:
        is_tabs = ".tsv" in self.files[0].name.lower()
        return self._delimiter or ("\t" if is_tabs else ",")

    def guess_streams(self) -> StreamDefs:
        """Return all columns."""
        return StreamDefs({name: StreamDef() for name in self._columns()})

    def _columns(self) -> dict[str, str]:
        """Return the types of the columns of the first file, by their names."""
        if self._found is None:
            head = self.head(_HEAD_BYTES).removeprefix(BOM)
            header, _, rows = head.partition(b"\n")
            whole = rows[: rows.rfind(b"\n") + 1] or rows
            names = _names_in(header, self._separator, self.first_file)
            self._found = _guess_types(names, self._separator, whole)
        return self._found

    def check_header(self, line: bytes, file: SourceFile) -> None:
        """Refuse a file whose columns are not those of the first."""
        names = _names_in(line, self._separator, file)
        if names != list(self._columns()):
            raise DataError(
                f"the columns are {', '.join(names):.200} here and "
                f"{', '.join(self._columns()):.200} in {self.first_file.path}; all files of a "
                "corpus must agree",
                file.path,
                0,
            )

    def converter(self) -> LineConverter:
        """Return the parser of rows."""
        columns = self._columns()
        types = {
            name: _type_of(columns[field], self.definitions[name])
            for name, field in self.fields.items()
        }
        return _Rows(list(columns), self.fields, types, self._separator)


@dataclass
class _Rows:
    """Parser of rows of text."""

    columns: list[str]
    fields: Mapping[str, str]
    types: Mapping[str, np.dtype[Any] | None]
    between: str
    padding: int = 0

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams."""
        empty = convert(pa.nulls(0, pa.binary()))[0]
        return {
            name: SampleType.of(empty if dtype is None else read_numbers(empty, dtype)[0])
            for name, dtype in self.types.items()
        }

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        """Return the streams of rows, and the faults by row."""
        parts: list[list[ColumnData]] = []
        wrong: dict[int, tuple[str | None, str]] = {}
        num_rows = num_lines = 0
        for text in _pieces_of(padded):
            try:
                columns, faults = self._parse(text)
            except pa.ArrowInvalid:
                columns, faults = self._parse_one_by_one(text)
            wrong |= {num_rows + row: fault for row, fault in faults.items()}
            num_rows += columns[0].num_sequences
            num_lines += text.count(b"\n") + (not text.endswith(b"\n"))
            parts.append(columns)
        is_plain = num_lines == num_rows
        # One after the other, so that no more than one is there twice.
        columns = [concat_columns([part.pop(0) for part in parts]) for _ in self.fields]
        return columns, {
            row: DataError(
                reason,
                file.path,
                None,
                None,
                stream,
                place.row + row,
                place.line + row if is_plain else None,
            )
            for row, (stream, reason) in sorted(wrong.items())
        }

    def _parse(self, text: bytes) -> tuple[list[ColumnData], dict[int, tuple[str | None, str]]]:
        """Return the streams; ArrowInvalid if a row is damaged."""
        columns = []
        wrong: dict[int, tuple[str | None, str]] = {}
        table = None
        if text.strip(b"\r\n"):
            fields = list(dict.fromkeys(self.fields.values()))
            table = _read(text, self.columns, self.between, fields)
        for name, field in self.fields.items():
            array = pa.nulls(0, pa.binary())
            if table is not None:
                array = _whole(table.column(field))
            column = convert(array)[0]
            dtype = self.types[name]
            if dtype is not None:
                column, reasons = read_numbers(column, dtype)
                for row, reason in reasons.items():
                    wrong.setdefault(row, (name, f"the field {field!r} {reason}"))
            columns.append(column)
        return columns, wrong

    def _parse_one_by_one(
        self, text: bytes
    ) -> tuple[list[ColumnData], dict[int, tuple[str | None, str]]]:
        """Parse rows of which a few are damaged."""
        wrong: dict[int, tuple[str | None, str]] = {}
        good: list[int] = []
        kept: list[bytes] = []
        records = [one for one in records_of(text, CSVDeserializer.quote) if one.strip(b"\r\n")]
        for row, record in enumerate(records):
            try:
                self._parse(record)
            except pa.ArrowInvalid as error:
                reason = _PREFIX.sub("", str(error).partition("\n")[0])
                wrong[row] = None, f"the row is damaged: {reason:.200}"
            else:
                good.append(row)
                kept.append(record if record.endswith(b"\n") else record + b"\n")
        columns, empty = self._parse(b"".join(kept))
        wrong |= {good[row]: reason for row, reason in empty.items()}
        rows = np.array(good, np.int64)
        return [spread(column, rows, len(records)) for column in columns], wrong


def _pieces_of(text: NDArray[np.uint8]) -> Iterator[bytes]:
    """Cut text at ends of lines, as a parser holds several times the size of its input.

    From a quote on it stays whole, as a line may end within a value there.
    """
    begin = 0
    while True:
        piece = text[begin : begin + _PIECE_BYTES].tobytes()
        if begin + len(piece) < len(text):
            whole_lines = piece[: piece.rfind(b"\n") + 1]
            is_cut = whole_lines and CSVDeserializer.quote not in piece
            piece = whole_lines if is_cut else text[begin:].tobytes()
        yield piece
        begin += len(piece)
        if begin >= len(text):
            return


def _whole(column: Any) -> Any:
    """Return a column as a single array, without a copy if it is an array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _read(
    text: bytes,
    names: list[str],
    between: str,
    wanted: list[str],
    *,
    skip_damaged: bool = False,
) -> Any:
    """Return columns of text; numbers are parsed here and not by pyarrow."""
    skipping = {"invalid_row_handler": lambda _: "skip"} if skip_damaged else {}
    return pa_csv.read_csv(
        pa.BufferReader(text),
        read_options=pa_csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=names
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=between, newlines_in_values=True, **skipping
        ),
        convert_options=pa_csv.ConvertOptions(
            check_utf8=False,
            null_values=[],
            strings_can_be_null=False,
            column_types=dict.fromkeys(wanted, pa.binary()),
            include_columns=wanted,
        ),
    )


def _names_in(line: bytes, between: str, file: SourceFile) -> list[str]:
    """Return the names of the columns."""
    try:
        text = line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        kind = "UTF-16" if line.startswith((b"\xff\xfe", b"\xfe\xff")) else "no UTF-8"
        raise DataError(f"the first line is in {kind}", file.path, 0) from None
    try:
        names = next(csv.reader(io.StringIO(text), delimiter=between), [])
    except csv.Error as error:
        raise DataError(f"the first line names no columns: {error}", file.path, 0) from None
    if not names or "" in names:
        raise DataError("the first line does not name the columns", file.path, 0)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"there are several columns {twice[0]!r}", file.path, 0)
    return names


def _guess_types(names: list[str], between: str, text: bytes) -> dict[str, str]:
    """Return the dtype of every column, or "bytes"."""
    if not text.strip(b"\r\n"):
        return dict.fromkeys(names, "bytes")
    text = text.decode(errors="replace").encode()  # pyarrow shows rows that it skips
    try:
        table = _read(text, names, between, names, skip_damaged=True)
    except pa.ArrowInvalid:
        return dict.fromkeys(names, "bytes")
    return {name: guess_dtype(convert(_whole(table.column(name)))[0]) for name in names}


def _type_of(guessed: str, definition: StreamDef) -> np.dtype[Any] | None:
    """Return the dtype of the numbers of a column; None: it is text."""
    if definition.dtype is None:
        return None if guessed == "bytes" else np.dtype(guessed)
    wanted = np.dtype(definition.dtype)
    if wanted.kind == "O":
        return None
    is_number = element_type(wanted) != _core.base.ElementType.opaque
    return wanted if is_number else np.dtype("float64")
