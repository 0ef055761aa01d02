"""CNTK's text format as a corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.checks import check_int
from sweephand.columns import element_type
from sweephand.deserializers.base import Deserializer, Opened, Sizing
from sweephand.errors import DataError
from sweephand.ids import ShardIds
from sweephand.streams import StreamDefs, StreamInfo

PathLike = str | os.PathLike[str]

_CHUNK_BYTES = 32 << 20
_PART_BYTES = 16 << 20  # a thread's share of a file, at least
_MAX_LINE_BYTES = 256 << 20


class CTFDeserializer(Deserializer):
    """Read files in CNTK's text format.

    Parameters
    ----------
    filename : path, glob, or a list of paths
        Files of one corpus, read one after the other in the order of their names; a list keeps
        its order.
    streams : StreamDefs
        Stream name to `StreamDef` with ``field``, the name in the file, and ``shape``, the
        dimension. Values are float32 unless ``dtype`` says float64 or an integer type.
    skip_sequence_ids : bool
        Every line is a sequence of one sample, whatever id it has.
    chunk_size_in_bytes : int
        Bytes of text in a chunk, the unit that a window shuffles; a longer sequence is a chunk
        alone.
    allow_blank_lines, allow_nonfinite : bool
        Accept lines without a sample; accept ``inf`` and ``nan``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the text is wrong and ``max_errors`` of the source does not allow it, with file,
        line, offset, stream and sequence.
    ValueError
        If a stream has no field or no shape.
    """

    def __init__(
        self,
        filename: PathLike | Sequence[PathLike],
        streams: StreamDefs,
        skip_sequence_ids: bool = False,
        chunk_size_in_bytes: int = _CHUNK_BYTES,
        *,
        allow_blank_lines: bool = False,
        allow_nonfinite: bool = False,
    ) -> None:
        check_int("chunk_size_in_bytes", chunk_size_in_bytes, 1, 2**63)
        self._paths = _paths_of(filename)
        self._chunk_bytes = chunk_size_in_bytes
        self._infos = [_describe(name, streams) for name in streams]
        self._format = _core.CtfFormat(
            streams=[
                _core.CtfStream(
                    field=streams[info.name].field or "",
                    dimension=int(np.prod(info.shape, dtype=np.int64)),
                    is_sparse=info.is_sparse,
                    type=element_type(info.dtype),
                    defines_mb_size=info.defines_mb_size,
                )
                for info in self._infos
            ],
            skip_sequence_ids=skip_sequence_ids,
            allow_blank_lines=allow_blank_lines,
            allow_nonfinite=allow_nonfinite,
            max_line_bytes=_MAX_LINE_BYTES,
        )

    def open(self, *, max_errors: int = 0) -> Opened:
        """Return the corpus, ready to be planned and read."""
        files: list[_IndexedFile] = []
        for path in self._paths:
            left = max_errors - sum(file.num_charged for file in files)
            files.append(_IndexedFile.read(path, self._format, left))
        chunks, chunk_sequences = [], []
        for number, file in enumerate(files):
            for chunk, count in file.chunks(number, self._chunk_bytes):
                chunks.append(chunk)
                chunk_sequences.append(count)
        counts = [len(file.sizes) for file in files]
        if sum(counts) == 0:
            raise DataError("there is no sequence: the file is empty", str(self._paths[0]))
        sizes = np.concatenate([file.sizes for file in files])
        return Opened(
            core=_core.CtfDeserializer(self._format, [file.core for file in files], chunks),
            streams=self._infos,
            chunk_sequences=np.array(chunk_sequences, dtype=np.uint64),
            size_by=lambda stream: self._size_by(stream, sizes, chunk_sequences),
            ids=ShardIds([file.path.name for file in files], np.cumsum([0, *counts]).tolist()),
            names=[file.path.name for file in files],
            resident=False,
            sample_bytes=sum(file.size for file in files) / max(1, int(sizes.sum())),
            errors=[error for file in files for error in file.errors],
            num_charged=sum(file.num_charged for file in files),
            keys=self._keys(files),
        )

    def _size_by(
        self, stream: str | None, sizes: NDArray[np.uint32], chunk_sequences: list[int]
    ) -> Sizing:
        defining = next((info.name for info in self._infos if info.defines_mb_size), None)
        if stream != defining:
            raise ValueError(
                f"the size of CTF sequences is that of {defining or 'the longest stream'} when "
                f"they are indexed, not of {stream!r}"
            )
        ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        starts = np.concatenate([[0], np.cumsum(chunk_sequences)])
        chunk_samples = np.diff(ends[starts]).astype(np.uint64)
        if sizes.min() == sizes.max():
            return Sizing(_core.CommonSize(int(sizes[0])), chunk_samples)
        return Sizing(_core.StoredSizes(sizes), chunk_samples)

    @staticmethod
    def _keys(files: list[_IndexedFile]) -> Any:
        if all(file.ignores_ids for file in files):
            return None
        return lambda: np.concatenate([file.keys for file in files])


def _describe(name: str, streams: StreamDefs) -> StreamInfo:
    definition = streams[name]
    if not definition.field:
        raise ValueError(f"stream {name!r} needs its field, the name in the file")
    if definition.sample_shape is None:
        raise ValueError(f"stream {name!r} needs its shape, the dimension of a sample")
    return StreamInfo(
        name=name,
        dtype=np.dtype(definition.dtype or np.float32),
        shape=definition.sample_shape,
        is_sparse=definition.is_sparse,
        defines_mb_size=definition.defines_mb_size,
        broadcast=definition.broadcast,
        transforms=definition.transforms,
    )


def _paths_of(files: PathLike | Sequence[PathLike]) -> list[Path]:
    if not isinstance(files, str | os.PathLike):
        return [Path(file) for file in files]
    if Path(files).exists():
        return [Path(files)]
    found = sorted(glob(os.fspath(files)))  # noqa: PTH207 - the pattern may be absolute
    if not found:
        raise FileNotFoundError(f"no such file, and no file matches: {os.fspath(files)}")
    return [Path(path) for path in found]


@dataclass(frozen=True)
class _IndexedFile:
    """One file, with the place and the size of every sequence."""

    path: Path
    core: _core.CtfFile
    size: int
    ignores_ids: bool
    keys: NDArray[np.uint64]
    offsets: NDArray[np.uint64]
    lines: NDArray[np.uint64]
    sizes: NDArray[np.uint32]
    item_offsets: NDArray[np.uint64]
    errors: list[DataError]
    num_charged: int

    @classmethod
    def read(cls, path: Path, form: _core.CtfFormat, max_errors: int) -> _IndexedFile:
        file = _core.File(path)
        start = _core.ctf_start(file, form)
        index = _index_in_parts(file, form, start, max_errors)
        index.ledger.check()
        return cls(
            path=path,
            core=_core.CtfFile(path, file.tag, start.ignore_ids),
            size=file.tag.size,
            ignores_ids=start.ignore_ids,
            keys=index.keys,
            offsets=index.offsets,
            lines=index.lines,
            sizes=index.sizes,
            item_offsets=index.ledger.offsets,
            errors=[
                DataError(
                    f"line {item.line}: {item.reason}",
                    str(path),
                    item.offset,
                    stream=item.stream,
                    sequence=item.sequence,
                )
                for item in index.ledger.items
            ],
            num_charged=index.ledger.num_charged,
        )

    def chunks(self, number: int, chunk_bytes: int) -> list[tuple[_core.CtfChunk, int]]:
        """Return the chunks of the file, which is number `number`, and their sequences."""
        if not len(self.offsets):
            return []
        firsts = _core.ctf_chunks(self.offsets, self.size, chunk_bytes).astype(np.int64)
        ends = np.append(firsts[1:], len(self.offsets))
        begins = np.append(self.offsets, np.uint64(self.size)).astype(np.int64)
        # The end of the file belongs to its last chunk.
        edges = np.append(begins[:-1], self.size + 1)
        items = np.searchsorted(self.item_offsets.astype(np.int64), edges)
        return [
            (
                _core.CtfChunk(
                    file=number,
                    offset=int(begins[first]),
                    bytes=int(begins[end] - begins[first]),
                    first_line=int(self.lines[first]),
                    num_sequences=int(end - first),
                    num_items=int(items[end] - items[first]),
                ),
                int(end - first),
            )
            for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)
        ]


def _index_in_parts(
    file: _core.File, form: _core.CtfFormat, start: _core.CtfStart, max_errors: int
) -> _core.CtfIndex:
    """Index a file on several threads; what comes out does not depend on their number."""
    size = file.tag.size
    threads = max(1, min(os.cpu_count() or 1, (size - start.offset) // _PART_BYTES))
    begins = [_core.ctf_part(file, form, start, size * i // threads) for i in range(threads)]
    borders = sorted({*begins, size})
    index = _core.CtfIndex(max_errors)
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(
            lambda part: _core.ctf_index(file, form, start, part[0], part[1], max_errors),
            pairwise(borders),
        )
        for part in parts:
            index.append(part, start)
    return index
