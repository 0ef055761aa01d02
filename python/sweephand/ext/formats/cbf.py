"""CNTK's binary format (CBF), as its ctf2bin.py writes it; the core draws its bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweephand import DataError, StaleError, StreamDef, StreamDefs
from sweephand.ext.formats.cbf_header import CbfStream, can_be, read_header
from sweephand.extend import (
    Advance,
    ColumnData,
    Columns,
    Facts,
    Files,
    Index,
    IndexedDeserializer,
    Keep,
    RowIds,
    SourceFile,
    StreamsLike,
    UnitScan,
    _core,
    concat_columns,
    find_shards,
    known_fields,
    require,
)


class CBFDeserializer(IndexedDeserializer):
    """Serve files in CNTK's binary format, as its ``ctf2bin.py`` converts them from text.

    Parameters
    ----------
    filename : str, path, or sequence of them
        Paths, globs or URLs; a list keeps its order.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all; ``field`` is the name in the file. Dense samples are float32 or float64
        of shape (dimension,), sparse ones come as from `CTFDeserializer`.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : sequence of str or int, optional
        Ids of the sequences, by which they are joined; the format has none.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the header is damaged, of another version, or lacks a stream; when it is opened,
        beyond ``max_errors``, if a chunk does not hold the sequences of the header.

    References
    ----------
    https://docs.microsoft.com/en-us/cognitive-toolkit/brainscript-cntkbinary-reader

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.CBFDeserializer("train.cbf", ["features", "labels"])  # doctest: +SKIP
    """

    format = "cbf 1"

    def __init__(
        self,
        filename: Files,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        super().__init__(find_shards(filename, as_given=True), streams, index=index, ids=ids)

    def guess_streams(self) -> StreamDefs:
        """Return all streams of the first file."""
        return StreamDefs(
            {
                one.name: StreamDef(shape=one.dimension, is_sparse=one.is_sparse)
                for one in read_header(self.first_file).streams
            }
        )

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read every chunk once."""
        header = read_header(file)
        scan = UnitScan(lengths={name: [] for name in self.fields})
        kinds = {one.name: one.kind for one in header.streams}
        for name, field in self.fields.items():
            if field not in kinds:
                known = known_fields(lambda: kinds)
                raise DataError(f"there is no field {field!r}{known}", file.path, stream=name)
            scan.kinds[name] = kinds[field]
        chunks = []
        row = reported_bytes = 0
        for begin, end, num_sequences in header.chunks():
            if num_sequences == 0:
                continue
            try:
                columns = self._read_chunk(file, header.streams, (begin, end, num_sequences))
            except StaleError:
                raise
            except DataError as error:
                reason, path, offset, chunk, stream, sequence, line = error.args
                if sequence is not None:
                    sequence += row
                place = (path, offset, chunk, stream, sequence, line)
                scan.add_error(DataError(reason, *place), range(row, row + num_sequences))
                blank = np.zeros(num_sequences, np.int64)
                lengths = dict.fromkeys(self.fields, blank)
            else:
                lengths = {
                    name: column.lengths
                    for name, column in zip(self.fields, columns, strict=True)
                }
            for name, own in lengths.items():
                scan.lengths[name].append(own)
            scan.rows.append(num_sequences)
            scan.num_bytes.append(end - begin)
            chunks.append([begin, end, num_sequences])
            row += num_sequences
            advance(end - reported_bytes)
            reported_bytes = end
        advance(file.size - reported_bytes)
        scan.facts = {
            "chunks": chunks,
            "streams": [one.to_fact() for one in header.streams],
        }
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read chunks of the file."""
        streams = [CbfStream(*one) for one in facts["streams"]]
        parts = [self._read_chunk(file, streams, one) for one in facts["chunks"][begin:end]]
        return [concat_columns(one) for one in zip(*parts, strict=True)], {}

    def check_facts(self, index: Index) -> None:
        """Refuse chunks and streams that cannot be."""
        for number, (file, facts) in enumerate(zip(index.files, index.facts, strict=True)):
            header = facts["format"]
            chunks = header["chunks"]
            require(
                all(
                    [type(one) for one in chunk] == [int] * 3
                    and 0 <= chunk[0] <= chunk[1] <= file.size
                    for chunk in chunks
                ),
                "chunks",
            )
            units = slice(*index.starts["rows"][number : number + 2].tolist())
            rows = [chunk[2] for chunk in chunks]
            require(index.arrays["rows"][units].tolist() == rows, "chunks")
            require(all(map(can_be, header["streams"])), "streams")
            names = [one[0] for one in header["streams"]]
            require(set(self.fields.values()) <= set(names), "streams")

    def _read_chunk(
        self, file: SourceFile, streams: Sequence[CbfStream], place: Sequence[int]
    ) -> list[ColumnData]:
        """Return the wanted streams of a chunk, in their order."""
        begin, end, num_sequences = place
        wanted = set(self.fields.values())
        described = [
            _core.formats.CbfStream(
                name=one.name,
                is_sparse=one.is_sparse,
                is_double=one.dtype == "float64",
                is_wanted=one.name in wanted,
                dimension=one.dimension,
            )
            for one in streams
        ]
        try:
            arrays = _core.formats.read_cbf_chunk(
                file.fetch(begin, end - begin), num_sequences, described
            )
        except StaleError:
            raise
        except DataError as error:
            if error.file is not None:
                raise
            reason, _, offset, *place_in_chunk = error.args
            offset = None if offset is None else begin + offset
            raise DataError(reason, file.path, offset, *place_in_chunk) from None
        served = [one for one in streams if one.name in wanted]
        found = {one.name: one.to_column(*own) for one, own in zip(served, arrays, strict=True)}
        return [found[field] for field in self.fields.values()]
