"""A random word of every id: 64 bits that depend on the id and a seed alone.

docs/order.md, "Parts of a corpus", defines them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of

Words = NDArray[np.uint64]


def id_words(digests: Words, seed: int) -> Words:
    """Return the random words of ids by their digests: ``derive_key(seed, digest)``."""
    return _core.base.digest_words(digests, seed)


def digest_of_name(name: str) -> int:
    """Return the digest of a single name, as `digests_of_names`."""
    return _core.base.name_digest(name.encode("utf-8", "surrogateescape"))


def digests_of_names(names: Sequence[str]) -> Words:
    """Return FNV-1a, of 64 bits, of the bytes of names in UTF-8.

    Examples
    --------
    >>> [hex(digest) for digest in digests_of_names(["", "a", "foobar"])]
    ['0xcbf29ce484222325', '0xaf63dc4c8601ec8c', '0x85944171f73967e8']
    """
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    offsets = offsets_of(list(map(len, encoded)))
    return _core.base.name_digests(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def digests_of_numbers(prefix: str, count: int) -> Words:
    """Return the digests of the names ``<prefix>0``, ``<prefix>1``, ..., `count` of them.

    Examples
    --------
    >>> bool(digests_of_numbers("a__", 12)[11] == digests_of_names(["a__11"])[0])
    True
    """
    encoded = np.frombuffer(prefix.encode("utf-8", "surrogateescape"), np.uint8)
    return _core.base.numbered_digests(encoded, count)
