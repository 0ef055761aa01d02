"""The exact order in which TFDS reads a selection, for any pass and at any position."""

import secrets
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapreplace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.tfds.builder_info import FileInstruction
from sweephand.ext.tfds.read_config import ReadConfig
from sweephand.extend import SequenceIds, check_int, offsets_of

_PRIME = 2**31 - 1
_DEFAULT_GLOBAL_SEED = 87654321
_LOW = np.uint64(0xFFFFFFFF)


def philox(seed: int, seed2: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return numbers of the generator Philox4x32-10 that TensorFlow seeds with two integers.

    They are those of ``[first, first + count)``, of Salmon et al. 2011, "Parallel random
    numbers: as easy as 1, 2, 3".
    """
    half = np.uint64(32)
    blocks = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    c0, c1 = blocks & _LOW, blocks >> half
    c2 = np.full_like(blocks, seed2 & 0xFFFFFFFF)
    c3 = np.full_like(blocks, seed2 >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        from_c2 = np.uint64(0xCD9E8D57) * c2
        from_c0 = np.uint64(0xD2511F53) * c0
        c0 = from_c2 >> half ^ c1 ^ np.uint64(k0)
        c1 = from_c2 & _LOW
        c2 = from_c0 >> half ^ c3 ^ np.uint64(k1)
        c3 = from_c0 & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    numbers = np.stack([c0, c1, c2, c3], axis=1).reshape(-1)
    begin = first - first // 4 * 4
    return numbers[begin : begin + count]


class FileShuffle:
    """A seeded shuffle of files, different in every pass.

    Without `reshuffle` all passes are as a single one: not as the first of differing ones.
    """

    def __init__(
        self, seed: int, *, global_seed: int | None = None, reshuffle: bool = True
    ) -> None:
        check_int("shuffle_seed", seed, -(2**63), 2**63)
        if global_seed is not None:
            check_int("global_seed", global_seed, -(2**63), 2**63)
        self._seed = (_DEFAULT_GLOBAL_SEED if global_seed is None else global_seed) % _PRIME
        self._seed2 = seed % _PRIME
        if self._seed == 0 and self._seed2 == 0:
            self._seed2 = _PRIME
        self._reshuffle = reshuffle

    def order(self, num_files: int, number: int) -> NDArray[np.int64]:
        """Return the files in the order in which pass ``number`` opens them."""
        seeds = self._seed, self._seed2
        if self._reshuffle:
            first, second = philox(self._seed, self._seed2, 2 * number, 2).tolist()
            seeds = first, second
        files = list(range(num_files))
        for place, draw in enumerate(philox(*seeds, 0, num_files).tolist()):
            other = place + draw % (num_files - place)
            files[place], files[other] = files[other], files[place]
        return np.array(files, np.int64)


class Interleave:
    """The examples of several files, interleaved as ``tf.data`` does it.

    In every round each of ``cycle_length`` slots is visited in turn. A visit opens the next
    file if the slot is empty, and reads up to ``block_length`` examples; a file that runs out
    in a visit leaves the slot, which is empty until the next round.

    A file of n examples is open for n div block_length + 1 rounds, so that the round in which
    each is opened follows from the lengths alone. Between two rounds in which something changes
    all rounds are alike, and a position in them is arithmetic: it is found by binary search
    among the changes, of which every file makes at most three.
    """

    def __init__(self, lengths: Sequence[int], *, cycle_length: int, block_length: int) -> None:
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

    def find(self, file: int, example: int) -> int:
        """Return the position of an example of a file: the inverse of `take`."""
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


Pass = tuple[NDArray[np.int64], Interleave]

_DEFAULT_CYCLE_LENGTH = 16
_RUN = 4096  # positions that are worked out at a time


def _select(rows: Sequence[FileInstruction], config: ReadConfig) -> list[FileInstruction]:
    """Return the rows that are left when the options had their turn."""
    selected = list(rows)
    if config.sort is not None:
        selected = list(config.sort(selected))
        if not all(isinstance(row, FileInstruction) for row in selected):
            raise TypeError("interleave_sort_fn must return FileInstruction objects")
    if not any(row.take for row in selected):
        raise ValueError("the split selects no examples")
    return selected


class ReadOrder:
    """The exact order of examples, also by their numbers: a `SweepOrder`.

    Positions count from 0 in every pass. An example is known by its row, the number of its
    `FileInstruction` in `rows`, and by its place in the row; or by its id. Numbers count the
    examples row by row.

    ValueError if nothing is selected, or the written order was to be kept and the options would
    not.
    """

    def __init__(
        self,
        rows: Sequence[FileInstruction],
        config: ReadConfig,
        *,
        shuffle_files: bool = False,
        is_ordered: bool = False,
    ) -> None:
        cycle_length = config.interleave_cycle_length
        if cycle_length is None:
            cycle_length = 1 if is_ordered else _DEFAULT_CYCLE_LENGTH
        if is_ordered and (shuffle_files or cycle_length != 1):
            broken = (
                "the data set keeps its written order, which shuffle_files and an "
                "interleave_cycle_length other than 1 give up"
            )
            if config.enable_ordering_guard:
                raise ValueError(f"{broken}; set enable_ordering_guard=False to do so")
            warnings.warn(broken, stacklevel=2)
        self.rows = _select(rows, config)
        self.shuffle_seed: int | None = None
        self._shuffle: FileShuffle | None = None
        if shuffle_files:
            given = config.shuffle_seed
            self.shuffle_seed = secrets.randbelow(2**31 - 1) if given is None else given
            self._shuffle = FileShuffle(
                self.shuffle_seed,
                global_seed=config.global_seed,
                reshuffle=config.shuffle_reshuffle_each_iteration,
            )
        self._shuffle_text = (
            f"seed {self.shuffle_seed} of {config.global_seed}, "
            f"reshuffled {config.shuffle_reshuffle_each_iteration}"
        )
        self._cycle_length = cycle_length
        self._block_length = config.interleave_block_length
        self._starts = offsets_of([row.take for row in self.rows])
        self._passes: dict[int, Pass] = {}
        self._run = (-1, 0, np.empty(0, np.uint64))  # pass, first position, numbers

    def __len__(self) -> int:
        """Return the number of examples of one pass."""
        return int(self._starts[-1])

    @property
    def num_open(self) -> int:
        """The number of files that are open at a time."""
        return min(self._cycle_length, len(self.rows))

    def __str__(self) -> str:
        """Return the parameters that decide the order besides the rows, for fingerprints."""
        shuffle = self._shuffle_text if self._shuffle else "files in order"
        return f"cycle {self._cycle_length}, block {self._block_length}, {shuffle}"

    def _pass(self, number: int) -> Pass:
        """Return a pass; the last few are kept, as a sweep is read while another is planned."""
        known = self._passes.get(number)
        if known is None:
            known = self._make_pass(number)
            kept = list(self._passes.items())[-3:]
            self._passes = {**dict(kept), number: known}
        return known

    def _make_pass(self, number: int) -> Pass:
        """Return the rows in the order in which they are opened, and their interleaving."""
        opened = np.arange(len(self.rows))
        if self._shuffle is not None:
            opened = self._shuffle.order(len(self.rows), number)
        lengths = [self.rows[row].take for row in opened]
        interleave = Interleave(
            lengths, cycle_length=self._cycle_length, block_length=self._block_length
        )
        return opened, interleave

    def take(
        self, first: int, count: int, *, number: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the examples at positions ``[first, first + count)`` of a pass."""
        opened, interleave = self._pass(number)
        files, places = interleave.take(first, count)
        return opened[files], places

    def find(self, row: int, place: int, *, number: int = 0) -> int:
        """Return the position in a pass of one example."""
        opened, interleave = self._pass(number)
        return interleave.find(int(np.flatnonzero(opened == row)[0]), place)

    def numbers(self, sweep: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the examples at places ``[first, first + count)`` of a sweep."""
        known, begin, run = self._run
        if known != sweep or not begin <= first <= begin + len(run) - count:
            length = max(count, min(_RUN, len(self) - first))
            rows, places = self.take(first, length, number=sweep)
            begin, run = first, (self._starts[rows] + places).astype(np.uint64)
            self._run = sweep, begin, run
        return run[first - begin : first - begin + count]

    def place(self, sweep: int, number: int) -> int:
        """Return the place of an example in a sweep."""
        row = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self.find(row, number - int(self._starts[row]), number=sweep)


def name_files(files: Sequence[str]) -> list[str]:
    """Return short and distinct names of the files, for the ids of their examples.

    The name is that of the file; of files in several folders it starts at the deepest part of
    the path that differs between the folders.
    """
    paths = [Path(file) for file in files]
    folders = {path.parent.parts[::-1] for path in paths}
    depth = 0
    if len(folders) > 1:
        while len({parts[depth : depth + 1] for parts in folders}) == 1:
            depth += 1
        depth += 1
    return ["/".join(path.parts[-1 - depth :]) for path in paths]


class ExampleIds(SequenceIds):
    """The ids that TFDS gives to examples: the file's name and the place in the file."""

    def __init__(self, rows: Sequence[FileInstruction]) -> None:
        self._rows = rows
        self._starts = offsets_of([row.take for row in rows])
        self._names = name_files([row.filename for row in rows])
        self._rows_of: dict[str, list[int]] = {}
        for number, name in enumerate(self._names):
            self._rows_of.setdefault(name, []).append(number)

    def of(self, row: int, place: int) -> str:
        """Return the id of an example."""
        return f"{self._names[row]}__{self._rows[row].skip + place}"

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the examples with these numbers."""
        signed = numbers.astype(np.int64)
        rows = np.searchsorted(self._starts, signed, side="right") - 1
        places = signed - self._starts[rows]
        return [self.of(*one) for one in zip(rows.tolist(), places.tolist(), strict=True)]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the file of each of these examples."""
        return [name.rpartition("__")[0] for name in self.names(numbers)]

    def number(self, name: str) -> int:
        """Return the number of the example with this id."""
        row, place = next(self.find(name))
        return int(self._starts[row]) + place

    def find(self, example_id: str) -> Iterator[tuple[int, int]]:
        """Yield row and place of the example: several where the split selects it several times.

        KeyError if no selected example has the id.
        """
        name, _, index = example_id.rpartition("__")
        if not (index.isascii() and index.isdigit()):
            raise KeyError(example_id)
        found = [
            (row, int(index) - self._rows[row].skip)
            for row in self._rows_of.get(name, [])
            if 0 <= int(index) - self._rows[row].skip < self._rows[row].take
        ]
        if not found:
            raise KeyError(example_id)
        yield from found

    def repeat(self) -> bool:
        """Return True if an example is selected more than once."""
        runs = sorted(
            (name, row.skip, row.skip + row.take)
            for name, row in zip(self._names, self._rows, strict=True)
        )
        return any(a[0] == b[0] and b[1] < a[2] for a, b in pairwise(runs))
