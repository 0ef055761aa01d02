"""What lies at a path, as a corpus."""

from __future__ import annotations

from sweephand.corpus.streams import StreamDefs
from sweephand.deserializers import FORMATS as FILE_FORMATS
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.files.index_file import Keep
from sweephand.files.paths import AnyPath, as_path, files_at
from sweephand.files.source_file import PathLike
from sweephand.tfds.builder import FORMAT as TFDS


def open(
    place: PathLike,
    streams: StreamDefs | None = None,
    *,
    size_stream: str | None = None,
    chunk_size: int | None = None,
    dtype: str | None = None,
    sequence_length: int | None = None,
    index: Keep = "auto",
) -> Deserializer:
    """Return the corpus that lies at a path or URL, whatever its format is.

    Parameters
    ----------
    place : path or URL
        A file of any format that is read here, a folder of such files, or a TFDS or Hugging
        Face folder. Of ``.npy`` files in a folder each is a stream, and ``NAME_offsets`` says
        where the sequences of ``NAME`` begin.
    streams : StreamDefs, optional
        The streams that are wanted; by default all that the first file tells.
    size_stream : str, optional
        The stream whose samples are a sequence's size; by default the longest.
    chunk_size : int, optional
        Sequences in a chunk of arrays; by default about 8 MiB.
    dtype, sequence_length : str, int, optional
        Of files of bare numbers, which do not say what they hold.
    index : {"auto", "cache", None}
        Where the index of formats is kept that need one.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is of no known format, or its streams do not fit each other.
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
    wanted = Wanted(streams, size_stream, chunk_size, dtype, sequence_length, index)
    return format_of(place).open(as_path(place), wanted)


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


def _format_in(path: AnyPath) -> Format | None:
    """Return the format of the files in a folder, told by the first."""
    first = files_at(path)[:1] if path.is_dir() else []
    return next(
        (
            known
            for known in FILE_FORMATS
            if known.in_folders and any(known.is_at(file) for file in first)
        ),
        None,
    )


def _open_folder(path: AnyPath, wanted: Wanted) -> Deserializer:
    found = _format_in(path)
    if found is None:
        raise ValueError(f"the files in {str(path)!r} are of no format that is known here")
    return found.open(path, wanted)


# The first that recognises a path: folders are looked at before the files in them.
FORMATS = (
    *(known for known in FILE_FORMATS if not known.in_folders),
    TFDS,
    *(known for known in FILE_FORMATS if known.in_folders),
    Format("folder of files", lambda path: _format_in(path) is not None, _open_folder),
)
