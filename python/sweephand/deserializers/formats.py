"""How formats are recognised, and how files are opened without declared streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams, stream_per_name
from sweephand.deserializers.deserializer import Deserializer
from sweephand.files.index_places import Keep
from sweephand.files.paths import AnyPath


class SelfDescribed(Deserializer):
    """A deserializer of files that describe their own streams.

    Attributes
    ----------
    definitions : StreamDefs
        Those that are served: asked for, or guessed.
    """

    definitions: StreamDefs


Described = TypeVar("Described", bound=SelfDescribed)


@dataclass(frozen=True)
class Wanted:
    """Facts about a corpus that its user gives and its files lack.

    Attributes
    ----------
    streams : StreamDefs, dict of StreamDef or list of str, optional
        The streams; by default those of the first file.
    size_stream : str, optional
        The stream whose samples are a sequence's size.
    chunk_size : int, optional
        Sequences in a chunk of arrays.
    dtype : str, optional
        Of bare numbers.
    sequence_length : int, optional
        Of bare numbers, and of an array of tokens.
    end_of_document : int, optional
        The token that ends every document of them.
    index : {"auto", "cache", None}
        Where an index is kept.
    """

    streams: StreamsLike | None = None
    size_stream: str | None = None
    chunk_size: int | None = None
    dtype: str | None = None
    sequence_length: int | None = None
    index: Keep = "auto"
    end_of_document: int | None = None

    @property
    def are_documents(self) -> bool:
        """True if numbers are tokens, with a rule that cuts them into sequences."""
        return self.sequence_length is not None or self.end_of_document is not None

    def choose(self, guess: Callable[[], StreamDefs]) -> StreamDefs:
        """Return the streams of files that are cut into chunks by their bytes.

        Raises
        ------
        ValueError
            If there is no stream called `size_stream`, or a chunk size was given.
        """
        self._refuse_chunk_size()
        return self.mark(choose_streams(self.streams, guess))

    def definitions(self, names: Iterable[str]) -> StreamDefs:
        """Return the streams of arrays that lack only the choice of the size stream."""
        return self.mark(choose_streams(self.streams, partial(stream_per_name, names)))

    def open_files(
        self, make: Callable[..., Described], files: AnyPath | Sequence[AnyPath]
    ) -> Described:
        """Return the deserializer of files that are cut into chunks by their bytes."""
        self._refuse_chunk_size()
        made = make(files, self.streams, index=self.index)
        if self.size_stream is None:
            return made
        return make(files, self.mark(made.definitions), index=self.index)

    def _refuse_chunk_size(self) -> None:
        if self.chunk_size is not None:
            raise ValueError("a chunk size is for arrays; files are cut by their bytes")

    def mark(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams, with the one marked that was chosen to define the size."""
        wanted = self.size_stream
        if wanted is None:
            return streams
        if wanted not in streams:
            raise ValueError(f"no stream {wanted!r}, there are: {', '.join(streams)}")
        return StreamDefs(
            {
                name: replace(one, defines_mb_size=name == wanted)
                for name, one in streams.items()
            }
        )


def the_only(paths: Sequence[AnyPath]) -> AnyPath:
    """Return the path of data of which one corpus is one path."""
    if len(paths) > 1:
        names = ", ".join(repr(str(path)) for path in paths[:3])
        raise ValueError(
            f"{len(paths)} corpora are given, {names}: open each, and give a source one of them"
        )
    return paths[0]
