"""Maps of ours: functions that declare their options, and lengths of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.sample_form import Samples, count
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import sizing_streams
from sweephand.maps.key import Key

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.maps.workers import OpenContext


class Lengths(ABC):
    """Lengths of the streams that a map makes of a sequence, as ``size=`` of a map.

    Attributes
    ----------
    name : str
        All that decides what it returns: what is measured is kept under it.
    streams : tuple of str
        Those whose lengths it returns.
    heads : dict of int
        By stream of ``bytes``, how many of a sample are enough for most sequences.
    max_bytes : int or None
        As of a `KnownMap`.
    """

    name: str
    streams: tuple[str, ...]
    heads: Mapping[str, int] = {}
    max_bytes: int | None = None

    def within(self, max_bytes: int) -> Self:
        """Return the same for a source of so much memory."""
        made = copy(self)
        object.__setattr__(made, "max_bytes", max_bytes)  # of a frozen class too
        return made

    @abstractmethod
    def __call__(self, sequence: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the length of each of the streams; ValueError if the sequence has none."""

    def of_heads(self, sequence: Mapping[str, Any]) -> Mapping[str, int] | None:
        """Return the lengths where samples are cut to `heads`; None if these are not enough."""
        return self(sequence)


def sizes_and_counts(
    found: NDArray[np.uint32],
    counts: NDArray[np.uint32],
    names: Sequence[str],
    defs: StreamDefs,
) -> tuple[NDArray[np.uint32], dict[str, NDArray[np.uint32]]]:
    """Return sizes of sequences, and their counts of carried streams."""
    for name in names:
        if name not in defs:
            raise ValueError(
                f"size= says the length of {name!r}, the map makes: {', '.join(defs)}"
            )
    sizing = [name for name in sizing_streams(defs) if name in names]
    if not sizing:
        raise ValueError(
            f"size= says lengths of {', '.join(names)}, none of which defines the size of a "
            "sequence"
        )
    is_whole = counts > 1
    lengths = dict.fromkeys(names, np.zeros(0, np.uint32))
    words = found[np.repeat(is_whole, counts)].reshape(-1, len(names) + 1) - np.uint32(1)
    for column, name in enumerate(names, 1):
        lengths[name] = np.zeros(len(counts), np.uint32)
        lengths[name][is_whole] = words[:, column]
    sizes = np.max([lengths[name] for name in sizing], 0)
    sizes[~is_whole] = 1  # their places on the timeline
    carried = {name: one for name, one in lengths.items() if defs[name].carried}
    return sizes, carried


def check_lengths(lengths: Lengths, sequence: Mapping[str, Any], made: Samples) -> None:
    """Refuse samples of other lengths than `lengths` gives.

    ValueError if a stream has another length.
    """
    for name, length in lengths(sequence).items():
        if name in made and count(made[name]) != length:
            raise ValueError(
                f"returned {count(made[name])} samples of {name!r} where size= said {length}; "
                "it must do the same every time"
            )


class KnownMap(ABC):
    """A function of a sequence that declares the options of `Deserializer.map` itself.

    Attributes
    ----------
    name : str
    is_random : bool
        True if it takes a key.
    variant : str
        What else its values depend on, in the fingerprint of a state; keys do not.
    functions : tuple, optional
        Functions of the user that its values depend on beside what its name says; by default
        all of its attributes decide.
    size : {"same", "measured"}, callable or Lengths
        What it does to sizes.
    max_bytes : int or None
        Memory that a call may take, by the source; None: as much as the machine has.
    """

    name: str
    is_random: bool = False
    variant: str = ""
    functions: tuple[Callable[..., Any], ...] | None = None
    size: Literal["same", "measured"] | Callable[[Mapping[str, int], Key], int] | Lengths = (
        "same"
    )
    max_bytes: int | None = None

    def learned(self, corpus: Corpus, opening: OpenContext) -> KnownMap:
        """Return the map with all that it learns from a corpus when that is opened."""
        return self

    def classes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of classes, by the stream that has their numbers."""
        return {}

    def declared(self, stream: str) -> Mapping[str, Any]:
        """Return declarations of a stream: ``loss_mask``, ``parts`` or ``carried``."""
        return {}

    @abstractmethod
    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return the mapped sequence."""
