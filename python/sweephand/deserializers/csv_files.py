"""Tables of text, CSV and TSV: rows and values as Python's csv reads them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.columns import ColumnData, bytes_column, column_of_bytes, concat_columns
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.units import line_units
from sweephand.deserializers.units.line_units import (
    BOM,
    LineConverter,
    LinePlace,
    LineScan,
    LineUnits,
    Pieces,
    find_begin,
)
from sweephand.deserializers.units.text_numbers import guess_dtype, read_numbers
from sweephand.deserializers.units.unit_scan import Columns, RowIds, SampleType, known_fields
from sweephand.errors import DataError
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression
from sweephand.files.source_file import Files, SourceFile

_HEAD_BYTES = 1 << 20
_PIECE_BYTES = 1 << 19  # that are parsed at a time: cells take several times the text


_MOST_ROW_BYTES = line_units.MOST_LINE_BYTES
_SEVERAL = "there are several columns {!r}"


class CSVDeserializer(LineUnits):
    r"""Serve the rows of tables of text, each a sequence of one sample in every stream.

    The first row of every file names the columns. A column holds integers, floats, true and
    false, or text, which is delivered as ``bytes``; the first MiB of the first file, or a
    ``dtype``, decides. ``nan`` and ``inf`` are floats, and an empty cell is not a number.
    Values in quotes (``"``) may hold delimiters, line ends, and doubled quotes, as
    ``csv.reader(strict=True)`` reads them. Blank lines are ignored.

    Parameters
    ----------
    files, index, ids
        As in `ParquetDeserializer`; files may be compressed by gzip or zstd, and cells of ids
        are taken as they are written.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns whose name is there once. ``field`` is the name of the column;
        ``dtype=object`` reads numbers as text.
    delimiter : str, optional
        The character between values; by default a tab if the first file is named ``.tsv``, else
        a comma.
    quoting : str or None
        The character around values; None: quotes are letters.
    columns : sequence of str, optional
        Names of the columns of files whose first row is data.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text('score,text\n1.5,"a, b"\n2,c\n')
    >>> source = sh.MinibatchSource(sh.CSVDeserializer(path), randomize=False, max_sweeps=1)
    >>> source.next_minibatch(2)["text"].values
    array([b'a, b', b'c'], dtype=object)
    """

    format = "csv 3"
    id_dtype = np.dtype(object)  # as they are written

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        delimiter: str | None = None,
        *,
        quoting: str | None = '"',
        columns: Sequence[str] | None = None,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        for name, one in (("delimiter", delimiter), ("quoting", quoting)):
            if one is not None and (len(one) != 1 or not one.isascii() or one in "\r\n"):
                raise ValueError(f"{name} must be one character of ASCII, got {one!r:.20}")
        if columns is not None and (isinstance(columns, str) or not all([columns, *columns])):
            raise ValueError(f"columns must be the names of all columns, got {columns!r:.80}")
        self._delimiter = delimiter
        self._quoting = quoting
        self._given = None if columns is None else list(columns)
        super().__init__(files, streams, index=index, ids=ids)
        if self._separator == quoting:
            raise ValueError(f"delimiter and quoting must differ, both are {quoting!r}")
        names, types = self._columns
        self.options = {
            "delimiter": self._separator,
            "quoting": quoting,
            "columns": [names, types, self._given is None],
        }
        for name, field in self.fields.items():
            if field not in types:
                known = f"there is no field {field!r}{known_fields(lambda: types)}"
                reason = _SEVERAL.format(field) if field in names else known
                raise DataError(reason, self.first_file.path, stream=name)

    @property
    def _separator(self) -> str:
        is_tabs = ".tsv" in self.files[0].name.lower()
        return self._delimiter or ("\t" if is_tabs else ",")

    @property
    def _form(self) -> _core.formats.TableForm:
        return _core.formats.TableForm(self._separator, self._quoting)

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if a file has blank lines alone, after its header."""
        head = self.head_of(file).removeprefix(BOM)
        finder = _core.formats.RowFinder(self._form)
        begin = finder.pass_row(head) if self._given is None else 0
        is_open = b"\n" in head[:begin] and not finder.is_between_rows  # in quotes
        return bool(is_open or head[begin:].strip())

    def pieces(
        self,
        source: io.BufferedReader,
        file: SourceFile,
        compression: Compression | None,
        scan: LineScan,
    ) -> Pieces:
        """Yield whole rows, after the header, which is that of the first file."""
        scan.begin_at(find_begin(source, file))
        finder = _core.formats.RowFinder(self._form)
        if self._given is None:
            header = _read_rows(source, file, scan.place.end, finder, 1, _HEAD_BYTES)
            names, known = self._names_in(header, file), self._columns[0]
            if header and names != known:
                raise DataError(
                    f"the columns are {', '.join(names):.200} here and {', '.join(known):.200} "
                    f"in {self.first_file.path}; all files of a corpus must agree",
                    file.path,
                    line=1,
                )
            scan.pass_over(header)
        yield from rows_of(source, file, scan.place.end, finder)

    def end_of_whole(self, text: bytes) -> int:
        return _core.formats.RowFinder(self._form).pass_all(text)

    def guess_streams(self) -> StreamDefs:
        names, types = self._columns
        self.left_out = {
            name or f"column {number}": "several have the name" if name else "it has no name"
            for number, name in enumerate(names, 1)
            if name not in types
        }
        return StreamDefs({name: StreamDef() for name in types})

    @cached_property
    def _columns(self) -> tuple[list[str], dict[str, str]]:
        """The names in the first file, and the dtypes, or "bytes", of those there once."""
        path = self.first_file.path
        head = self.head(_HEAD_BYTES + 1)
        rows = head.removeprefix(BOM)
        finder = _core.formats.RowFinder(self._form)
        names = self._given
        if names is None:
            end = finder.pass_row(rows)
            names = self._names_in(rows[:end], self.first_file)
            rows = rows[end:]
        if len(head) > _HEAD_BYTES:  # its last row may be cut
            rows = rows[: finder.pass_all(rows)]
        once = [name for name in names if name and names.count(name) == 1]
        if not once:
            reason = "the first line does not name the columns"
            if any(names):
                reason = _SEVERAL.format(next(filter(None, names)))
            raise DataError(reason, path, line=1)
        cells, *_ = _core.formats.read_table(
            np.frombuffer(rows, np.uint8),
            self._form,
            len(names),
            [names.index(name) for name in once],
            max(1, len(rows)),
        )
        types = (guess_dtype(bytes_column(*own)) for own in cells)
        return names, dict(zip(once, types, strict=True))

    def _names_in(self, line: bytes, file: SourceFile) -> list[str]:
        try:
            text = io.StringIO(line.decode(), newline="")
        except UnicodeDecodeError:
            raise DataError("the first line is no UTF-8", file.path, line=1) from None
        try:
            return next(
                csv.reader(
                    text,
                    delimiter=self._separator,
                    quotechar=self._quoting,
                    quoting=csv.QUOTE_MINIMAL if self._quoting else csv.QUOTE_NONE,
                    strict=True,
                ),
                [],
            )
        except csv.Error as error:
            reason = f"the first line names no columns: {error}"
            raise DataError(reason, file.path, line=1) from None

    def converter(self) -> LineConverter:
        names, guessed = self._columns
        types = {
            name: _type_of(guessed[field], self.definitions[name])
            for name, field in self.fields.items()
        }
        return _Rows(names, self.fields, types, self._form)


def rows_of(
    source: io.BufferedReader, file: SourceFile, at: int, finder: _core.formats.RowFinder
) -> Pieces:
    """Yield whole rows, whose values may hold line ends."""
    while text := _read_rows(source, file, at, finder, line_units.UNIT_BYTES, _MOST_ROW_BYTES):
        yield text, True
        at += len(text)


def _read_rows(
    source: io.BufferedReader,
    file: SourceFile,
    at: int,
    finder: _core.formats.RowFinder,
    size: int,
    most: int,
) -> bytes:
    """Return the next rows of a table, at least `size` bytes if there are as many."""
    parts = [source.read(size)]
    begin = finder.pass_all(parts[0])  # of the row that goes on
    num_bytes = len(parts[0]) - begin
    while not finder.is_between_rows and (near := source.peek()):
        parts.append(source.read(finder.pass_row(near)))
        num_bytes += len(parts[-1])
        if num_bytes > most:
            raise DataError(
                f"a row has more than {most} bytes; where quotes are letters, give "
                "quoting=None",
                file.path,
                at + begin,
            )
    return b"".join(parts)


@dataclass
class _Rows:
    """Parser of rows of text."""

    names: list[str]
    fields: Mapping[str, str]
    types: Mapping[str, np.dtype[Any] | None]
    form: _core.formats.TableForm
    padding: int = 0

    def kinds(self) -> dict[str, SampleType]:
        empty = column_of_bytes([])
        return {
            name: SampleType.of(empty if dtype is None else read_numbers(empty, dtype)[0])
            for name, dtype in self.types.items()
        }

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        wanted = {self.names.index(field): None for field in self.fields.values()}
        parts: list[list[ColumnData]] = []
        errors: dict[int, DataError] = {}
        begin = num_rows = num_lines = 0
        while begin < len(padded) or not parts:
            cells, lines, damage, size = _core.formats.read_table(
                padded[begin:], self.form, len(self.names), list(wanted), _PIECE_BYTES
            )
            texts = dict(zip(wanted, (bytes_column(*own) for own in cells), strict=True))
            columns: list[ColumnData] = []
            wrong: dict[int, tuple[str | None, str]] = {}  # by row a stream, and its fault
            for name, field in self.fields.items():
                column, reasons = texts[self.names.index(field)], dict[int, str]()
                if (dtype := self.types[name]) is not None:
                    column, reasons = read_numbers(column, dtype)
                columns.append(column)
                for row, reason in reasons.items():
                    wrong.setdefault(row, (name, f"the field {field!r} {reason}"))
            wrong |= {row: (None, f"the row is damaged: {why}") for row, why in damage.items()}
            for row, (stream, reason) in sorted(wrong.items()):
                errors[num_rows + row] = DataError(
                    reason,
                    file.path,
                    stream=stream,
                    sequence=place.row + num_rows + row,
                    line=place.line + num_lines + int(lines[row]),
                )
            parts.append(columns)
            begin += size
            num_rows += len(lines) - 1
            num_lines += int(lines[-1])
        # One after the other, so that no more than one is there twice.
        return [concat_columns([part.pop(0) for part in parts]) for _ in self.fields], errors


def _type_of(guessed: str, definition: StreamDef) -> np.dtype[Any] | None:
    """Return the dtype of the numbers of a column; None: it is text."""
    if definition.dtype is None:
        return None if guessed == "bytes" else np.dtype(guessed)
    wanted = np.dtype(definition.dtype)
    if wanted.kind == "O":
        return None
    is_number = element_type(wanted) != _core.base.ElementType.opaque
    return wanted if is_number else np.dtype("float64")
