"""What maps make of the sequences of a corpus: docs/maps.md and docs/order.md, section 9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.combinations.mapped import STEP
from tests.model import MASK, ModelCorpus, derive_key, scale

Values = NDArray[np.int64]
LATER_VERSION = 2


def items_of(number: int, base: int) -> Values:
    """What a stored sequence carries: none of every fourth one."""
    return base + 1000 * number + np.arange((7 * number + 3) % 4)


def num_items(number: int) -> int:
    return len(items_of(number, 0))


def mask_of(number: int, samples: Values) -> NDArray[np.uint8]:
    """On which of the samples of a stored sequence there is a loss."""
    return ((5 * samples + number) % 3 > 0).astype(np.uint8)


def weight_of(number: int, samples: Any) -> Any:
    """The weights of the samples of a stored sequence as labels; some are 0."""
    return (7 * samples + number) % 5 / 3


def part_of(number: int, samples: Values) -> NDArray[np.int32]:
    """Which part of a stored sequence each of its samples is of."""
    return (samples // (2 + number % 3)).astype(np.int32)


def digest(name: str) -> int:
    found = 0xCBF29CE484222325
    for byte in name.encode():
        found = (found ^ byte) * 0x100000001B3 & MASK
    return found


@dataclass(frozen=True)
class ModelKey:
    """A key of a map; without a sweep it is that of every sweep."""

    seed: int
    sweep: int | None
    sequence_id: str
    name: str
    version: int = 1

    def integer(self, n: int) -> int:
        last = (digest(self.sequence_id), digest(self.name), self.version)
        if self.sweep is None:
            word = derive_key(1, self.seed, 7, *last)
        else:
            word = derive_key(1, self.seed, 6, self.sweep, *last)
        return int(scale(derive_key(word, 0, 0), n))

    @property
    def every_sweep(self) -> ModelKey:
        return replace(self, sweep=None)


@dataclass(frozen=True)
class Step:
    """A map of one sequence, which has this id before it; `part` is the one that it becomes."""

    name: str
    sequence_id: str
    part: int = 0


@dataclass(frozen=True)
class Made:
    """A sequence as it is planned: what it was, and what is done to it."""

    number: int
    sequence_id: str
    size: int
    steps: tuple[Step, ...] = ()
    frame: int | None = None  # the sample that it is, of `Frames`


def mapped(name: str, made: Made, seed: int) -> list[Made]:
    """What a map makes of a sequence."""
    key = ModelKey(seed, None, made.sequence_id, name)
    steps = (*made.steps, Step(name, made.sequence_id))
    if name == "is_kept":
        return [made] if made.number % 3 != 1 else []
    if name == "halve":
        sizes = [made.size - made.size // 2, made.size // 2]
        return [
            Made(
                made.number,
                f"{made.sequence_id}#{part}",
                size,
                (*made.steps, Step(name, made.sequence_id, part)),
            )
            for part, size in enumerate(sizes)
            if size and made.number % 5 != 4
        ]
    size = made.size
    if name == "double":
        size *= 2
    if name == "crop":
        size = 1 + key.integer(size)
    if name == "behead":
        size -= made.number > 0
    return [replace(made, size=size, steps=steps)] if size else []


def values_of(
    made: Made, base: int, seed: int, sweep: int, sizes: Sequence[int], version: int
) -> Values:
    """The samples of a sequence in a sweep; `base` is the first one of the corpus."""
    x = base + 1000 * made.number + np.arange(sizes[made.number])
    for step in made.steps:
        later = step.name == "versioned" and version == LATER_VERSION
        own_version = LATER_VERSION if later else 1
        key = ModelKey(seed, sweep, step.sequence_id, step.name, own_version)
        if step.name == "negate":
            x = -1 - x
        elif step.name in ("shift", "shift_many"):
            x = x + STEP * key.integer(1000)
        elif step.name == "shift_always":
            x = x + STEP * key.every_sweep.integer(1000)
        elif step.name == "versioned":
            x = x - STEP * key.integer(1000) if later else x + STEP * key.integer(7)
        elif step.name == "double":
            x = np.repeat(x, 2)
        elif step.name == "crop":
            size = 1 + key.every_sweep.integer(len(x))
            begin = key.integer(len(x) - size + 1)
            x = x[begin : begin + size]
        elif step.name == "behead":
            x = x[int(made.number > 0) :]
        elif step.name == "halve":
            x = np.array_split(x, 2)[step.part]
    return x if made.frame is None else x[made.frame : made.frame + 1]


@dataclass(frozen=True)
class MadeCorpus:
    """The sequences of a corpus after its maps, chunk by chunk."""

    chunks: tuple[tuple[Made, ...], ...]
    sizes: tuple[int, ...]  # as they are stored

    @classmethod
    def of(
        cls,
        chunks: Sequence[Sequence[int]],
        id_of: Callable[[int], str],
        maps: Sequence[str],
        seed: int,
        left_out: frozenset[int] = frozenset(),
    ) -> MadeCorpus:
        found, number = [], 0
        for chunk in chunks:
            all_made = []
            for size in chunk:
                if number not in left_out:
                    all_made.append(Made(number, id_of(number), size))
                number += 1
            for name in maps:
                all_made = [one for made in all_made for one in mapped(name, made, seed)]
            found.append(tuple(all_made))
        return cls(tuple(found), tuple(size for chunk in chunks for size in chunk))

    def in_frames(self) -> MadeCorpus:
        return replace(
            self,
            chunks=tuple(
                tuple(
                    replace(made, sequence_id=f"{made.sequence_id}#{n}", size=1, frame=n)
                    for made in chunk
                    for n in range(made.size)
                )
                for chunk in self.chunks
            ),
        )

    def no_longer_than(self, most: int) -> MadeCorpus:
        return replace(
            self,
            chunks=tuple(
                tuple(made for made in chunk if made.size <= most) for chunk in self.chunks
            ),
        )

    def carrying(self, most: int) -> MadeCorpus:
        """Only what carries so many items at most."""
        kept = [
            [one for one in chunk if num_items(one.number) <= most] for chunk in self.chunks
        ]
        return replace(self, chunks=tuple(map(tuple, kept)))

    @property
    def all(self) -> list[Made]:
        return [made for chunk in self.chunks for made in chunk]

    @property
    def model(self) -> ModelCorpus:
        return ModelCorpus.of([[made.size for made in chunk] for chunk in self.chunks])
