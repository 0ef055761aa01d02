"""Digests of the content of minibatches, by which two can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.objects import object_text
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.minibatch_data import MinibatchData


def digest_of(minibatch: Minibatch) -> str:
    """Return the digest of a minibatch's ids, and of all streams' lengths and values.

    It is of 32 hexadecimal digits; layouts, threads and the machine's byte order make no
    difference.

    Examples
    --------
    >>> import sweephand as sh
    >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(4)}))
    >>> state = source.get_checkpoint_state()
    >>> first = digest_of(source.next_minibatch(2))
    >>> source.restore_from_checkpoint(state)
    >>> digest_of(source.next_minibatch(2)) == first
    True
    """
    parts = _encoded(minibatch.ids)
    for name in sorted(minibatch):
        data = minibatch[name]
        parts += [name.encode(), *_parts(data.lengths), *_parts(data.values)]
    return _digested(parts, 16).hex()


def digests_by_id(minibatch: Minibatch) -> dict[str, str]:
    """Return for every sequence of a minibatch its id and the digest of its streams."""
    streams = [minibatch[name].as_sequences() for name in sorted(minibatch)]
    return {
        name: _digested((part for one in sequence for part in _parts(one)), 16).hex()
        for name, *sequence in zip(minibatch.ids, *streams, strict=True)
    }


def sum_of_digests(minibatch: Minibatch, streams: Iterable[str]) -> int:
    """Return the sum modulo 2^64 of a digest of each sequence, or of each piece in rows.

    It depends on the contents of sequences alone, so that sums over the shares of any number of
    workers add up to that over the minibatch. Digested are the id, in layouts of rows the
    number of the first sample of a piece, and the name and values of each stream.
    """
    by_name = {minibatch[key].info.name: minibatch[key] for key in minibatch}
    chosen = {name: by_name[name] for name in sorted(streams)}
    firsts = np.zeros(minibatch.num_sequences, np.uint64)
    if minibatch.layout.has_rows:
        firsts = minibatch._plan.cells().reshape(-1, 4)[:, 2].astype(np.uint64)
    names = _encoded(minibatch.ids)
    arrays = [_as_array(name, data) for name, data in chosen.items()]
    if None not in arrays:
        return _core.base.sum_of_digests(
            np.frombuffer(b"".join(names), np.uint8),
            offsets_of(list(map(len, names))),
            firsts,
            arrays,  # type: ignore[arg-type] # none of them is None
        )
    columns = [(name.encode(), data.as_sequences()) for name, data in chosen.items()]
    total = 0
    for i, (own_name, first) in enumerate(zip(names, firsts.tolist(), strict=True)):
        parts = [own_name, first.to_bytes(8, "little")]
        for stream, sequences in columns:
            parts += [stream, *_parts(sequences[i])]
        total += int.from_bytes(_digested(parts, 8), "little")
    return total % 2**64


_Array = tuple[bytes, bytes, bytes, NDArray[np.uint8], NDArray[np.int64], int]


def _as_array(name: str, data: MinibatchData) -> _Array | None:
    """Return the array of a stream that the core digests; None if it has no plain numbers."""
    values = data.values
    if not isinstance(values, np.ndarray) or values.dtype.hasobject or not values.size:
        return None
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    after = "".join(f", {size}" for size in values.shape[1:]) or ","
    return (
        name.encode(),
        f"{values.dtype.name} (".encode(),
        f"{after})".encode(),
        np.ascontiguousarray(values).reshape(-1).view(np.uint8),
        data.offsets,
        values.nbytes // len(values),
    )


def _digested(parts: Iterable[bytes], size: int) -> bytes:
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _encoded(ids: Iterable[str]) -> list[bytes]:
    # Ids may hold bytes of a file's name that are no text.
    return [name.encode(errors="surrogatepass") for name in ids]


def _parts(values: Any) -> Iterator[bytes]:
    """Yield the bytes of an array, or of a SciPy CSR matrix."""
    if hasattr(values, "indptr"):
        for array in (np.diff(values.indptr), values.indices, values.data):
            yield from _parts(array)
    elif values.dtype.hasobject:
        yield from (
            item if isinstance(item, bytes) else object_text(item) for item in values.ravel()
        )
    else:
        yield f"{values.dtype.name} {values.shape}".encode()
        yield values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
