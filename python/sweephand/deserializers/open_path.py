"""Data at a path, opened as a corpus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.data_in_memory import advice_for
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.format import DOCUMENTS, TEXT, Format, Look, Wanted, known_formats
from sweephand.errors import some_of
from sweephand.files.find import list_paths, paths_like
from sweephand.files.index_file import Keep
from sweephand.files.local import not_found
from sweephand.files.paths import AnyPath, files_at, folders_at
from sweephand.files.source_file import Files, empty_corpus, refuse_pointer

_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_NOTHING = Format("nothing", "")  # a file without content is a shard of any format
_UNKNOWN = Format("no format that is known here", "")


def open(
    place: Files,
    streams: StreamsLike | None = None,
    *,
    size_stream: str | None = None,
    chunk_size: int | None = None,
    dtype: str | None = None,
    sequence_length: int | None = None,
    end_of_document: int | None = None,
    index: Keep = "auto",
) -> Deserializer:
    """Open the corpus at a path or URL, whatever its format is.

    Parameters
    ----------
    place : path or URL, or sequence of them
        A file of any format that is read here, a pattern such as ``"*.parquet"`` or
        ``"train-{000..099}.tar"``, a folder of
        such files or of folders ``key=value`` of them, the prefix of Megatron's pairs, a
        TFDS or Hugging Face folder, a Zarr store, or a folder with one of pictures for each
        class; of a TFDS data set without a version the newest. Several are one corpus.
        Each ``.npy`` file is a stream, and ``NAME_offsets`` says where the sequences of
        ``NAME`` begin; files that are alike but for their lengths are a sequence each.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        The streams that are wanted; by default all that the first file shows.
    size_stream : str, optional
        The stream whose samples are a sequence's size; by default the longest.
    chunk_size : int, optional
        Sequences in a chunk of arrays; by default about 8 MiB.
    dtype : str, optional
        Of files of bare numbers, which do not hold their dtype.
    sequence_length, end_of_document : int, optional
        Of bare numbers and of ``.npy`` files with a row of tokens: the tokens of a sequence, or
        the one that ends every document. Several such files are one corpus.
    index : {"auto", "cache", None}
        Where the index of formats is kept that need one.

    Raises
    ------
    FileNotFoundError
        If nothing is there, naming paths with similar names.
    TypeError
        If the path or the streams are of a wrong type, with an example of valid ones.
    ValueError
        If it is of no known format or of several, or its streams do not fit each other.
    DataError
        If its bytes are wrong.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(3))
    >>> sh.MinibatchSource(sh.open(path), randomize=False).next_minibatch(2)["x"].values
    array([0, 1])
    """
    wanted = Wanted(
        streams, size_stream, chunk_size, dtype, sequence_length, index, end_of_document
    )
    found = look_at(place)
    return found.format.open(found.paths, wanted)


@dataclass(frozen=True)
class Found:
    """Files of one format at a path or several, or folders that are a corpus."""

    format: Format
    paths: Sequence[AnyPath]


def look_at(place: Files) -> Found:
    """Recognise the data at a path or URL, or at several, by names and first bytes."""
    try:
        given = list_paths(place)
    except TypeError as error:
        raise TypeError(f"sh.open takes paths: {advice_for(place)}") from error
    paths = [path for one in given for path in paths_like(one)]
    formats = known_formats()
    return _one_format([_look_at_path(path, formats) for path in paths], paths)


def _look_at_path(path: AnyPath, formats: Sequence[Format]) -> Found:
    look = Look(path)
    if look.is_empty:
        return Found(_NOTHING, [path])
    if look.file is None and not path.exists():
        if known := _format_of(look, [known for known in formats if known.pairs]):
            return Found(known, [path])
        if isinstance(path, Path):
            raise not_found(path)
        raise FileNotFoundError(f"there is no object or folder {str(path)!r}")
    if known := _format_of(look, formats):
        return Found(known, [path])
    if look.is_dir:
        return _look_into(path, formats)
    raise ValueError(
        f"{str(path)!r} begins with {look.head[:16]!r} and is of {_UNKNOWN.name}: "
        f"{', '.join(known.name for known in formats)}"
    )


def _format_of(look: Look, among: Sequence[Format]) -> Format | None:
    refuse_pointer(look.head, str(look.path))
    return next((known for known in among if known.is_at(look)), None)


def _look_into(folder: AnyPath, formats: Sequence[Format]) -> Found:
    """Return the files of a folder, which are of one format: that of the first of each kind."""
    files = files_at(folder)
    if not files:
        return _look_into_folders(folder, formats)
    of_tar = {f"{file.stem}.idx" for file in files if file.suffix == ".tar"}
    data = [
        one for one in files if not DOCUMENTS.fullmatch(one.name) and one.name not in of_tar
    ]
    found = []
    for kind in _by_kind(data or files):
        look = next((look for look in map(Look, kind) if not look.is_empty), None)
        known = _NOTHING if look is None else _format_of(look, formats)
        found.append(Found(known or _UNKNOWN, kind))
    if len(found) > 1:  # notes beside data are no data
        found = [one for one in found if one.format is not TEXT] or found
    is_alone = len(files) == 1 and bool(folders_at(folder))
    has_others = is_alone or any(one.format is _UNKNOWN for one in found)
    if has_others and any(file.name in _METADATA for file in files):
        raise ValueError(
            f"{str(folder)!r} holds what its metadata name, as in Hugging Face's folders: give "
            "sh.MapDeserializer the dataset of datasets.load_dataset('imagefolder', "
            "data_dir=...), or 'audiofolder'"
        )
    return _one_format(found, [folder])


def _look_into_folders(folder: AnyPath, formats: Sequence[Format]) -> Found:
    """Return the files below folders ``key=value``, or the stores in a folder of them."""
    inner = folders_at(folder)
    if not inner:
        raise ValueError(f"the folder {str(folder)!r} is empty")
    if all("=" in one.name for one in inner):
        return _one_format([_look_into(one, formats) for one in inner], [folder])
    for known in formats:
        if known.joins_folders and all(known.is_at(Look(one)) for one in inner):
            return Found(known, inner)
    names = some_of([one.name for one in inner])
    raise ValueError(
        f"{str(folder)!r} holds no file but the folders {names}: open one of them, such as "
        f"{str(inner[0])!r}"
    )


def _one_format(found: Sequence[Found], places: Sequence[AnyPath]) -> Found:
    files: dict[Format, list[AnyPath]] = {}
    for one in sorted(found, key=lambda one: one.format is _UNKNOWN):
        files.setdefault(one.format, []).extend(one.paths)
    formats = [known for known in files if known is not _NOTHING]
    if not formats:
        raise empty_corpus([str(path) for one in found for path in one.paths])
    if len(formats) > 1 or formats[0] is _UNKNOWN:
        where = some_of([repr(str(place)) for place in places], 2)
        counted = ", ".join(
            f"{known.name} ({some_of([path.name for path in paths], 1)})"
            for known, paths in files.items()
        )
        if len(formats) == 1:
            raise ValueError(f"{where} holds {counted}")
        suffix = next((path.suffix for path in files[formats[0]] if path.suffix), ".jsonl")
        raise ValueError(
            f"{where} holds several formats, {counted}; open those of one by a pattern, such "
            f"as '*{suffix}'"
        )
    return Found(formats[0], [path for one in found for path in one.paths])


def _by_kind(files: Sequence[AnyPath]) -> list[list[AnyPath]]:
    """Group files by their suffixes, the numbers of shards aside."""
    kinds: dict[str, list[AnyPath]] = {}
    for file in files:
        kinds.setdefault(re.sub(r"\d+", "0", file.suffix), []).append(file)
    return list(kinds.values())
