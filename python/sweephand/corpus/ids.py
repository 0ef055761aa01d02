"""Names of sequences: strings that stay the same wherever the corpus is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
        """Return the number in the corpus of the sequence with this id; KeyError without it."""

    def number_of(self, wanted: object) -> int:
        """Return the number of the sequence with an id that a user gave.

        TypeError if it is no text; KeyError if there is none, with the form of ids here.
        """
        first = self.names(np.zeros(1, np.uint64))[0]
        if not isinstance(wanted, str):
            raise TypeError(f"an id is text, such as {first!r}, got {shown(wanted)}")
        try:
            return self.number(wanted)
        except KeyError as error:
            raise KeyError(f"{error.args[0]}; here ids look like {first!r}") from None

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of all that were made of a sequence; KeyError without it."""
        return [self.number(name)]

    def numbers_of(self, names: Iterable[str]) -> NDArray[np.uint64]:
        """Return the `numbers` of several ids, in the order of the ids."""
        return np.array([number for name in names for number in self.numbers(name)], np.uint64)

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the file or corpus of each of these sequences; "" where it is not known."""
        return [""] * len(numbers)

    def digests(self, count: int) -> NDArray[np.uint64]:
        """Return `digests_of_names` of the first `count` ids."""
        parts = [
            digests_of_names(self.names(np.arange(i, min(i + _ROUND, count), dtype=np.uint64)))
            for i in range(0, count, _ROUND)
        ]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def fingerprint(self, count: int) -> str:
        """Return the digest that binds the first `count` ids: ``docs/receipts.md``."""
        return f"ids {hash_of([self.digests(count).astype('<u8', copy=False).data])}"


def hash_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return BLAKE2b, of 16 bytes in hex, of the concatenated parts."""
    from hashlib import blake2b  # only here, as it loads OpenSSL

    found = blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.hexdigest()


def encoded(name: str) -> bytes:
    """Return a name in UTF-8; it may hold bytes of a file's name that are no text."""
    return name.encode("utf-8", "surrogateescape")


def with_length(text: str) -> bytes:
    """Return a text in UTF-8, after its length as 8 bytes."""
    return len(encoded(text)).to_bytes(8, "little") + encoded(text)


def digests_of_names(names: Sequence[str]) -> NDArray[np.uint64]:
    """Return FNV-1a, of 64 bits, of the bytes of names: ``docs/order.md``, section 8.

    Of these the core makes the random words of ids, which depend on a seed, too.
    """
    all_names = [encoded(name) for name in names]
    offsets = offsets_of(list(map(len, all_names)))
    return _core.base.name_digests(np.frombuffer(b"".join(all_names), np.uint8), offsets)


