"""Names of the sequences of a ledger, and the files or corpora that they are of.

Ids that are numbers in shards are stored once, by the shards; all others when they are met for
the first time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.follow.ledger.blocks import Kind, LedgerBlock, pack_block
from sweephand.extend import SequenceIds, ShardIds


class MetNames:
    """Names that a file of a ledger already holds, for its writer."""

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._is_known = np.zeros(0, np.bool_)  # by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add the names in a block; DataError if it holds none."""
        names = _parse(block, payload, path)
        if isinstance(names, ShardIds):
            self._shards = names
        else:
            self._mark(np.array([*names], np.uint64))

    def meet(self, ids: SequenceIds, numbers: NDArray[np.uint64], step: int) -> bytes:
        """Return blocks with the names of a step's sequences that are not in the file yet."""
        if isinstance(ids, ShardIds):
            return self._meet_shards(ids, step)
        self._reserve(numbers)
        fresh = np.unique(numbers[~self._is_known[numbers]])
        if not fresh.size:
            return b""
        self._mark(fresh)
        fields = {
            "numbers": fresh.tolist(),
            "names": ids.names(fresh),
            "corpora": ids.corpora(fresh),
        }
        return _pack(Kind.NAMES, step, fields)

    def _meet_shards(self, ids: ShardIds, step: int) -> bytes:
        known, self._shards = self._shards, ids
        if known is ids or (
            known is not None
            and known.shards == ids.shards
            and np.array_equal(known.starts, ids.starts)
        ):
            return b""
        fields = {"shards": ids.shards, "starts": ids.starts.tolist()}
        return _pack(Kind.SHARDS, step, fields)

    def _mark(self, numbers: NDArray[np.uint64]) -> None:
        self._reserve(numbers)
        self._is_known[numbers] = True

    def _reserve(self, numbers: NDArray[np.uint64]) -> None:
        wanted = int(numbers.max(initial=0)) + 1
        if wanted > len(self._is_known):
            grown = np.zeros(max(wanted, 2 * len(self._is_known)), np.bool_)
            grown[: len(self._is_known)] = self._is_known
            self._is_known = grown


class SequenceNames:
    """Names of the sequences of a ledger, by their numbers."""

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._named: dict[int, tuple[str, str]] = {}  # name and corpus by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add the names in a block; DataError if it holds none."""
        names = _parse(block, payload, path)
        if isinstance(names, ShardIds):
            self._shards = names
        else:
            self._named |= names

    def of(self, numbers: NDArray[np.uint64]) -> tuple[list[str], list[str]]:
        """Return names and corpora of sequences; an unknown sequence is named by its number."""
        listed = numbers.tolist()
        found = [self._named.get(number) or (str(number), "") for number in listed]
        if self._shards is not None and len(self._named) < len(found):
            self._fill(found, listed, self._shards)
        return [name for name, _ in found], [corpus for _, corpus in found]

    def _fill(
        self, found: list[tuple[str, str]], numbers: Sequence[int], shards: ShardIds
    ) -> None:
        """Name the sequences that only shards name."""
        end = int(shards.starts[-1])
        places = [
            i for i, number in enumerate(numbers) if number < end and number not in self._named
        ]
        left = np.array([numbers[i] for i in places], np.uint64)
        pairs = zip(shards.names(left), shards.corpora(left), strict=True)
        for i, pair in zip(places, pairs, strict=True):
            found[i] = pair


def _pack(kind: Kind, step: int, fields: dict[str, Any]) -> bytes:
    return pack_block(kind, step, step, json.dumps(fields, allow_nan=False).encode())


def _parse(
    block: LedgerBlock, payload: memoryview, path: str
) -> ShardIds | dict[int, tuple[str, str]]:
    """Return the shards, or the names and corpora by number, of a block."""
    try:
        fields: Any = json.loads(bytes(payload))
        if block.kind == Kind.SHARDS:
            return ShardIds(fields["shards"], fields["starts"])
        pairs = zip(fields["names"], fields["corpora"], strict=True)
        return dict(zip(fields["numbers"], pairs, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"no names of sequences: {error}", path, block.frame.begin) from error
