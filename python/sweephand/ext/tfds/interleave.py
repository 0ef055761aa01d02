"""The order in which TFDS interleaves files, as a formula that any position is found by."""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import check_int


class Interleave:
    """The examples of several files, interleaved as ``tf.data`` does it.

    In every round each of ``cycle_length`` slots is visited in turn. A visit opens the next
    file if the slot is empty, and reads up to ``block_length`` examples; a file that runs out
    in a visit leaves the slot, which is empty until the next round.

    Parameters
    ----------
    lengths : sequence of int
        Examples in every file, in the order in which the files are opened.
    cycle_length, block_length : int
        At least 1.

    Notes
    -----
    A file of n examples is open for n div block_length + 1 rounds, so that the round in which
    each is opened follows from the lengths alone. Between two rounds in which something changes
    all rounds are alike, and a position in them is arithmetic: it is found by binary search
    among the changes, of which every file makes at most three.

    Examples
    --------
    >>> order = Interleave([5, 2, 4, 3], cycle_length=2, block_length=2)
    >>> "".join("abcd"[file] + str(index) + " " for file, index in map(order.at, range(14)))
    'a0 a1 b0 b1 a2 a3 a4 c0 c1 d0 d1 c2 c3 d2 '
    """

    def __init__(self, lengths: Sequence[int], *, cycle_length: int, block_length: int) -> None:
        check_int("interleave_cycle_length", cycle_length, 1, 2**31)
        check_int("interleave_block_length", block_length, 1, 2**31)
        cycle_length = min(cycle_length, max(len(lengths), 1))  # more slots stay empty
        self._lengths = list(lengths)
        self._block_length = block_length
        self._slot_of: list[int] = []
        self._opening: list[int] = []  # the round in which a file is opened
        # Of every slot, one after the other.
        self._files: list[list[int]] = [[] for _ in range(cycle_length)]
        self._openings: list[list[int]] = [[] for _ in range(cycle_length)]
        empty = [(0, slot) for slot in range(cycle_length)]  # when each slot is empty next
        for file, length in enumerate(lengths):
            opening, slot = empty[0]
            heapreplace(empty, (opening + length // block_length + 1, slot))
            self._slot_of.append(slot)
            self._opening.append(opening)
            self._files[slot].append(file)
            self._openings[slot].append(opening)
        self._find_changes()

    def _find_changes(self) -> None:
        """Make the table of the rounds in which something changes, and where they begin."""
        openings = np.array(self._opening, np.int64)
        whole, rest = np.divmod(np.array(self._lengths, np.int64), self._block_length)
        leaving = openings + whole  # with a visit that is not whole
        changes = np.unique(np.concatenate([openings, leaving, leaving + 1]))
        whole_visits = np.zeros(len(changes) + 1, np.int64)
        np.add.at(whole_visits, np.searchsorted(changes, openings), 1)
        np.add.at(whole_visits, np.searchsorted(changes, leaving), -1)
        whole_visits = np.cumsum(whole_visits)[:-1]
        given = np.diff(changes, append=changes[-1:]) * whole_visits * self._block_length
        np.add.at(given, np.searchsorted(changes, leaving), rest)
        self._rounds: list[int] = changes.tolist()
        self._starts: list[int] = (np.cumsum(given) - given).tolist()  # their positions

    def __len__(self) -> int:
        """Return the number of examples."""
        return sum(self._lengths)

    def _visit(self, slot: int, number: int) -> tuple[int, int, int]:
        """Return the file that a slot reads in a round, from which example on, and how many."""
        place = bisect_right(self._openings[slot], number) - 1
        if place < 0:
            return 0, 0, 0
        file = self._files[slot][place]
        first = (number - self._openings[slot][place]) * self._block_length
        return file, first, max(0, min(self._block_length, self._lengths[file] - first))

    def _round_at(self, change: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the files and examples of the round in which something changes.

        Those that follow until the next change are like it, ``block_length`` examples further
        in every file.
        """
        visits = [self._visit(slot, self._rounds[change]) for slot in range(len(self._files))]
        files = np.repeat([file for file, _, _ in visits], [count for _, _, count in visits])
        examples = [np.arange(first, first + count) for _, first, count in visits]
        return files, np.concatenate(examples)

    def take(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the files and the examples in them at positions ``[first, first + count)``.

        IndexError if the positions reach past the end.
        """
        if first < 0 or count < 0 or first + count > len(self):
            raise IndexError(
                f"positions must be in [0, {len(self)}), got [{first}, {first + count})"
            )
        files = np.empty(count, np.int64)
        examples = np.empty(count, np.int64)
        change = bisect_right(self._starts, first) - 1
        position = first
        while position < first + count:
            start = self._starts[change]
            end = first + count
            if change + 1 < len(self._starts):
                end = min(end, self._starts[change + 1])
            if position < end:
                round_files, round_examples = self._round_at(change)
                turns, places = np.divmod(
                    np.arange(position - start, end - start), len(round_files)
                )
                part = slice(position - first, end - first)
                files[part] = round_files[places]
                examples[part] = round_examples[places] + turns * self._block_length
            position = end
            change += 1
        return files, examples

    def at(self, position: int) -> tuple[int, int]:
        """Return the file and the example in it that come at a position."""
        files, examples = self.take(position, 1)
        return int(files[0]), int(examples[0])

    def find(self, file: int, example: int) -> int:
        """Return the position of an example of a file: the inverse of `at`."""
        check_int("file", file, 0, len(self._lengths))
        check_int("example", example, 0, self._lengths[file])
        turn, within = divmod(example, self._block_length)
        number = self._opening[file] + turn
        change = bisect_right(self._rounds, number) - 1
        before = [self._visit(slot, number)[2] for slot in range(self._slot_of[file])]
        size = 0
        if number > self._rounds[change]:
            size = len(self._round_at(change)[0])
        start = self._starts[change] + (number - self._rounds[change]) * size
        return start + sum(before) + within
