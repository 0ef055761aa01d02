"""Names of sequences: strings that stay the same wherever the corpus is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.errors import DataError, shown

_ROUND = 1 << 20  # names that are made at once, where all are looked at


class SequenceIds(ABC):
    """The id of every sequence of a corpus."""

    @abstractmethod
    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""

    @abstractmethod
    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id.

        Raises
        ------
        KeyError
            If there is no such sequence.
        """

    def number_of(self, wanted: object) -> int:
        """Return the number of the sequence with an id that a user gave.

        Raises
        ------
        TypeError
            If the id is no text.
        KeyError
            If there is none, with the form of the ids here.
        """
        if not isinstance(wanted, str):
            raise TypeError(f"an id is text, such as {self._first!r}, got {shown(wanted)}")
        try:
            return self.number(wanted)
        except KeyError as error:
            raise KeyError(f"{error.args[0]}; here ids look like {self._first!r}") from None

    @property
    def _first(self) -> str:
        return self.names(np.zeros(1, np.uint64))[0]

    def numbers(self, name: str) -> list[int]:
        """Return the number of the sequence with this id, or of all that were made of it.

        Raises
        ------
        KeyError
            If there is none.
        """
        return [self.number(name)]

    def numbers_of(self, names: Iterable[str]) -> NDArray[np.uint64]:
        """Return the numbers of ids, in the order of the ids."""
        return np.array([number for name in names for number in self.numbers(name)], np.uint64)

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the file or corpus of each of these sequences; "" where it is not known."""
        return [""] * len(numbers)

    def digests(self, count: int) -> NDArray[np.uint64]:
        """Return `digests_of_names` of the first `count` ids."""
        rounds = range(0, count, _ROUND)
        parts = [
            digests_of_names(self.names(np.arange(i, min(i + _ROUND, count), dtype=np.uint64)))
            for i in rounds
        ]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def fingerprint(self, count: int) -> str:
        """Return the digest of the first `count` ids: ``docs/receipts.md``."""
        return f"ids {hash_of([self.digests(count).astype('<u8', copy=False).data])}"


def hash_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return BLAKE2b, of 16 bytes in hex, of the concatenated parts."""
    from hashlib import blake2b  # only here, as it loads OpenSSL

    found = blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.hexdigest()


def with_length(text: str) -> bytes:
    """Return a text in UTF-8, after its length as 8 bytes."""
    encoded = text.encode("utf-8", "surrogateescape")
    return len(encoded).to_bytes(8, "little") + encoded


