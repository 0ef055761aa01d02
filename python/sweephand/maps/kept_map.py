"""A map with ``cache=True``: what it makes, in a file that is read like stored chunks.

Of every chunk it has a block (`run/records.py`), whose payload is a file of NumPy's arrays. The
index beside it has the sizes, and the place of every block.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import SampleForm
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError, SweephandHint
from sweephand.files.index_file import show_progress
from sweephand.files.local import LocalFile, stat_file
from sweephand.maps.kept_pass import KeptPass, MeasuredSizes, PassFindings
from sweephand.maps.measure import (
    Expansion,
    FirstLook,
    MakeTask,
    first_results,
    parts_of,
    stale,
)
from sweephand.maps.sequence_map import StoredStreams
from sweephand.maps.task import Measured, OpenedMap, sizes_made
from sweephand.run.records import pack_block, read_block

_DAMAGED = "the file that keeps what a map made is damaged; delete it, and it is made again"
_ARRAYS = ("values", "sample_offsets", "element_offsets", "indices")  # of a column
_NEARLY = 1e-3  # of the largest number: processors sum in other orders


def cached_corpus(
    opened: OpenedMap, look: FirstLook, streams: list[StreamInfo]
) -> StoredCorpus | None:
    """Return the corpus of a map's results, which are computed and kept if they were not.

    None if it cannot be kept: some sequences are damaged, or nothing can be written. DataError
    if the map is wrong at a sequence, and the budget does not hold it; ValueError if the data
    are not read in chunks of files, or nothing is left.
    """
    corpus, wanted = opened.corpus, opened.map
    assert isinstance(corpus, StoredCorpus)
    if corpus.resident or not corpus.files:
        raise ValueError(
            f"{wanted} with cache=True is for files that are read chunk by chunk, such as "
            "text; these data are in memory or read in place: map them without it"
        )
    kept = KeptPass(corpus, opened.opening, f"{wanted.fingerprint} kept")
    task = partial(opened.task, opened.call(partial(sizes_made, keeps=True), look.form))
    is_new = False
    if (found := _recalled(kept)) is not None:
        if found.facts["streams"] != [info.describe() for info in streams]:
            raise stale(wanted, found, "other streams than those that were kept")
    else:
        with kept.alone() as place:
            if (found := _recalled(kept)) is None:  # no other process has made it meanwhile
                try:
                    kept.keep(_made(opened, task, look.form, streams, place))
                    found, is_new = _recalled(kept), True
                except NotKept as error:
                    warnings.warn(
                        f"what {wanted} makes is not kept {error}, so it is made again "
                        "whenever it is wanted",
                        SweephandHint,
                        stacklevel=2,
                    )
    if found is None:
        return None
    result = _corpus_of(corpus, found, streams)
    if not is_new:
        _compare(result, found, opened, task)
    return result


class NotKept(Exception):
    """The reason why what a map makes is not kept."""


def _data_of(index: Path) -> Path:
    return index.with_name(f"{index.name}.data")


def _recalled(kept: KeptPass) -> PassFindings | None:
    """Return what was kept, if its file is there."""
    if (found := kept.recall()) is None or found.path is None:
        return None
    try:
        file = stat_file(_data_of(found.path))
    except OSError:
        return None
    return found if file.size == found.facts["bytes"] else None


def _corpus_of(
    stored: StoredCorpus, found: PassFindings, streams: list[StreamInfo]
) -> StoredCorpus:
    assert found.path is not None
    file = stat_file(_data_of(found.path))
    kept, expansion = stored.keep(found.counts > 0), Expansion.of(found)
    reader = StoredReader(
        core=_core.read.CallbackDeserializer(
            partial(_load, file, found.arrays["chunks"], streams)
        ),
        streams=streams,
        chunks=expansion.chunks(kept),
        measure=lambda: expansion.sizing(kept),
        resident=False,
        sample_bytes=file.size / max(1, int(found.values.sum(dtype=np.uint64))),
        sized_by_streams=all(one.sized_by_streams for one in stored.readers),
        holds_stored=False,
        open_chunks=stored.open_chunks,
    )
    return expansion.corpus(kept, reader)


def _load(
    file: LocalFile, offsets: NDArray[np.uint64], streams: list[StreamInfo], chunk: int
) -> _core.read.Chunk:
    """Return a chunk; DataError if the bytes are not those that were written."""
    file.check_unchanged()
    offset = int(offsets[chunk])
    with Path(file.path).open("rb") as opened:
        opened.seek(offset)
        try:
            _, packed = read_block(opened)
        except ValueError as error:
            raise DataError(_DAMAGED, file.path, offset) from error
    with np.load(BytesIO(packed), allow_pickle=False) as arrays:
        return make_chunk(
            [_column(number, info, arrays) for number, info in enumerate(streams)]
        )


def _compare(
    kept: StoredCorpus, found: PassFindings, opened: OpenedMap, task: MakeTask
) -> None:
    """Compare the first sequences that are kept with those that are made now."""
    stored = StoredStreams(kept)
    with closing(one_pass(kept, opened.opening.ledger, 1)) as batches:
        for number, now in first_results(opened, task):
            if len(now.made[0]) != found.counts[number]:
                raise stale(opened.map, found, "another number of sequences")
            for samples, (_, batch) in zip(now.made[0], batches, strict=False):
                for name, sequences in stored.sequences_of(batch).items():
                    if not _alike(samples[name], sequences.as_arrays()[0]):
                        how = f"other values of stream {name!r} than those that were kept"
                        raise stale(opened.map, found, how)


def _alike(one: Any, other: Any) -> bool:
    if hasattr(one, "toarray"):
        one, other = one.toarray(), other.toarray()
    if isinstance(one, list):
        return bool(list(one) == other.tolist())
    if one.shape != other.shape or one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    largest = float(np.abs(one[np.isfinite(one)]).max(initial=0))
    return bool(np.allclose(one, other, rtol=0, atol=_NEARLY * largest, equal_nan=True))


def _made(
    opened: OpenedMap,
    task: MakeTask,
    form: SampleForm,
    streams: list[StreamInfo],
    place: Path | None,
) -> PassFindings:
    """Map all sequences, write the results, and return all else that is to be kept."""
    if place is None:
        raise NotKept("(name a folder by SWEEPHAND_CACHE)")
    corpus, sizes = opened.corpus, MeasuredSizes()
    part_path = place.with_name(f"{place.name}.part")
    ends = corpus.chunk_starts.offsets()[1:].tolist()
    offsets: list[int] = []
    waiting = Measured()  # of chunks that are not complete
    done = 0
    try:
        with (
            show_progress(f"keeping what {opened.map} makes", corpus.num_sequences) as advance,
            part_path.open("wb") as file,
        ):
            for part in parts_of(opened, task):
                if not part.is_clean:
                    raise NotKept("as some sequences are damaged")
                waiting.add(part)
                advance(len(part.sizes))
                while ends and len(waiting.sizes) >= (count := ends[0] - done):
                    own, made = waiting.sizes[:count], waiting.made[:count]
                    chunk = Measured(own, several=waiting.several, made=made)
                    del waiting.sizes[:count], waiting.made[:count], ends[0]
                    sizes.add(chunk)
                    offsets.append(file.tell())
                    file.write(pack_block(b"", _packed(form, chunk)))
                    done += count
            num_bytes = file.tell()
            file.flush()
            os.fsync(file.fileno())
        part_path.replace(_data_of(place))
    except OSError as error:
        advice = "make room, or name another folder by SWEEPHAND_CACHE"
        raise NotKept(f"in {part_path} ({error.strerror or error}; {advice})") from error
    finally:
        with suppress(OSError):
            part_path.unlink(missing_ok=True)
    found = sizes.findings()
    described = {"streams": [info.describe() for info in streams], "bytes": num_bytes}
    arrays = {"chunks": np.array(offsets, np.uint64)}
    return found._replace(facts={**found.facts, **described}, arrays=arrays)


def _packed(form: SampleForm, chunk: Measured) -> bytes:
    """Return what was made of the sequences of a chunk, as a file of NumPy's arrays."""
    samples = [one for several in chunk.made for one in several]
    if not samples:
        return b""
    arrays: dict[str, Any] = {}
    for number, column in enumerate(form.to_columns(samples).values()):
        for name in _ARRAYS:
            if (array := getattr(column, name)) is not None:
                # NumPy's files do not know the types of other libraries.
                plain = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
                arrays[f"{name} {number}"] = plain
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _column(number: int, info: StreamInfo, arrays: Mapping[str, NDArray[Any]]) -> ColumnData:
    names = {name: f"{name} {number}" for name in _ARRAYS}
    held: dict[str, Any] = {
        name: arrays[named] for name, named in names.items() if named in arrays
    }
    values, ends = held.pop("values"), held.get("element_offsets")
    if info.dtype.kind == "V":
        values = values.view(info.dtype)
    num_samples = len(values) if ends is None else len(ends) - 1
    return ColumnData(values, info.dtype, info.shape, num_samples, **held)
