"""Kinds of events on a timeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, cast

from sweephand.base.checks import check_int
from sweephand.errors import shown

_MAX_TIME = 2**63
_MOST_IDS = 3  # that a summary names


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that changes the timeline from a nominal time on, in samples: `at`."""

    name: ClassVar[str] = ""
    in_any_order: ClassVar[bool] = False  # among all that happen at its time
    at: int

    def __post_init__(self) -> None:
        self._settle("at", check_int("at", self.at, 0, _MAX_TIME))

    def _settle(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def summary(self) -> str:
        """The change, in a few words."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON types."""
        values = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        return {"event": self.name} | values

    @cached_property
    def digest(self) -> bytes:
        """16 bytes of BLAKE2b over its JSON, keys sorted, without spaces."""
        text = json.dumps(
            self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True, kw_only=True)
class Ban(Event):
    """Sequences that are left out; they keep their place.

    `ids` are as `Minibatch.ids` has them; of what a sequence was made into, by frames or a map,
    the id of the sequence means all.
    """

    name = "ban"
    in_any_order = True
    ids: tuple[str, ...]

    @property
    def summary(self) -> str:
        more = len(self.ids) - _MOST_IDS
        first = ", ".join(self.ids[:_MOST_IDS])
        return f"{first} and {more:,} more" if more > 0 else first

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.ids
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"ids are a list of texts, got {shown(given)}")
        ids = tuple(given)
        if not all(isinstance(one, str) for one in ids):
            raise TypeError(f"ids are texts, got {shown(given)} with others")
        self._settle("ids", ids)


@dataclass(frozen=True, kw_only=True)
class Skip(Event):
    """A span of nominal time, from `at` to `stop`: nothing that begins there is delivered."""

    name = "skip"
    in_any_order = True
    stop: int

    @property
    def summary(self) -> str:
        return f"to {self.stop:,}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle("stop", check_int("stop", self.stop, self.at + 1, _MAX_TIME))


Weight = int | float | Fraction


@dataclass(frozen=True, kw_only=True)
class Weights(Event):
    """Other weights of a mixture, as `Mixture` takes them."""

    name = "weights"
    weights: Mapping[str, Weight] | Sequence[tuple[int, Mapping[str, Weight]]]

    @property
    def summary(self) -> str:
        return " ".join(f"{name}={weight}" for name, weight in dict(self.weights).items())


@dataclass(frozen=True, kw_only=True)
class MapVersion(Event):
    """Another version of a map, of those that it has."""

    name = "map_version"
    map: str
    version: int

    @property
    def summary(self) -> str:
        return f"{self.map} {self.version}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle("version", check_int("version", self.version, 0, 2**63))


_KINDS: dict[str, type[Event]] = {kind.name: kind for kind in (Ban, Skip, Weights, MapVersion)}


def event_of(event: object) -> Event:
    """Return an event, also from its JSON; TypeError or ValueError if it is no event."""
    if isinstance(event, Event):
        return event
    if not isinstance(event, Mapping):
        raise TypeError(
            "an event is one of sweephand.events, such as sh.events.Ban(ids=[...], at=0), or "
            f"its JSON, got {shown(event)}"
        )
    given = dict(event)
    kind = _KINDS.get(given.pop("event", None))
    if kind is None:
        raise ValueError(
            f"an event has 'event': one of {', '.join(_KINDS)}; got {shown(event.get('event'))}"
        )
    wanted = {one.name for one in fields(kind)}
    if given.keys() != wanted:
        raise ValueError(
            f"the event {kind.name!r} has the fields {', '.join(sorted(wanted))}; got "
            f"{', '.join(sorted(map(str, given))) or 'none'}"
        )
    if "weights" in given:
        given["weights"] = _weights_of(given["weights"])
    return kind(**given)


def _plain(value: object) -> Any:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _weights_of(weights: object) -> Any:
    """Return weights from their JSON, where a fraction is a text."""
    if isinstance(weights, Mapping):
        return {
            key: Fraction(one) if isinstance(one, str) else one for key, one in weights.items()
        }
    return [(time, _weights_of(of_leg)) for time, of_leg in cast(Sequence[Any], weights)]
