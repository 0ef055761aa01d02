"""The exact order in which TFDS reads a selection, for any pass and at any position."""

import secrets
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.tfds.file_instructions import FileInstruction, name_files
from sweephand.ext.tfds.file_shuffle import FileShuffle
from sweephand.ext.tfds.interleave import Interleave
from sweephand.ext.tfds.read_config import ReadConfig
from sweephand.extend import SequenceIds, offsets_of

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
    context = config.input_context
    if context is not None:
        if context.num_input_pipelines > len(selected):
            raise ValueError(
                f"input_context shares {len(selected)} files among "
                f"{context.num_input_pipelines} readers; some would get none"
            )
        selected = selected[context.input_pipeline_id :: context.num_input_pipelines]
    if not any(row.take for row in selected):
        raise ValueError("the split selects no examples")
    return selected


class ReadOrder:
    """The exact order of examples, also by their numbers: a `SweepOrder`.

    Positions count from 0 in every pass. An example is known by its row, the number of its
    `FileInstruction` in `rows`, and by its place in the row; or by its id. Numbers count the
    examples row by row.

    Parameters
    ----------
    rows : sequence of FileInstruction
        What a split selects, in storage order.
    config : ReadConfig
    shuffle_files : bool
        Shuffle the files, again in every pass.
    is_ordered : bool
        Whether the data set asks for its written order.

    Attributes
    ----------
    rows : list of FileInstruction
    shuffle_seed : int or None
        The seed that is used: the given one, or one that was drawn.

    Raises
    ------
    ValueError
        If nothing is selected, or the written order was to be kept and the options would not.

    Examples
    --------
    >>> rows = [FileInstruction(name, 0, 3, 3) for name in "ab"]
    >>> ReadOrder(rows, ReadConfig(interleave_block_length=2)).take(0, 6)
    (array([0, 0, 1, 1, 0, 1]), array([0, 1, 0, 1, 2, 2]))
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


class ExampleIds(SequenceIds):
    """The ids that TFDS gives to examples: the file's name and the place in the file.

    Examples
    --------
    >>> ids = ExampleIds([FileInstruction("/data/demo-00000-of-00001", 10, 5, 40)])
    >>> ids.of(0, 2), list(ids.find("demo-00000-of-00001__12"))
    ('demo-00000-of-00001__12', [(0, 2)])
    """

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
