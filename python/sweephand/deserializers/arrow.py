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
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus.columns import blank_column
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.array import is_table, wrong_data
from sweephand.deserializers.open_path import SelfDescribed
from sweephand.deserializers.units.arrow_units import (
    MAX_UNIT_BYTES,
    ArrowUnits,
    data_errors,
    read_schema,
    repeated_bytes,
    streams_of,
)
from sweephand.deserializers.units.unit_scan import Columns, Facts, RowIds, UnitScan
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Index, Keep, check_keep, join_scans
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


class ArrowDeserializer(SelfDescribed):
    """Serve rows of Arrow data, each a sequence.

    Columns become streams as in `ParquetDeserializer`. Tables and datasets in memory are served
    in place, each row by itself; files are read by record batches, in chunks of about
    8 MiB, and the lengths of lists are kept in an index.

    Parameters
    ----------
    source : table, Hugging Face dataset, stream, path, or sequence of paths
        A ``pyarrow.Table``; a ``datasets.Dataset``, also after select, shuffle and filter, its
        columns as they are stored; anything else with ``__arrow_c_stream__``, such
        as a DataFrame of pandas or polars or a record batch reader, which is read into memory
        at once; IPC files, of the stream or the file format, as paths, globs or URLs; a folder
        that ``Dataset.save_to_disk`` wrote.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        As in `ParquetDeserializer`.
    index, ids
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

    def __init__(
        self,
        source: Any,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        pa()  # says what to install
        options: dict[str, Any] = {"index": check_keep(index), "ids": ids}
        self._made_of = source, options
        self._inner: ArrowFiles | ArrowTable
        if isinstance(source, str | os.PathLike):
            self._inner = ArrowFiles(_files_of(spec_of(source)), streams, index=index, ids=ids)
        elif isinstance(source, Sequence) and source and not isinstance(source[0], Mapping):
            self._inner = ArrowFiles(source, streams, index=index, ids=ids)
        else:
            order = None
            # Without importing datasets: who passes one has it imported.
            if hasattr(source, "_indices") and type(source).__module__.startswith("datasets."):
                table, order = _open_dataset(source)
            else:
                table = source if isinstance(source, pa.Table) else _read_stream(source)
                self._made_of = table, options  # a stream is read only once
            self._inner = ArrowTable(table, streams, order, ids)
        self.definitions = self._inner.definitions

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: a dataset knows its files."""
        source, options = self._made_of
        return partial(type(self), **options), (source, self.definitions)

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        return self._inner.open(ledger)

    def _description(self) -> str:
        return self._inner._description()


def _open_dataset(dataset: Any) -> tuple[Any, NDArray[np.int64] | None]:
    """Return the table of a dataset, and the row of each sequence if they are in no order.

    Its own Arrow stream would copy the rows of an indices mapping.
    """
    table, form, indices = dataset.data.table, dataset.format, dataset._indices
    if form["type"] == "custom" or form["format_kwargs"]:
        raise ValueError(
            f"the dataset has a transform, or the format {form['type']!r} with options, which "
            "are not applied here: give the dataset to MapDeserializer, or its data as they "
            "are, dataset.with_format(None), with a dtype in a StreamDef"
        )
    if not form["output_all_columns"]:
        table = table.select(form["columns"])
    order = None if indices is None else np.asarray(indices.column(0).to_numpy(), np.int64)
    return table, order


def _read_stream(source: Any) -> Any:
    if not is_table(source):
        raise wrong_data(
            "give a table, a Hugging Face Dataset, an Arrow stream or paths of IPC files",
            source,
        )
    try:
        table = pa.RecordBatchReader.from_stream(source).read_all()
        return _with_nan(table, source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = "; ".join(map(str, error.args))
        raise ValueError(
            f"the {type(source).__name__} is no table of Arrow: {reason}"
        ) from error


def _with_nan(table: Any, frame: Any) -> Any:
    """Return the table of a DataFrame with NaN where pandas has it, and hands it over as null.

    It is a value of floats and of lists of them; in a column of texts it is pandas' null.
    """
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "iloc"):
        return table
    for number, name in enumerate(table.schema.names[: frame.shape[1]]):
        column = frame.iloc[:, number]
        has_nulls = table.column(number).null_count or pa.types.is_nested(
            table.column(number).type
        )
        if (
            not has_nulls
            or not isinstance(column.dtype, np.dtype)
            or column.dtype.kind not in "fO"
        ):
            continue
        try:
            values = pa.array(column.to_numpy(), from_pandas=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue  # texts beside NaN
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
        mapping = content.get("_indices_data_files") or content.get("_indices_files")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"no state of a saved dataset: {error!r}", str(state)) from error
    if mapping:
        raise DataError(
            "the dataset was saved with an indices mapping by an old version; load it by "
            "datasets.load_from_disk and pass it on",
            str(state),
        )
    if not names:
        raise DataError("the dataset has no files", str(state))
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or name in (".", ".."):
            raise DataError(f"the file {name!r} is not in the folder", str(state))
    return [str(folder / name) for name in names]


