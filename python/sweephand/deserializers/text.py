"""Plain text: every line as bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import bytes_column
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.open_path import DOCUMENTS, Look
from sweephand.deserializers.tokens import one_stream
from sweephand.deserializers.units.line_units import LineConverter, LinePlace, LineUnits
from sweephand.deserializers.units.unit_scan import Columns, RowIds, SampleType
from sweephand.files.index_file import Keep
from sweephand.files.source_file import Files, SourceFile


class TextDeserializer(LineUnits):
    r"""Serve the lines of text files, each a sequence of one sample: its ``bytes``.

    Lines end with ``\n`` or ``\r\n``, which are left out; a blank line is a line, so that those
    of two files may be joined by their numbers. The bytes are not interpreted.

    Parameters
    ----------
    files, index, ids
        As in `ParquetDeserializer`; files may be compressed by gzip or zstd. No field has ids.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "text"; by default it has that name too.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("a cat\n\na dog")
    >>> source = sh.MinibatchSource(sh.TextDeserializer(path), randomize=False, max_sweeps=1)
    >>> source.next_minibatch(3)["text"].values
    array([b'a cat', b'', b'a dog'], dtype=object)
    """

    format = "text 1"

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        super().__init__(files, one_stream(streams, "text"), index=index, ids=ids)

    def guess_streams(self) -> StreamDefs:
        return one_stream(None, "text")

    def converter(self) -> LineConverter:
        return _TextLines(next(iter(self.definitions)))


@dataclass
class _TextLines:
    """Makes a sample of every line."""

    stream: str
    padding: int = 0

    def kinds(self) -> dict[str, SampleType]:
        return {self.stream: SampleType("bytes")}

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        return [bytes_column(*_core.formats.split_lines(padded))], {}


def is_text(look: Look) -> bool:
    """Return True if a file of lines holds data, by its name: a README does not."""
    return not DOCUMENTS.fullmatch(look.path.name)
