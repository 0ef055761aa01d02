"""The header of a file of receipts: of which run they are, and what they hold."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from sweephand.errors import DataError
from sweephand.source.origin import Origin
from sweephand.train.receipts.parts import TOLD
from sweephand.train.receipts.receipt import BYTES

FORMAT = "sweephand receipts"
VERSION = 1
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Header:
    """The header of a file of receipts.

    Attributes
    ----------
    worker : int
        Whose file it is.
    start : dict
        ``step``, nominal ``time`` and ``progress`` of the first minibatch.
    streams : list of str, or None
        Whose content is taken; None if it is not.
    order : dict
        What decides which sequence comes when, but for events: `Order.told`.
    options : dict
        Of the source: `Order.options`.
    """

    worker: int
    start: dict[str, Any]
    streams: list[str] | None
    order: dict[str, Any]
    options: dict[str, Any]

    def packed(self) -> bytes:
        """Return the line of JSON."""
        told = {"format": FORMAT, "version": VERSION, **asdict(self), "parts": TOLD}
        text = json.dumps(told, default=_plain).encode()
        return text + b" " * (-(len(text) + 1) % BYTES) + b"\n"

    @classmethod
    def read(cls, content: memoryview, path: str) -> tuple[Self, int] | None:
        """Return the header of a file, and where it ends; None if it is torn, or not there.

        Raises
        ------
        DataError
            If it is no file of receipts, or a later version has written it.
        """
        line = bytes(content[:_LARGEST])
        end = line.find(b"\n") + 1
        if end == 0:
            return None
        try:
            told = json.loads(line[:end])
            if told.pop("format") != FORMAT or end % BYTES:
                raise ValueError("another format")
            version = told.pop("version")
            if version == VERSION:
                del told["parts"]
                return cls(**told), end
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"this is no file of receipts: {error}", path, 0) from error
        raise DataError(
            f"these receipts have version {version}, this version of sweephand reads {VERSION}",
            path,
            0,
        )

    def difference(self, order: dict[str, Any]) -> str:
        """Say what is of another order here than there; "" if nothing is."""
        return "; ".join(
            f"{name} is {order.get(name, '')!r:.100} here and "
            f"{self.order.get(name, '')!r:.100} in the receipts"
            for name in sorted(order.keys() | self.order.keys())
            if order.get(name, "") != self.order.get(name, "")
        )


def order_of(origin: Origin) -> dict[str, Any]:
    """Return the order of an origin as a header has it: of what JSON holds."""
    order: dict[str, Any] = json.loads(json.dumps(origin.order.told, default=_plain))
    return order


def _plain(value: object) -> object:
    """Return what JSON holds of a value that it does not know."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset) else str(value)
