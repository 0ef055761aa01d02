"""Digests of what minibatches hold, to tell whether two of them are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sweephand.minibatch.minibatch import Minibatch


def digest_of(minibatch: Minibatch) -> str:
    """Return the digest of a minibatch's ids, and of all streams' lengths and values.

    Returns
    -------
    str
        32 hexadecimal digits; layouts, threads and the machine's byte order make no difference.

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
    return _digest(_all_parts(minibatch))


def digests_by_id(minibatch: Minibatch) -> dict[str, str]:
    """Return for every sequence of a minibatch its id and the digest of its streams."""
    streams = [minibatch[name].as_sequences() for name in sorted(minibatch)]
    return {
        name: _digest(part for values in sequence for part in _parts(values))
        for name, *sequence in zip(minibatch.ids, *streams, strict=True)
    }


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _all_parts(minibatch: Minibatch) -> Iterator[bytes]:
    # Ids may hold bytes of a file's name that are no text.
    yield from (name.encode(errors="surrogatepass") for name in minibatch.ids)
    for name in sorted(minibatch):
        data = minibatch[name]
        yield name.encode()
        yield from _parts(data.lengths)
        yield from _parts(data.values)


def _parts(values: Any) -> Iterator[bytes]:
    """Yield the bytes of an array, or of a SciPy CSR matrix."""
    if hasattr(values, "indptr"):
        for array in (np.diff(values.indptr), values.indices, values.data):
            yield from _parts(array)
    elif values.dtype.hasobject:
        yield from (bytes(item) for item in values.ravel())
    else:
        yield f"{values.dtype.name} {values.shape}".encode()
        yield values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
