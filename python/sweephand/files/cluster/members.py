"""The members of a cluster, and which of them is to hold a range.

There is no directory: the owner of a chunk follows from its number and the list of members
alone. Every member has a score for every chunk (weighted rendezvous hashing), and the highest
score owns it, up to the member's part of the corpus; the excess goes to the next score. So
members fill their disks, and a member that comes or goes moves little but its own part.
Scores that computers round in different ways cost a request to the store at worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UNKNOWN_CHUNK = 2**64 - 1
_MOST_UNITS = 1 << 20  # of more chunks, some that follow each other have one owner
_FEW = 32  # more members have scores in groups, as each item has one of each
_BLOCK = 1 << 12  # items at a time


class Member(NamedTuple):
    """A node of a cluster.

    Attributes
    ----------
    max_bytes : int
        The room of its cache, by which it gets its part.
    name : str
        Stays with its disk, wherever its server is.
    """

    host: str
    port: int
    max_bytes: int
    name: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Owners:
    """The owner of every range.

    Parameters
    ----------
    members : sequence of Member
        In any order.
    chunk_samples : ndarray of uint64, shape (chunks,)
        Sizes of the chunks.
    corpus : int
        Digest of what numbers the chunks.

    Examples
    --------
    >>> members = [Member("10.0.0.1", 7070, 100, "a"), Member("10.0.0.2", 7070, 300, "b")]
    >>> owners = Owners(members, np.full(1000, 64, np.uint64), corpus=1)
    >>> sum(owners.of(bytes(16), chunk).name == "b" for chunk in range(1000))
    750
    """

    def __init__(
        self, members: Sequence[Member], chunk_samples: NDArray[np.uint64], corpus: int
    ) -> None:
        self.members = sorted(members, key=lambda one: one.name)
        self._corpus, self._num_chunks = corpus, len(chunk_samples)
        self._unit = max(1, -(-self._num_chunks // _MOST_UNITS))
        begins = np.arange(0, self._num_chunks, self._unit)
        sizes = (
            np.add.reduceat(chunk_samples.astype(np.int64), begins) if begins.size else begins
        )
        ids = np.arange(len(sizes), dtype=np.uint64) ^ np.uint64(corpus)
        self._table = _share(self.members, _mix(ids), sizes)

    def of(self, key: bytes, chunk: int) -> Member:
        """Return the owner of a range that a chunk reads."""
        if chunk != UNKNOWN_CHUNK:
            return self.members[int(self._table[chunk // self._unit])]
        number = np.array([int.from_bytes(key[:8], "little")], np.uint64)
        return self.members[int(_scores(self.members, _mix(number)).argmax())]

    def owned_by(self, index: int) -> NDArray[np.bool_]:
        """Return of each chunk True if a member, by its place, owns it."""
        units = np.equal(self._table, index)
        return np.repeat(units, self._unit)[: self._num_chunks]


def _share(
    members: Sequence[Member], ids: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the place of the owner of each item; of many members first that of its group."""
    if len(members) <= _FEW:
        return _assign(members, ids, sizes)
    count = 1 << (len(members) // _FEW).bit_length()
    groups: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        groups.setdefault(_digest(member.name) % count, []).append(place)
    rooms = {number: sum(members[one].max_bytes for one in of) for number, of in groups.items()}
    as_one = [Member("", 0, rooms[number], f"group {number}") for number in sorted(groups)]
    group_of = _assign(as_one, ids, sizes)
    owner = np.empty(len(sizes), np.int64)
    for place, number in enumerate(sorted(groups)):
        items = np.flatnonzero(group_of == place)
        inner = _assign([members[one] for one in groups[number]], ids[items], sizes[items])
        owner[items] = np.array(groups[number])[inner]
    return owner


def _assign(
    members: Sequence[Member], ids: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Give each item to the highest score whose member has room in its part left."""
    ends, total = list(accumulate(one.max_bytes for one in members)), int(sizes.sum())
    parts = [total * end // ends[-1] for end in ends]
    left = [end - begin for begin, end in pairwise([0, *parts])]
    owner, open_members = np.zeros(len(sizes), np.int64), np.arange(len(members))
    waiting = np.arange(len(sizes))
    while waiting.size and open_members.size:
        best, score = _best([members[int(one)] for one in open_members], ids[waiting])
        refused = []
        for place, member in enumerate(open_members.tolist()):
            mine = np.flatnonzero(best == place)
            asking = waiting[mine[np.argsort(-score[mine], kind="stable")]]
            before = np.cumsum(sizes[asking]) - sizes[asking]
            taken = asking[before < left[member]]
            owner[taken] = member
            left[member] -= int(sizes[taken].sum())
            refused.append(asking[len(taken) :])
        open_members = np.array([one for one in open_members if left[one] > 0], np.int64)
        waiting = np.concatenate(refused)
    return owner  # empty items stay with the first


def _best(
    members: Sequence[Member], ids: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the place of the highest score of each item, and the score."""
    best, score = np.empty(len(ids), np.int64), np.empty(len(ids))
    for begin in range(0, len(ids), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        scores = _scores(members, ids[block])
        best[block] = scores.argmax(axis=1)
        score[block] = scores.max(axis=1)
    return best, score


def _scores(members: Sequence[Member], ids: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the score of each member for each item, of shape (items, members)."""
    names = np.array([_digest(one.name) for one in members], np.uint64)
    both = _mix(ids[:, None] ^ names)
    uniform = (both >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54
    return np.array([-one.max_bytes for one in members]) / np.log(uniform)


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit numbers (SplitMix64's finalizer)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
