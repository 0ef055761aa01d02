"""Arrow tables, streams and files, and Hugging Face datasets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import OptionalModule
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.arrow_files import ArrowFiles
from sweephand.deserializers.arrow_table import ArrowTable
from sweephand.deserializers.data_in_memory import is_table, wrong_data
from sweephand.deserializers.formats import SelfDescribed
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.errors import DataError
from sweephand.files.index_places import Keep, check_keep
from sweephand.files.local import open_regular
from sweephand.files.paths import AnyPath, begins_with
from sweephand.files.source_file import spec_of
from sweephand.files.urls import is_url

pa = OptionalModule("pyarrow", extra="parquet")

_ARROW = b"ARROW1\0\0"


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
    index : {"auto", "cache", None}
        Where the index of files is kept; as in `ParquetDeserializer`.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every row, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        As in `ParquetDeserializer`.
    TypeError
        If the source is none of these.
    ValueError
        If a dataset has a transform or a format that changes its values, as Arrow data pass
        neither.

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
            if not isinstance(source, pa.Table) and not _is_dataset(source):
                source = _read_stream(source)
                self._made_of = source, options  # a stream is read only once
            self._inner = ArrowTable(_table_of(source), streams, _order_of(source), ids)
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


def _is_dataset(source: object) -> bool:
    # Without importing datasets: who passes one has it imported.
    return type(source).__module__.partition(".")[0] == "datasets" and hasattr(
        source, "_indices"
    )


def _table_of(source: Any) -> Any:
    if not _is_dataset(source):
        return source
    # Not a dataset's own Arrow stream, which would copy the rows of an indices mapping.
    table, form = source.data.table, source.format
    if form["type"] == "custom":
        raise ValueError(
            "the dataset has a transform, which is made for rows in Python: give the dataset "
            "to MapDeserializer, or its data without the transform: dataset.with_format(None)"
        )
    if form["format_kwargs"]:
        options = ", ".join(
            f"{name}={value!r}" for name, value in form["format_kwargs"].items()
        )
        raise ValueError(
            f"the dataset has the format {form['type']!r} with {options}, which is not applied "
            "here: declare a dtype in a StreamDef, and give dataset.with_format(None)"
        )
    return table if form["output_all_columns"] else table.select(form["columns"])


def _order_of(source: Any) -> NDArray[np.int64] | None:
    """Return the row of each sequence of a dataset; None if they are in order."""
    if not _is_dataset(source) or source._indices is None:
        return None
    return np.asarray(source._indices.column(0).to_numpy(), np.int64)


def _read_stream(source: Any) -> Any:
    if not is_table(source):
        raise wrong_data(
            "give a table, a Hugging Face Dataset, an Arrow stream or paths of IPC files",
            source,
        )
    try:
        table = pa.RecordBatchReader.from_stream(source).read_all()
        return _with_nan(table, source) if _is_pandas(source) else table
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = "; ".join(map(str, error.args))
        raise ValueError(
            f"the {type(source).__name__} is no table of Arrow: {reason}"
        ) from error


def _is_pandas(source: object) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "iloc")


def _with_nan(table: Any, frame: Any) -> Any:
    """Return the table of a DataFrame of pandas with NaN where the frame has it.

    pandas hands NaN over as null. It is a value of floats and of lists of them; in a column of
    texts it is pandas' null.
    """
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
    splits = folder / "dataset_dict.json"
    if splits.exists():
        names = json.loads(_read(splits))["splits"]
        raise ValueError(
            f"{path!r} holds the splits {', '.join(names)}: give the folder of one of them, "
            f"such as {str(folder / names[0])!r}"
        )
    state = folder / "state.json"
    if not state.exists():
        raise DataError("the folder has no state.json, as save_to_disk writes it", path)
    return [str(folder / name) for name in _names_in(state)]


def _read(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def _names_in(state: Path) -> list[str]:
    try:
        content = json.loads(_read(state))
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
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or name in (".", ".."):
            raise DataError(f"the file {name!r} is not in the folder", str(state))
    if not names:
        raise DataError("the dataset has no files", str(state))
    return names


def is_arrow(path: AnyPath) -> bool:
    """Return True if a file begins like an Arrow IPC file, or is named as a stream."""
    is_stream = path.suffix == ".arrow" and begins_with(path, b"\xff\xff\xff\xff")
    return is_stream or begins_with(path, _ARROW)
