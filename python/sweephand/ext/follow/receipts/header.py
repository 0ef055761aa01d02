"""The header of a file of receipts: its run, and the content of its receipts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from sweephand import Attention, ByScore, DataError, MinibatchSource
from sweephand.ext.follow.receipts.hashes import PART_DESCRIPTIONS
from sweephand.ext.follow.receipts.receipt import BYTES
from sweephand.extend import Plan, layout_by_name, to_json

FORMAT = "sweephand receipts"
VERSION = 1
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Header:
    """The header of a file of receipts."""

    worker: int  # whose file it is
    start: dict[str, Any]  # `step`, nominal `time` and `progress` of the first minibatch
    streams: list[str] | None  # whose content is taken; None if it is not
    # what decides which sequence comes when, but for events: `Plan.order_description`
    order: dict[str, Any]
    options: dict[str, Any]  # of the source: `SourceOptions.to_json`

    def packed(self) -> bytes:
        """Return the line of JSON."""
        fields = {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self),
            "parts": PART_DESCRIPTIONS,
        }
        text = to_json(fields, default=_plain).encode()
        return text + b" " * (-(len(text) + 1) % BYTES) + b"\n"

    @classmethod
    def read(cls, content: memoryview, path: str) -> tuple[Self, int] | None:
        """Return the header of a file, and where it ends; None if it is torn, or not there."""
        line = bytes(content[:_LARGEST])
        end = line.find(b"\n") + 1
        if end == 0:
            return None
        try:
            fields = json.loads(line[:end])
            if fields.pop("format") != FORMAT or end % BYTES:
                raise ValueError("another format")
            version = fields.pop("version")
            if version == VERSION:
                del fields["parts"]
                return cls(**fields)._checked(), end
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError
        ) as error:  # fmt: skip
            reason = f"its header has no {error}" if isinstance(error, KeyError) else error
            raise DataError(f"this is no file of receipts: {reason}", path, 0) from error
        raise DataError(
            f"these receipts have version {version}, this version of sweephand reads {VERSION}",
            path,
            0,
        )

    def _checked(self) -> Self:
        """Return it; TypeError or ValueError if a value is not of its kind."""
        kinds = {"worker": int, "start": dict, "order": dict, "options": dict}
        for name, kind in kinds.items():
            if type(getattr(self, name)) is not kind:
                raise TypeError(f"its {name} is {getattr(self, name)!r:.100}")
        if self.start.keys() != {"step", "time", "progress"}:
            raise ValueError(f"its start has {', '.join(map(repr, self.start))}")
        progress = self.start["progress"]
        if not isinstance(progress, list):
            raise TypeError(f"its progress is {progress!r:.100}")
        for number in (self.worker, self.start["step"], self.start["time"], *progress):
            if type(number) is not int or not 0 <= number < 2**63:
                raise ValueError(f"it has {number!r:.100} where a count should be")
        streams: Any = self.streams
        if streams is not None and (
            not isinstance(streams, list) or {type(name) for name in streams} - {str}
        ):
            raise TypeError(f"its streams are {streams!r:.100}")
        return self

    def difference(self, order: dict[str, Any]) -> str:
        """Describe how the order here differs from that of the receipts; "" if it does not."""
        return "; ".join(
            f"{name} is {order.get(name, '')!r:.100} here and "
            f"{self.order.get(name, '')!r:.100} in the receipts"
            for name in sorted(order.keys() | self.order.keys())
            if order.get(name, "") != self.order.get(name, "")
        )


def order_of(plan: Plan) -> dict[str, Any]:
    """Return the order of a plan as a header has it: of JSON types."""
    order: dict[str, Any] = json.loads(to_json(plan.order_description, default=_plain))
    return order


def _plain(value: object) -> object:
    """Return the JSON of a value of another type."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset) else str(value)


def source_of(
    header: Header,
    corpus: Any,
    *,
    seed: int | None = None,
    order: ByScore | None = None,
    events: Path | None = None,
) -> MinibatchSource:
    """Return a source over a corpus, with the options of a header.

    A seed is taken in place of that of the header. Scores and events are in no header.
    ValueError is raised if the header has options that no source has.
    """
    options = dict(header.options)
    try:
        options["layout"] = _layout_or_cost(options["layout"])
        options["balance"] = _layout_or_cost(options["balance"])
        if seed is not None:
            options["randomization_seed"] = seed
        return MinibatchSource(corpus, order=order, events=events, **options)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the header of the receipts has no options: {error}") from error


def _layout_or_cost(fields: Any) -> Any:
    """Return the layout or cost that the fields of a header describe."""
    if not isinstance(fields, dict):
        return fields
    values = dict(fields)
    kind = values.pop("kind")
    if kind == "Attention":
        return Attention(**values)
    return layout_by_name(kind, values)
