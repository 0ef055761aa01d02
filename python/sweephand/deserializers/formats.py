"""How formats are recognised, and how files are opened without declared streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.deserializers.deserializer import Deserializer
from sweephand.files.index_file import Keep
from sweephand.files.paths import AnyPath


@dataclass(frozen=True)
class Wanted:
    """What a user says about a corpus that its files do not.

    Attributes
    ----------
    streams : StreamDefs, optional
        The streams; by default those that the first file tells.
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

    streams: StreamDefs | None = None
    size_stream: str | None = None
    chunk_size: int | None = None
    dtype: str | None = None
    sequence_length: int | None = None
    index: Keep = "auto"

    def choose(self, guess: Callable[[], StreamDefs]) -> StreamDefs:
        """Return the streams of files that are cut into chunks by their bytes.

        Parameters
        ----------
        guess : callable
            Returns the streams that the files tell.

        Raises
        ------
        ValueError
            If there is no stream called `size_stream`, or a chunk size was given.
        """
        if self.chunk_size is not None:
            raise ValueError("a chunk size is for arrays; files are cut by their bytes")
        return self._mark(guess() if self.streams is None else self.streams)

    def definitions(self, names: Iterable[str]) -> StreamDefs:
        """Return the streams of arrays, which tell all but which of them counts."""
        if self.streams is not None:
            return self._mark(self.streams)
        return self._mark(StreamDefs(**{name: StreamDef() for name in names}))

    def _mark(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams, of which one defines the size if that was said."""
        wanted = self.size_stream
        if wanted is None:
            return streams
        if wanted not in streams:
            raise ValueError(f"no stream {wanted!r}, there are: {', '.join(streams)}")
        return StreamDefs(
            **{
                name: replace(one, defines_mb_size=name == wanted)
                for name, one in streams.items()
            }
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
    in_folders : bool
        A folder of such files is one corpus.
    """

    name: str
    is_at: Callable[[AnyPath], bool]
    open: Callable[[AnyPath, Wanted], Deserializer]
    in_folders: bool = True
