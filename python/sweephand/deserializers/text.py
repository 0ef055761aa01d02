"""Plain text: every line, or every file, as bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import bytes_column
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.foreign import is_named_as_document
from sweephand.deserializers.format import Look
from sweephand.deserializers.tokens import one_stream
from sweephand.deserializers.units.line_units import LineConverter, LinePlace, LineUnits
from sweephand.deserializers.units.row_table import RowIds
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.files.find import find_files
from sweephand.files.index_places import Keep
from sweephand.files.source_file import Files, SourceFile


class TextDeserializer(LineUnits):
    r"""Serve the lines of text files, each a sequence of one sample: its ``bytes``.

    Lines end with ``\n`` or ``\r\n``, which are left out; a blank line is a line, so that those
    of two files may be joined by their numbers. The bytes are not interpreted.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs; plain, or compressed by gzip or zstd.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        One stream with the field "text"; by default it has that name too.
    sample_by : {"line", "document"}
        The unit of a sequence: a line, or a whole file.
    index
        As in `ParquetDeserializer`.
    ids : sequence of str or int, optional
        Ids of the sequences, by which they are joined.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if a file is in UTF-16; beyond ``max_errors`` if compressed bytes are
        damaged or cut.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("a cat\n\na dog")
    >>> source = sh.MinibatchSource(sh.TextDeserializer(path), randomize=False, max_sweeps=1)
    >>> source.next_minibatch(3)["text"].values
    array([b'a cat', b'', b'a dog'], dtype=object)
    """

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        sample_by: Literal["line", "document"] = "line",
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if sample_by not in ("line", "document"):
            raise ValueError(f"sample_by must be 'line' or 'document', got {sample_by!r}")
        self.are_whole = sample_by == "document"
        self.options = {"sample_by": sample_by}
        super().__init__(
            find_files(files) if self.are_whole else files,  # an empty document is one
            one_stream(streams, "text"),
            index=index,
            ids=ids,
        )

    format = "text 1"

    def guess_streams(self) -> StreamDefs:
        """Return the one stream that there is."""
        return one_stream(None, "text")

    def converter(self) -> LineConverter:
        """Return the finder of line ends."""
        (name,) = self.definitions
        return _TextLines(name, are_whole=self.are_whole)


class _TextLines:
    """Makes a sample of every line, or a single sample of the whole text."""

    padding = 0

    def __init__(self, stream: str, *, are_whole: bool) -> None:
        self._stream = stream
        self._are_whole = are_whole

    def kinds(self) -> dict[str, SampleType]:
        """Return the type of lines."""
        return {self._stream: SampleType("bytes")}

    def convert(self, padded: NDArray[np.uint8], file: SourceFile, place: LinePlace) -> Columns:
        """Return the lines; there is nothing that may be wrong with them."""
        if self._are_whole:
            return [bytes_column(padded, np.array([0, len(padded)], np.int64))], {}
        return [bytes_column(*_core.formats.split_lines(padded))], {}


def is_text(look: Look) -> bool:
    """Return True if a file of lines holds data, by its name: a README does not."""
    return not is_named_as_document(look.path)