class ShardIds(SequenceIds):
    """Ids ``<shard>__<number in the shard>``.

    Parameters
    ----------
    shards : sequence of str
        Names, all different.
    starts : sequence of int
        Number in the corpus of each shard's first sequence, and the end.

    Attributes
    ----------
    shards, starts : list of str, ndarray of int64
        The same.

    Examples
    --------
    >>> ids = ShardIds(["a.npy", "b.npy"], [0, 3, 5])
    >>> ids.names(np.array([2, 3])), ids.number("b.npy__1")
    (['a.npy__2', 'b.npy__0'], 4)
    """

    def __init__(self, shards: Sequence[str], starts: Sequence[int]) -> None:
        if len(set(shards)) != len(shards):
            twice = next(name for name in shards if list(shards).count(name) > 1)
            raise ValueError(
                f"two files are called {twice!r}: ids would repeat; give them other names"
            )
        self.shards = list(shards)
        self.starts = np.asarray(starts, dtype=np.int64)

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        return dict(zip(self.shards, pairwise(self.starts.tolist()), strict=True))

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        if len(self.shards) == 1:
            prefix = f"{self.shards[0]}__"
            return [f"{prefix}{number}" for number in numbers.tolist()]
        signed = numbers.astype(np.int64)
        shard = self._shard_of(signed)
        local = signed - self.starts[shard]
        return [
            f"{self.shards[s]}__{n}"
            for s, n in zip(shard.tolist(), local.tolist(), strict=True)
        ]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the shard of each of these sequences."""
        return [self.shards[s] for s in self._shard_of(numbers.astype(np.int64)).tolist()]

    def _shard_of(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self.starts, numbers, side="right") - 1

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        shard, separator, text = name.rpartition("__")
        first, end = self._spans.get(shard, (0, 0))
        if separator and text.isdecimal() and str(int(text)) == text:
            number = first + int(text)
            if number < end:
                return number
        raise KeyError(f"no sequence has the id {name!r}")

    def digests(self, count: int) -> NDArray[np.uint64]:
        """Return `digests_of_names` of the first `count` ids."""
        sizes = np.diff(np.minimum(self.starts, count)).tolist()
        parts = [
            digests_of_numbers(f"{shard}__", size)
            for shard, size in zip(self.shards, sizes, strict=True)
        ]
        return np.concatenate(parts)

    def fingerprint(self, count: int) -> str:
        """Return the digest that binds the first `count` numbers to their ids, by shards."""
        starts = [int(start).to_bytes(8, "little") for start in self.starts[:-1]]
        pairs = zip(map(with_length, self.shards), starts, strict=True)
        end = count.to_bytes(8, "little")
        return f"shards {hash_of([*(part for pair in pairs for part in pair), end])}"


class GivenIds(SequenceIds):
    """Ids that the user gave.

    Parameters
    ----------
    given : sequence of str or int
        One per sequence, all different; integers become their decimal digits.

    Raises
    ------
    ValueError
        If an id repeats.
    """

    def __init__(self, given: Sequence[str] | NDArray[np.generic]) -> None:
        self._names = [str(name) for name in given]
        if len(self._numbers) != len(self._names):
            counts = Counter(self._names)
            twice = next(name for name, count in counts.items() if count > 1)
            raise ValueError(f"ids must be unique, {twice!r} is there more than once")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._names)}

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self._names[number] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        try:
            return self._numbers[name]
        except KeyError:
            raise KeyError(f"no sequence has the id {name!r}") from None


class KeptIds(SequenceIds):
    """Ids of the sequences that are kept of a corpus; their names do not change."""

    def __init__(self, all_ids: SequenceIds, kept: NDArray[np.integer]) -> None:
        self._all_ids = all_ids
        self._kept = kept

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return self._all_ids.names(self._kept[numbers])

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return which file or corpus each of these sequences is of."""
        return self._all_ids.corpora(self._kept[numbers])

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        return self._places_of(name, [self._all_ids.number(name)])[0]

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the kept sequences that were made of a sequence."""
        return self._places_of(name, self._all_ids.numbers(name))

    def _places_of(self, name: str, numbers: list[int]) -> list[int]:
        places = np.searchsorted(self._kept, numbers)
        places = places[places < len(self._kept)]
        found = places[np.isin(self._kept[places], numbers)]
        if not found.size:
            raise KeyError(f"the sequence {name!r} was left out of the corpus")
        return [int(place) for place in found]

    def digests(self, count: int) -> NDArray[np.uint64]:
        """Return `digests_of_names` of the first `count` ids."""
        kept = self._kept[:count]
        digests = self._all_ids.digests(int(kept[-1]) + 1 if count else 0)
        return digests.take(kept)


# A random word of every id: 64 bits that depend on the id and a seed alone.
#
# docs/order.md, "Parts of a corpus", defines them.

Words = NDArray[np.uint64]


def id_words(digests: Words, seed: int) -> Words:
    """Return the random words of ids by their digests: ``derive_key(seed, digest)``."""
    return _core.base.digest_words(digests, seed)


def digest_of_name(name: str) -> int:
    """Return the digest of a single name, as `digests_of_names`."""
    return _core.base.name_digest(name.encode("utf-8", "surrogateescape"))


def digests_of_names(names: Sequence[str]) -> Words:
    """Return FNV-1a, of 64 bits, of the bytes of names in UTF-8."""
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    offsets = offsets_of(list(map(len, encoded)))
    return _core.base.name_digests(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def digests_of_numbers(prefix: str, count: int) -> Words:
    """Return the digests of the names ``<prefix>0``, ``<prefix>1``, ..., `count` of them."""
    encoded = np.frombuffer(prefix.encode("utf-8", "surrogateescape"), np.uint8)
    return _core.base.numbered_digests(encoded, count)


Keys = Callable[[], NDArray[np.int64] | list[str]]
"""Returns the join keys of all sequences."""


class KeptNumbers:
    """Join keys of sequences joined by their numbers in the corpus they come from."""

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self._numbers = numbers

    def __call__(self) -> NDArray[np.int64]:
        """Return the numbers."""
        return self._numbers.astype(np.int64)

    def take(self, numbers: NDArray[np.uint64]) -> KeptNumbers:
        """Return the keys of the sequences that are kept."""
        return KeptNumbers(self._numbers[numbers])


class LostNumbers(KeptNumbers):
    """Numbers that nobody knows, as unknown numbers of rows are lost before some of them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> NDArray[np.int64]:
        """Refuse a join."""
        raise DataError(
            "the rest of the file is lost, and with it the numbers of all later sequences, by "
            "which they would be joined: join by ids=, or leave the file out",
            self._path,
        )

    def take(self, numbers: NDArray[np.uint64]) -> KeptNumbers:
        """Return the same."""
        return self


def kept_keys(keys: Keys | None, numbers: NDArray[np.uint64]) -> Keys:
    """Return the join keys of the sequences that are kept."""
    if keys is None:
        return KeptNumbers(numbers)
    if isinstance(keys, KeptNumbers):
        return keys.take(numbers)

    def found_keys() -> NDArray[np.int64] | list[str]:
        found = keys()
        return (
            [found[n] for n in numbers.tolist()] if isinstance(found, list) else found[numbers]
        )

    return found_keys


class PartIds(SequenceIds):
    """Ids ``<id of the sequence>#<part>``."""

    def __init__(
        self, ids: SequenceIds, starts: Callable[[], NDArray[np.int64]], noun: str = "sequence"
    ) -> None:
        self._ids, self._starts, self._noun = ids, starts, noun

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the parts with these numbers in the corpus."""
        sequence = self._sequence_of(numbers)
        places = (numbers.astype(np.int64) - self._starts()[sequence]).tolist()
        names = self._ids.names(sequence)
        return [f"{name}#{place}" for name, place in zip(names, places, strict=True)]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the file or corpus of each of these parts."""
        return self._ids.corpora(self._sequence_of(numbers))

    def _sequence_of(self, numbers: NDArray[np.integer]) -> NDArray[np.intp]:
        return np.searchsorted(self._starts(), numbers.astype(np.int64), side="right") - 1

    def numbers(self, name: str) -> list[int]:
        """Return the number of a part, or of all parts of a sequence."""
        try:
            return [self.number(name)]
        except KeyError:
            starts, sequences = self._starts(), self._ids.numbers(name)
            return [n for one in sequences for n in range(*starts[one : one + 2].tolist())]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the part with this id."""
        sequence, _, text = name.rpartition("#")
        if text.isdecimal() and str(int(text)) == text:
            number = self._ids.number(sequence)
            first, end = self._starts()[number : number + 2].tolist()
            if int(text) < end - first:
                return int(first) + int(text)
        raise KeyError(f"no {self._noun} has the id {name!r}")
