"""Arrow tables, streams and files, and Hugging Face datasets.

::

    stream   schema | dictionary ... | record batch | ... | FF FF FF FF 00 00 00 00
    file     "ARROW1" 0 0 | stream | footer | i32 footer bytes | "ARROW1"

Every message is FF FF FF FF, i32 bytes of metadata, metadata, body, padded to 8 bytes. A run of
batches, after the schema and the dictionaries that precede it, is a stream of its own.
https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus.columns import blank_column
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.array import is_table, wrong_data
from sweephand.deserializers.units.arrow_units import (
    MAX_UNIT_BYTES,
    ArrowUnits,
    data_errors,
    read_schema,
    repeated_bytes,
    streams_of,
)
from sweephand.deserializers.units.unit_scan import Columns, Facts, RowIds, UnitScan
from sweephand.errors import DataError, shown
from sweephand.files.index_file import Advance, Index, Keep, join_scans
from sweephand.files.local import open_regular
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import FileList, SourceFile, spec_of
from sweephand.files.urls import is_url

pa = OptionalModule("pyarrow", extra="parquet")
ipc = OptionalModule("pyarrow.ipc", extra="parquet")

_FILE_MAGIC = b"ARROW1"
_FILE_BEGIN = 8  # where the stream begins in a file, after the magic
_END_MARK = 8  # bytes
_PREFIXES = 64  # that are kept; all others are read again
Place = tuple[int, int]  # where a message begins and ends in its file


class ArrowDeserializer(ArrowUnits):
    """Serve rows of Arrow data, each a sequence.

    Tables and datasets in memory are served in place, each row by itself; files are read by
    record batches, in chunks of about 8 MiB, and the lengths of lists are kept in an index.

    Parameters
    ----------
    source : table, Hugging Face dataset, stream, path, or sequence of paths
        A ``pyarrow.Table``; a ``datasets.Dataset``, also after select, shuffle and filter, its
        columns as they are stored; anything else with ``__arrow_c_stream__``, such
        as a DataFrame of pandas or polars or a record batch reader, which is read into memory
        at once; IPC files, of the stream or the file format, as paths, globs or URLs; a folder
        that ``Dataset.save_to_disk`` wrote.
    streams, index, ids
        As in `ParquetDeserializer`.

    Examples
    --------
    >>> import pyarrow as pa, sweephand as sh
    >>> table = pa.table({"tokens": [[1, 2, 3], [4, 5]], "text": ["a", "b"]})
    >>> corpus = sh.ArrowDeserializer(table)
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(3)["text"].values
    array([b'a'], dtype=object)
    """

    format = "arrow 1"

    def __init__(
        self,
        source: Any,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        pa()  # says what to install
        files, self._table = source, None
        if isinstance(source, str | os.PathLike):
            files = _files_of(spec_of(source))
        elif not isinstance(source, Sequence) or not source or isinstance(source[0], Mapping):
            # Without importing datasets: who passes one has it imported.
            if hasattr(source, "_indices") and type(source).__module__.startswith("datasets."):
                self._table, self.order = _open_dataset(source)
            else:
                self._table = source if isinstance(source, pa.Table) else _read_stream(source)
                source = self._table  # a stream is read only once
            self._batches = self._table.to_batches()
            self.is_resident = True
            files = FileList([_Memory("table", "table", self._table.nbytes, "")])
        self._source = source
        super().__init__(files, streams, index=index, ids=ids)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: a dataset knows its files."""
        made = partial(type(self), index=self.keep, ids=self.ids)
        return made, (self._source, self.definitions)

    def __copy__(self) -> ArrowDeserializer:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if no record batch follows the schema."""
        if self._table is not None:
            return True
        with open_to_scan(file) as source:
            begin = _find_stream(file)
            source.seek(begin)
            _read_message(source, file, begin)
            return any(source.read(_END_MARK)[4:])

    def guess_streams(self) -> StreamDefs:
        """Return the columns that can be served, by the schema of the table or first file."""
        file = self.first_file
        if self._table is not None:
            schema = self._table.schema
        else:
            read = ipc.open_file if _find_stream(file) else ipc.open_stream
            schema = read_schema(lambda source: read(source).schema, file)
        streams, self.left_out = streams_of(schema, file.path)
        return streams

    def load_index(self) -> Index:
        """Return the facts of the rows; nothing is kept of those in memory."""
        if self._table is None:
            return super().load_index()
        return join_scans(self.files, [self._scan(self.files[0], lambda num_bytes: None)])

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read every record batch once."""
        scan = UnitScan()
        if self._table is not None:
            scan.kinds = self.kinds_of(self._table.schema, file.path)
            for batch in self._batches:
                self._add_batch(scan, batch, batch.nbytes, file.path)
            return scan
        places: dict[str, list[Place]] = {"schema": [], "dictionary": [], "record batch": []}
        scan.facts = places
        prefix: list[Any] = []  # the schema and the dictionaries
        with open_to_scan(file) as source:
            source.seek(_find_stream(file))
            while True:
                begin = source.tell()
                try:
                    message = _read_message(source, file, begin)
                    if message is None:
                        return scan
                    if message.type not in places or (message.type == "schema") != (not prefix):
                        raise DataError(f"unexpected message: {message.type}", file.path, begin)
                    end = source.tell()
                    if message.type != "record batch":
                        prefix.append(message.serialize())
                except DataError as error:  # the rest cannot be found
                    scan.add_error(error)
                    return scan
                places[message.type].append((begin, end))
                if message.type == "record batch":
                    if not scan.rows:  # a file without one may have any types
                        with data_errors(file.path, "the schema"):
                            schema = ipc.open_stream(prefix[0]).schema
                            scan.kinds = self.kinds_of(schema, file.path)
                    content = b"".join([*prefix, message.serialize()])
                    self._add_encoded(scan, content, (begin, end), file.path)
                advance(end - begin)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read record batches."""
        if self._table is not None:
            return self.to_columns(self._batches[begin:end], file.path)
        first, stop = facts["record batch"][begin][0], facts["record batch"][end - 1][1]
        before = [one for one in facts["dictionary"] if one[0] < first]
        prefix = _read_prefix(file, tuple(map(tuple, facts["schema"] + before)))
        content = _core.read.empty_bytes(len(prefix) + stop - first)
        content[: len(prefix)] = prefix
        file.read_into(first, content[len(prefix) :])
        with data_errors(file.path, f"record batch {begin}"):
            return self.to_columns(self._decode(content), file.path)

    def _add_encoded(self, scan: UnitScan, content: bytes, place: Place, path: str) -> None:
        number, first = len(scan.rows), sum(scan.rows)
        num_rows = 0
        try:
            with data_errors(path, f"record batch {number}"):
                (batch,) = self._decode(content)
                num_rows = batch.num_rows
                wanted = {*self.fields.values()}.intersection(batch.schema.names)
                num_bytes = sum(repeated_bytes(batch.column(name)) for name in wanted)
                num_bytes += place[1] - place[0]
                if num_bytes > MAX_UNIT_BYTES:
                    reason = f"{num_bytes} bytes; write batches of at most {MAX_UNIT_BYTES}"
                    raise DataError(f"record batch {number} has {reason}", path)
                self._add_batch(scan, batch, num_bytes, path)
        except DataError as error:
            scan.add_error(error.within(offset=place[0]), range(first, first + num_rows))
            lost = np.zeros(num_rows, np.int64)
            blank = {n: blank_column(one.to_column(), lost) for n, one in scan.kinds.items()}
            scan.add_unit(blank)
            scan.rows[-1], scan.num_bytes[-1] = num_rows, place[1] - place[0]

    def _add_batch(self, scan: UnitScan, batch: Any, num_bytes: int, path: str) -> None:
        first = sum(scan.rows)
        columns, wrong = self.to_columns([batch], path, first=first)
        scan.add_faults(wrong, first)
        scan.add_unit(dict(zip(self.definitions, columns, strict=True)))
        scan.rows[-1], scan.num_bytes[-1] = batch.num_rows, num_bytes

    def _decode(self, content: bytes | NDArray[np.uint8]) -> list[Any]:
        options = ipc.IpcReadOptions(ensure_alignment=ipc.Alignment.DataTypeSpecific)
        batches = []
        for batch in ipc.open_stream(pa.py_buffer(content), options=options):
            batch.validate()
            batches.append(batch)
        return batches


def _open_dataset(dataset: Any) -> tuple[Any, NDArray[np.int64] | None]:
    """Return the table of a dataset, and the row of each sequence if they are in no order."""
    table, form, indices = dataset.data.table, dataset.format, dataset._indices
    if form["type"] == "custom" or form["format_kwargs"]:
        raise ValueError(
            f"the dataset has a transform, or the format {form['type']!r} with options: give "
            "it to MapDeserializer, or its data as they are, dataset.with_format(None), with a "
            "dtype in a StreamDef"
        )
    if not form["output_all_columns"]:
        table = table.select(form["columns"])
    if indices is None:
        return table, None
    order = np.asarray(indices.column(0).to_numpy(), np.int64)
    if order.size and not 0 <= order.min() <= order.max() < table.num_rows:
        raise DataError(
            f"the indices mapping reaches beyond the {table.num_rows} rows", "table"
        )
    return table, order


def _read_stream(source: Any) -> Any:
    if not is_table(source):
        raise wrong_data(
            "give a table, a Dataset, an Arrow stream or paths of IPC files", source
        )
    try:
        table = pa.RecordBatchReader.from_stream(source).read_all()
        return _with_nan(table, source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = "; ".join(map(str, error.args))
        raise ValueError(f"{shown(source)} is no table of Arrow: {reason}") from error


def _with_nan(table: Any, frame: Any) -> Any:
    """Return the table of a DataFrame with NaN where pandas has it, and hands it over as null.

    It is a value of floats and of lists of them; in a column of texts it is pandas' null.
    """
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "iloc"):
        return table
    for number, name in enumerate(table.schema.names[: frame.shape[1]]):
        given, column = frame.iloc[:, number], table.column(number)
        can_have_nan = isinstance(given.dtype, np.dtype) and given.dtype.kind in "fO"
        if can_have_nan and (column.null_count or pa.types.is_nested(column.type)):
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # texts beside NaN
                values = pa.array(given.to_numpy(), from_pandas=False)
                table = table.set_column(number, name, values)
    return table


def _files_of(path: str) -> str | list[str]:
    """Return the files of a folder that save_to_disk wrote; anything else as it is."""
    folder = Path(path)
    if is_url(path) or not folder.is_dir():
        return path
    if (folder / "dataset_dict.json").exists():
        raise ValueError(f"{path!r} holds splits: give the folder of one of them")
    state = folder / "state.json"
    if not state.exists():
        raise DataError("the folder has no state.json, as save_to_disk writes it", path)
    try:
        with open_regular(state) as file:
            content = json.load(file)
        names = [file["filename"] for file in content["_data_files"]]
        if content.get("_indices_data_files") or content.get("_indices_files"):
            raise ValueError(
                "an old version saved it with an indices mapping: load and save it"
            )
        if not names or any(name == ".." or Path(name).name != name for name in names):
            raise ValueError("its files are not in the folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"no state of a saved dataset: {error!r}", str(state)) from error
    return [str(folder / name) for name in names]


@lru_cache(_PREFIXES)
def _read_prefix(file: SourceFile, places: Sequence[Place]) -> NDArray[np.uint8]:
    return np.concatenate([file.read(begin, end - begin) for begin, end in places])


def _find_stream(file: SourceFile) -> int:
    """Return where the stream of messages begins; look at both ends of the file."""
    if not file.size:
        raise DataError("the file is empty, without a schema", file.path, 0)
    if file.head(len(_FILE_MAGIC)) != _FILE_MAGIC:
        return 0
    end = file.size - len(_FILE_MAGIC)
    if file.read(end, len(_FILE_MAGIC)).tobytes() != _FILE_MAGIC:
        raise DataError(
            f"the file is cut short: it ends without {_FILE_MAGIC!r}", file.path, end
        )
    return _FILE_BEGIN


def _read_message(source: Any, file: SourceFile, begin: int) -> Any:
    """Return the next message; None at the end of the stream."""
    try:
        with data_errors(file.path, "the message"):
            return ipc.read_message(source)
    except EOFError:
        if source.tell() - begin != _END_MARK:
            raise DataError(
                "the stream has no end mark: the file was cut, or its writer did not close it",
                file.path,
                begin,
            ) from None
        return None
    except DataError as error:
        raise error.within(offset=begin) from error.__cause__


@dataclass(frozen=True)
class _Memory(SourceFile):
    """Placeholder for the file of data in memory, which never change."""

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        raise NotImplementedError

    def check_unchanged(self) -> None:
        pass
