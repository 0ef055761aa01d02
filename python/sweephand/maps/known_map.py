"""Maps of ours: functions that declare their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from sweephand.maps.key import Key
from sweephand.maps.lengths import Lengths

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.maps.open_context import OpenContext


class KnownMap(ABC):
    """A function of a sequence that declares the options of `Deserializer.map` itself.

    Attributes
    ----------
    name : str
    is_random : bool
        Whether it takes a key.
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
