"""Maps of ours: functions that declare their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from sweephand.maps.key import Key


class KnownMap(ABC):
    """A function of a sequence that declares the options of `Deserializer.map` itself.

    Attributes
    ----------
    name : str
    is_random : bool
        Whether it takes a key.
    size : {"same", "measured"}
        What it does to sizes.
    """

    name: str
    is_random: bool = False
    size: ClassVar[Literal["same", "measured"]] = "same"

    @abstractmethod
    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return the mapped sequence."""
