"""What sequences of a ledger are called, and which file or corpus they are of.

Ids that are numbers in shards are told once, by the shards; all others when they are met for
the first time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.errors import DataError
from sweephand.train.ledger.blocks import Kind, LedgerBlock


class MetNames:
    """Which names a file of a ledger has told: what its writer must know of them."""

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._is_told = np.zeros(0, np.bool_)  # by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add what a block tells; DataError if it is none of names."""
        told = _parse(block, payload, path)
        if isinstance(told, ShardIds):
            self._shards = told
        else:
            self._mark(np.array([*told], np.uint64))

    def meet(self, ids: SequenceIds, numbers: NDArray[np.uint64], step: int) -> bytes:
        """Return the blocks that tell names which are not told yet, of sequences of a step."""
        if isinstance(ids, ShardIds):
            return self._meet_shards(ids, step)
        self._reserve(numbers)
        fresh = np.unique(numbers[~self._is_told[numbers]])
        if not fresh.size:
            return b""
        self._mark(fresh)
        told = {
            "numbers": fresh.tolist(),
            "names": ids.names(fresh),
            "corpora": ids.corpora(fresh),
        }
        return LedgerBlock(Kind.NAMES, step, step).packed(
            json.dumps(told, allow_nan=False).encode()
        )

    def _meet_shards(self, ids: ShardIds, step: int) -> bytes:
        known, self._shards = self._shards, ids
        if known is ids or (
            known is not None
            and known.shards == ids.shards
            and np.array_equal(known.starts, ids.starts)
        ):
            return b""
        told = {"shards": ids.shards, "starts": ids.starts.tolist()}
        return LedgerBlock(Kind.SHARDS, step, step).packed(
            json.dumps(told, allow_nan=False).encode()
        )

    def _mark(self, numbers: NDArray[np.uint64]) -> None:
        self._reserve(numbers)
        self._is_told[numbers] = True

    def _reserve(self, numbers: NDArray[np.uint64]) -> None:
        wanted = int(numbers.max(initial=0)) + 1
        if wanted > len(self._is_told):
            grown = np.zeros(max(wanted, 2 * len(self._is_told)), np.bool_)
            grown[: len(self._is_told)] = self._is_told
            self._is_told = grown


class SequenceNames:
    """Names of the sequences of a ledger, by their numbers."""

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._told: dict[int, tuple[str, str]] = {}  # name and corpus by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add what a block tells; DataError if it is none of names."""
        told = _parse(block, payload, path)
        if isinstance(told, ShardIds):
            self._shards = told
        else:
            self._told |= told

    def of(self, numbers: NDArray[np.uint64]) -> tuple[list[str], list[str]]:
        """Return names and corpora of sequences; its number is the name of an unknown one."""
        listed = numbers.tolist()
        found = [self._told.get(number) or (str(number), "") for number in listed]
        if self._shards is not None and len(self._told) < len(found):
            self._fill(found, listed, self._shards)
        return [name for name, _ in found], [corpus for _, corpus in found]

    def _fill(
        self, found: list[tuple[str, str]], numbers: Sequence[int], shards: ShardIds
    ) -> None:
        """Name the sequences that only shards tell of."""
        end = int(shards.starts[-1])
        places = [
            i for i, number in enumerate(numbers) if number < end and number not in self._told
        ]
        left = np.array([numbers[i] for i in places], np.uint64)
        pairs = zip(shards.names(left), shards.corpora(left), strict=True)
        for i, pair in zip(places, pairs, strict=True):
            found[i] = pair


def _parse(
    block: LedgerBlock, payload: memoryview, path: str
) -> ShardIds | dict[int, tuple[str, str]]:
    """Return the shards, or the names and corpora by number, that a block tells."""
    try:
        told: Any = json.loads(bytes(payload))
        if block.kind == Kind.SHARDS:
            return ShardIds(told["shards"], told["starts"])
        pairs = zip(told["names"], told["corpora"], strict=True)
        return dict(zip(told["numbers"], pairs, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"no names of sequences: {error}", path, block.begin) from error
