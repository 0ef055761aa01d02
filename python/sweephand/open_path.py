"""What lies at a path, as a corpus. A new format is one more line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand import tfds
from sweephand.cli import guess
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.deserializers import (
    ArrayDeserializer,
    CTFDeserializer,
    Deserializer,
    JSONLDeserializer,
    MegatronDeserializer,
    NpyDeserializer,
    RawTokensDeserializer,
    TFRecordDeserializer,
)
from sweephand.errors import DataError
from sweephand.files.index_file import Keep
from sweephand.files.remote_path import AnyPath, RemotePath, as_path, open_file
from sweephand.files.source_file import PathLike, is_leftover, open_regular
from sweephand.printable import printable

_OFFSETS = "_offsets"

Member = TypeVar("Member")


@dataclass(frozen=True)
class Wanted:
    """What a user says about a corpus that its files do not.

    Attributes
    ----------
    size_stream : str, optional
        The stream whose samples are a sequence's size.
    chunk_size : int, optional
        Sequences in a chunk of arrays.
    dtype : str, optional
        Of bare numbers.
    sequence_length : int, optional
        Of bare numbers.
    index : {"auto", "cache", None}
        Where an index is kept.
    """

    size_stream: str | None = None
    chunk_size: int | None = None
    dtype: str | None = None
    sequence_length: int | None = None
    index: Keep = "auto"

    def choose(self, streams: StreamDefs) -> StreamDefs:
        """Return the definitions of files that are cut into chunks by their bytes.

        Raises
        ------
        ValueError
            If there is no stream called `size_stream`, or a chunk size was given.
        """
        if self.chunk_size is not None:
            raise ValueError("a chunk size is for arrays; files are cut by their bytes")
        chosen = self.definitions(streams)
        return StreamDefs(
            **{
                name: replace(one, defines_mb_size=chosen[name].defines_mb_size)
                for name, one in streams.items()
            }
        )

    def definitions(self, streams: Iterable[str]) -> StreamDefs:
        """Return the definitions of all streams.

        Raises
        ------
        ValueError
            If there is no stream called `size_stream`.
        """
        names = list(streams)
        if self.size_stream is not None and self.size_stream not in names:
            raise ValueError(f"no stream {self.size_stream!r}, there are: {', '.join(names)}")
        return StreamDefs(
            **{name: StreamDef(defines_mb_size=name == self.size_stream) for name in names}
        )


@dataclass(frozen=True)
class Format:
    """One kind of data.

    Attributes
    ----------
    name : str
        For people.
    is_at : callable
        Whether a path is of this format, by its name and first bytes.
    open : callable
        Returns the corpus at a path, or in a folder of such files.
    """

    name: str
    is_at: Callable[[AnyPath], bool]
    open: Callable[[AnyPath, Wanted], Deserializer]


def format_of(place: PathLike) -> Format:
    """Return the format of what lies at a path or URL.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is of no format that is known here.
    """
    path = as_path(place)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    for known in FORMATS:
        if known.is_at(path):
            return known
    names = ", ".join(known.name for known in FORMATS)
    raise ValueError(f"{str(path)!r} is of no format that is known here: {names}")


def open_path(place: PathLike, wanted: Wanted | None = None) -> Deserializer:
    """Return the corpus that lies at a path or URL.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is of no known format, or its streams do not fit each other.
    DataError
        If its bytes are wrong.
    """
    return format_of(place).open(as_path(place), wanted or Wanted())


def _begins_with(path: AnyPath, magic: bytes) -> bool:
    return guess.head_of(path, len(magic)) == magic


# -- arrays --
def _with_offsets(members: dict[str, Member]) -> dict[str, Member | tuple[Member, Member]]:
    """Join every member with the one that holds its offsets, if there is one."""
    return {
        name: (member, members[name + _OFFSETS]) if name + _OFFSETS in members else member
        for name, member in members.items()
        if not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) in members)
    }


def _open_npy(path: AnyPath, wanted: Wanted) -> Deserializer:
    offsets = path.with_name(f"{path.stem}{_OFFSETS}.npy")
    files = [path, offsets] if offsets.exists() else [path]
    return _open_files(files, wanted)


def _open_folder(path: AnyPath, wanted: Wanted) -> Deserializer:
    return _open_files(_files_at(path, "*.npy"), wanted)


def _open_files(files: list[AnyPath], wanted: Wanted) -> Deserializer:
    # A stream's name is text, which the name of a file need not be.
    streams = _with_offsets({printable(file.stem): file for file in files})
    return NpyDeserializer(streams, wanted.definitions(streams), wanted.chunk_size)


def _open_npz(path: AnyPath, wanted: Wanted) -> Deserializer:
    if isinstance(path, RemotePath):
        raise ValueError(f"{path}: archives are read from local disks only")
    streams = _with_offsets(_load_npz(path))
    return ArrayDeserializer(
        streams,
        wanted.definitions(streams),
        chunk_size=wanted.chunk_size,
        name=path.name,
    )


def _load_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    member = None
    arrays = {}
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            for member in archive.files:
                arrays[member] = np.asarray(archive[member])
    except Exception as error:  # damaged bytes make zipfile and NumPy raise a dozen kinds
        reason = f"the archive cannot be read: {error}"
        raise DataError(reason, str(path), stream=member) from error
    return arrays


# -- files that are read in chunks --
def _files_at(path: AnyPath, pattern: str = "*") -> list[AnyPath]:
    """Return a file, or the files of a folder without what writers leave behind."""
    if not path.is_dir():
        return [path]
    found: Iterable[AnyPath] = path.glob(pattern)
    files = [one for one in found if one.is_file() and not is_leftover(one.name)]
    return sorted(files, key=lambda one: one.name)


def _open_ctf(path: AnyPath, wanted: Wanted) -> Deserializer:
    files = _files_at(path)
    return CTFDeserializer(
        files, wanted.choose(guess.ctf_streams(files[0])), index=wanted.index
    )


def _open_tfrecord(path: AnyPath, wanted: Wanted) -> Deserializer:
    files = _files_at(path)
    return TFRecordDeserializer(
        files, wanted.choose(guess.record_streams(files[0])), index=wanted.index
    )


def _open_jsonl(path: AnyPath, wanted: Wanted) -> Deserializer:
    files = _files_at(path)
    return JSONLDeserializer(
        files, wanted.choose(guess.jsonl_streams(files[0])), index=wanted.index
    )


def _open_parquet(path: AnyPath, wanted: Wanted) -> Deserializer:
    from sweephand import ParquetDeserializer  # says what to install

    parquet = import_module("pyarrow.parquet")
    files = _files_at(path)
    schema = _read_schema(parquet.read_schema, files[0])
    return ParquetDeserializer(
        files, wanted.choose(guess.schema_streams(schema)), index=wanted.index
    )


def _open_arrow(path: AnyPath, wanted: Wanted) -> Deserializer:
    from sweephand import ArrowDeserializer  # says what to install

    ipc = import_module("pyarrow.ipc")
    is_saved = _is_saved_dataset(path)
    files = _files_at(path, "*.arrow" if is_saved else "*")
    is_file = _begins_with(files[0], _ARROW)
    schema = _read_schema(
        lambda file: (ipc.open_file if is_file else ipc.open_stream)(file).schema, files[0]
    )
    streams = wanted.choose(guess.schema_streams(schema))
    return ArrowDeserializer(path if is_saved else files, streams, index=wanted.index)


def _read_schema(read: Callable[[Any], Any], path: AnyPath) -> Any:
    try:
        with open_file(path) as source:
            return read(source)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise DataError(f"the schema cannot be read: {error}", str(path)) from error


def _is_saved_dataset(path: AnyPath) -> bool:
    return (path / "state.json").exists()


def _is_arrow(path: AnyPath) -> bool:
    is_stream = path.suffix == ".arrow" and _begins_with(path, b"\xff\xff\xff\xff")
    return is_stream or _begins_with(path, _ARROW)


def _is_megatron(path: AnyPath) -> bool:
    return _begins_with(path.with_suffix(".idx"), b"MMIDIDX")


def _open_megatron(path: AnyPath, wanted: Wanted) -> Deserializer:
    files = _files_at(path, "*.idx") if path.is_dir() else [path.with_suffix(".idx")]
    return MegatronDeserializer(files, wanted.choose(StreamDefs(tokens=StreamDef())))


def _open_raw_tokens(path: AnyPath, wanted: Wanted) -> Deserializer:
    if wanted.dtype is None or wanted.sequence_length is None:
        raise ValueError(
            f"{str(path)!r} holds bare numbers, as it seems: say of which --dtype, such as "
            "uint16, and the --sequence-length to cut them into"
        )
    streams = wanted.choose(StreamDefs(tokens=StreamDef()))
    return RawTokensDeserializer(_files_at(path), wanted.dtype, wanted.sequence_length, streams)


def _open_tfds(path: AnyPath, wanted: Wanted) -> Deserializer:
    if wanted.size_stream is not None or wanted.chunk_size is not None:
        raise ValueError("every example of a TFDS folder is one sample, read by itself")
    return tfds.load(path, "all", index=wanted.index)


def _open_folder_of_files(path: AnyPath, wanted: Wanted) -> Deserializer:
    return _format_in(path).open(path, wanted)


def _format_in(path: AnyPath) -> Format:
    """Return the format of the files in a folder, told by the first."""
    for known in _IN_FOLDERS:
        if any(known.is_at(file) for file in _files_at(path)[:1]):
            return known
    raise ValueError(f"the files in {str(path)!r} are of no format that is known here")


def _is_folder_of_files(path: AnyPath) -> bool:
    try:
        return path.is_dir() and bool(_format_in(path))
    except ValueError:
        return False


_ARROW = b"ARROW1\0\0"

_IN_FOLDERS = (
    Format("Parquet", lambda path: _begins_with(path, b"PAR1"), _open_parquet),
    Format("Arrow", _is_arrow, _open_arrow),
    Format("Megatron", _is_megatron, _open_megatron),
    Format("TFRecord", guess.is_tfrecord, _open_tfrecord),
    Format("JSON lines", guess.is_jsonl, _open_jsonl),
    Format("CNTK text", guess.is_ctf, _open_ctf),
    Format("bare numbers", lambda path: path.suffix in (".bin", ".tokens"), _open_raw_tokens),
)
FORMATS = (
    Format(".npy", lambda path: _begins_with(path, b"\x93NUMPY"), _open_npy),
    Format(".npz", lambda path: _begins_with(path, b"PK\x03\x04"), _open_npz),
    Format("folder of .npy", lambda path: any(path.glob("*.npy")), _open_folder),
    Format("Hugging Face folder", _is_saved_dataset, _open_arrow),
    Format("TFDS folder", lambda path: (path / "dataset_info.json").exists(), _open_tfds),
    *_IN_FOLDERS,
    Format("folder of files", _is_folder_of_files, _open_folder_of_files),
)
