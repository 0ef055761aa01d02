"""Plain text: every line, or every file, as bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice
from sweephand.corpus.columns import bytes_column
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.open_path import DOCUMENTS, Look
from sweephand.deserializers.tokens import one_stream
from sweephand.deserializers.units.line_units import (
    LineConverter,
    LinePlace,
    LineScan,
    LineUnits,
    Pieces,
    find_begin,
)
from sweephand.deserializers.units.unit_scan import Columns, RowIds, SampleType
from sweephand.errors import DataError, StaleError
from sweephand.files.find import find_files
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression
from sweephand.files.source_file import Files, SourceFile

_MOST_BYTES = 1 << 30  # of a document


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
    sample_by : {"line", "document"}
        The unit of a sequence: a line, or a whole file, which may be empty.

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
        sample_by: Literal["line", "document"] = "line",
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        check_choice("sample_by", sample_by, "line", "document")
        self.are_whole = sample_by == "document"
        self.options = {"sample_by": sample_by}
        wanted = find_files(files) if self.are_whole else files  # an empty document is one
        super().__init__(wanted, one_stream(streams, "text"), index=index, ids=ids)

    def guess_streams(self) -> StreamDefs:
        return one_stream(None, "text")

    def converter(self) -> LineConverter:
        return _TextLines(next(iter(self.definitions)), self.are_whole)

    def pieces(
        self,
        source: io.BufferedReader,
        file: SourceFile,
        compression: Compression | None,
        scan: LineScan,
    ) -> Pieces:
        if not self.are_whole:
            yield from super().pieces(source, file, compression, scan)
            return
        try:
            scan.begin_at(find_begin(source, file))
            content = source.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise DataError(f"a document has more than {_MOST_BYTES} bytes", file.path)
        except StaleError:
            raise
        except DataError as error:
            yield b"", True  # its one row, which keeps its number
            scan.add_error(error, [0])
        else:
            yield content, True


@dataclass
class _TextLines:
    """Makes a sample of every line, or a single sample of the whole text."""

    stream: str
    are_whole: bool
    padding: int = 0

    def kinds(self) -> dict[str, SampleType]:
        return {self.stream: SampleType("bytes")}

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        whole = padded, np.array([0, len(padded)], np.int64)
        found = whole if self.are_whole else _core.formats.split_lines(padded)
        return [bytes_column(*found)], {}


def is_text(look: Look) -> bool:
    """Return True if a file of lines holds data, by its name: a README does not."""
    return not DOCUMENTS.fullmatch(look.path.name)