class ArrowFiles(ArrowUnits):
    """Serve the rows of IPC files; see `ArrowDeserializer`."""

    format = "arrow 1"

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if no record batch follows the schema."""
        with open_to_scan(file) as source:
            begin = _find_stream(file)
            source.seek(begin)
            _read_message(source, file, begin)
            return any(source.read(_END_MARK)[4:])

    def guess_streams(self) -> StreamDefs:
        """Return the columns of the first file's schema that can be served."""
        file = self.first_file
        read = ipc.open_file if _find_stream(file) else ipc.open_stream
        schema = read_schema(lambda source: read(source).schema, file)
        streams, self.left_out = streams_of(schema, file.path)
        return streams

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read every record batch once."""
        scan = UnitScan()
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
                    self._add_batch(scan, message, prefix, (begin, end), file)
                advance(end - begin)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read record batches."""
        first, stop = facts["record batch"][begin][0], facts["record batch"][end - 1][1]
        before = [one for one in facts["dictionary"] if one[0] < first]
        prefix = _read_prefix(file, tuple(map(tuple, facts["schema"] + before)))
        content = _core.read.empty_bytes(len(prefix) + stop - first)
        content[: len(prefix)] = prefix
        file.read_into(first, content[len(prefix) :])
        with data_errors(file.path, f"record batch {begin}"):
            return self.to_columns(self._decode(content), file.path)

    def _add_batch(
        self,
        scan: UnitScan,
        message: Any,
        prefix: Sequence[Any],
        place: Place,
        file: SourceFile,
    ) -> None:
        number, first = len(scan.rows), sum(scan.rows)
        num_bytes = place[1] - place[0]
        num_rows = 0
        try:
            with data_errors(file.path, f"record batch {number}"):
                _check_bytes(number, num_bytes, file.path)
                (batch,) = self._decode(b"".join([*prefix, message.serialize()]))
                num_rows = batch.num_rows
                wanted = {*self.fields.values()}.intersection(batch.schema.names)
                num_bytes += sum(repeated_bytes(batch.column(name)) for name in wanted)
                _check_bytes(number, num_bytes, file.path)
                columns, wrong = self.to_columns([batch], file.path, first=first)
                scan.add_faults(wrong, first)
        except DataError as error:
            scan.add_error(error.within(offset=place[0]), range(first, first + num_rows))
            kinds = scan.kinds.values()
            lost = np.zeros(num_rows, np.int64)
            columns = [blank_column(one.to_column(), lost) for one in kinds]
        scan.add_unit(dict(zip(self.definitions, columns, strict=True)))
        scan.rows[-1], scan.num_bytes[-1] = num_rows, num_bytes

    def _decode(self, content: bytes | NDArray[np.uint8]) -> list[Any]:
        options = ipc.IpcReadOptions(ensure_alignment=ipc.Alignment.DataTypeSpecific)
        batches = []
        for batch in ipc.open_stream(pa.py_buffer(content), options=options):
            batch.validate()
            batches.append(batch)
        return batches


def _check_bytes(number: int, num_bytes: int, path: str) -> None:
    if num_bytes > MAX_UNIT_BYTES:
        raise DataError(
            f"record batch {number} has {num_bytes} bytes; at most {MAX_UNIT_BYTES} are read "
            "at once: write smaller ones",
            path,
        )


@lru_cache(_PREFIXES)
def _read_prefix(file: SourceFile, places: Sequence[Place]) -> NDArray[np.uint8]:
    return np.concatenate([file.read(begin, end - begin) for begin, end in places])


def _find_stream(file: SourceFile) -> int:
    """Return where the stream of messages begins; look at both ends of the file."""
    head = file.head(len(_FILE_MAGIC))
    if not head:
        raise DataError(
            "the file is empty; an Arrow stream has a schema at least", file.path, 0
        )
    if head != _FILE_MAGIC:
        return 0
    tail = file.read(file.size - len(head), len(head)).tobytes()
    if tail != _FILE_MAGIC:
        raise DataError(
            f"the file is cut short: it ends with {tail!r}, not {_FILE_MAGIC!r}",
            file.path,
            file.size - len(head),
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


class ArrowTable(ArrowUnits):
    """Serve the rows of a pyarrow.Table; every record batch is a unit, and a chunk."""

    format = "table"

    def __init__(
        self,
        table: Any,
        streams: StreamsLike | None,
        order: NDArray[np.int64] | None = None,
        ids: RowIds | None = None,
    ) -> None:
        memory = _Memory("table", "table", table.nbytes, "")
        self._batches = table.to_batches()
        self._schema = table.schema
        self.is_resident = True
        super().__init__(FileList([memory], []), streams, ids=ids)
        reach = np.zeros(1, np.int64) if order is None or not order.size else order
        if reach.min() < 0 or reach.max() >= max(1, table.num_rows):
            raise DataError(
                f"the indices mapping reaches beyond the {table.num_rows} rows", "table"
            )
        self.order = order

    def guess_streams(self) -> StreamDefs:
        """Return the columns that can be served."""
        streams, self.left_out = streams_of(self._schema, self.files[0].path)
        return streams

    def load_index(self) -> Index:
        """Find the streams and rows; nothing is read from a file."""
        return join_scans(self.files, [self._scan(self.files[0], lambda num_bytes: None)])

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Look at every record batch."""
        scan = UnitScan()
        scan.kinds = self.kinds_of(self._schema, file.path)
        for batch in self._batches:
            first = sum(scan.rows)
            columns, wrong = self.to_columns([batch], file.path, first=first)
            scan.add_faults(wrong, first)
            scan.add_unit(dict(zip(self.definitions, columns, strict=True)))
            scan.num_bytes[-1] = batch.nbytes
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Take record batches as they are."""
        return self.to_columns(self._batches[begin:end], file.path)


@dataclass(frozen=True)
class _Memory(SourceFile):
    """Placeholder for the file of data in memory, which never change."""

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        raise NotImplementedError

    def check_unchanged(self) -> None:
        pass