def places_in(
    starts: NDArray[np.int64], numbers: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the part of a corpus that each sequence is of, and its number in that."""
    signed = numbers.astype(np.int64)
    part = np.searchsorted(starts, signed, side="right") - 1
    return part, signed - starts[part]


def number_in(name: str, separator: str) -> tuple[str, int]:
    """Return an id's parts before and after the separator; -1 where that is no number."""
    whole, _, text = name.rpartition(separator)
    return whole, int(text) if text.isdecimal() and str(int(text)) == text else -1


class ShardIds(SequenceIds):
    """Ids ``<shard>__<number in the shard>``.

    Parameters
    ----------
    shards : sequence of str
        Names, all different.
    starts : sequence of int
        Number in the corpus of each shard's first sequence, and the end.

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
        if len(self.shards) == 1:
            prefix = f"{self.shards[0]}__"
            return [f"{prefix}{number}" for number in numbers.tolist()]
        shards, local = (one.tolist() for one in places_in(self.starts, numbers))
        return [f"{self.shards[s]}__{n}" for s, n in zip(shards, local, strict=True)]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        return [self.shards[s] for s in places_in(self.starts, numbers)[0].tolist()]

    def number(self, name: str) -> int:
        shard, local = number_in(name, "__")
        first, end = self._spans.get(shard, (0, 0))
        if 0 <= local < end - first:
            return first + local
        raise KeyError(f"no sequence has the id {name!r}")

    def digests(self, count: int) -> NDArray[np.uint64]:
        sizes = np.diff(np.minimum(self.starts, count)).tolist()
        parts = [
            _core.base.numbered_digests(np.frombuffer(encoded(f"{shard}__"), np.uint8), size)
            for shard, size in zip(self.shards, sizes, strict=True)
        ]
        return np.concatenate(parts)

    def fingerprint(self, count: int) -> str:
        starts = [int(start).to_bytes(8, "little") for start in self.starts[:-1]]
        pairs = zip(map(with_length, self.shards), starts, strict=True)
        end = count.to_bytes(8, "little")
        return f"shards {hash_of([*(part for pair in pairs for part in pair), end])}"


class GivenIds(SequenceIds):
    """Ids that the user gave, one per sequence; of integers their decimal digits.

    ValueError if one repeats.
    """

    def __init__(self, given: Sequence[str] | NDArray[np.generic]) -> None:
        self._names = [str(name) for name in given]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) != len(self._names):
            counts = Counter(self._names)
            twice = next(name for name, count in counts.items() if count > 1)
            raise ValueError(f"ids must be unique, {twice!r} is there more than once")

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        return [self._names[number] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        if name not in self._numbers:
            raise KeyError(f"no sequence has the id {name!r}")
        return self._numbers[name]


@dataclass(frozen=True)
class KeptIds(SequenceIds):
    """Ids of the sequences that are kept of a corpus; their names do not change."""

    all_ids: SequenceIds
    kept: NDArray[np.integer]

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        return self.all_ids.names(self.kept[numbers])

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        return self.all_ids.corpora(self.kept[numbers])

    def number(self, name: str) -> int:
        return self._places_of(name, [self.all_ids.number(name)])[0]

    def numbers(self, name: str) -> list[int]:
        return self._places_of(name, self.all_ids.numbers(name))

    def _places_of(self, name: str, numbers: list[int]) -> list[int]:
        places = np.searchsorted(self.kept, numbers)
        places = places[places < len(self.kept)]
        found = places[np.isin(self.kept[places], numbers)]
        if not found.size:
            raise KeyError(f"the sequence {name!r} was left out of the corpus")
        return [int(place) for place in found]

    def digests(self, count: int) -> NDArray[np.uint64]:
        kept = self.kept[:count]
        return self.all_ids.digests(int(kept[-1]) + 1 if count else 0).take(kept)


@dataclass(frozen=True)
class PartIds(SequenceIds):
    """Ids ``<id of the sequence>#<part>``."""

    ids: SequenceIds
    starts: Callable[[], NDArray[np.int64]]  # the first part of each sequence, and the end

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        sequences, places = places_in(self.starts(), numbers)
        names = self.ids.names(sequences)
        return [f"{name}#{place}" for name, place in zip(names, places.tolist(), strict=True)]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        return self.ids.corpora(places_in(self.starts(), numbers)[0])

    def numbers(self, name: str) -> list[int]:
        try:
            return [self.number(name)]
        except KeyError:
            starts, sequences = self.starts(), self.ids.numbers(name)
            return [n for one in sequences for n in range(*starts[one : one + 2].tolist())]

    def number(self, name: str) -> int:
        sequence, place = number_in(name, "#")
        if place >= 0:
            number = self.ids.number(sequence)
            first, end = self.starts()[number : number + 2].tolist()
            if place < end - first:
                return int(first) + place
        raise KeyError(f"no part of a sequence has the id {name!r}")


Keys = Callable[[], NDArray[np.int64] | list[str]]
"""Returns the join keys of all sequences."""


@dataclass(frozen=True)
class NumberKeys:
    """Join keys of sequences joined by their numbers in the corpus they come from."""

    numbers: NDArray[np.uint64]
    # the file of which the rest is lost, and with it the numbers of all later sequences
    lost_in: str = ""

    def __call__(self) -> NDArray[np.int64]:
        if self.lost_in:
            raise DataError(
                "the rest of the file is lost, and with it the numbers of all later sequences, "
                "by which they would be joined: join by ids=, or leave the file out",
                self.lost_in,
            )
        return self.numbers.astype(np.int64)


def kept_keys(keys: Keys | None, numbers: NDArray[np.uint64]) -> Keys:
    """Return the join keys of the sequences that are kept."""
    if keys is None:
        return NumberKeys(numbers)
    if isinstance(keys, NumberKeys):
        return keys if keys.lost_in else NumberKeys(keys.numbers[numbers])

    def found_keys() -> NDArray[np.int64] | list[str]:
        found = keys()
        return (
            [found[n] for n in numbers.tolist()] if isinstance(found, list) else found[numbers]
        )

    return found_keys
