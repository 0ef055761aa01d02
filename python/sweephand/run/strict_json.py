"""JSON that every reader takes: numbers that are not finite are texts.

They are "inf", "-inf" and "nan". A text that looks like one gets an apostrophe before it, so
that all comes back as it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

_NOT_FINITE = ("inf", "-inf", "nan")


def to_json(
    value: object,
    *,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    default: Callable[[Any], object] | None = None,
) -> str:
    r"""Return a value as JSON; the options are those of `json.dumps`.

    Examples
    --------
    >>> to_json({"loss": float("inf"), "name": "inf"})
    '{"loss": "inf", "name": "\'inf"}'
    """
    return json.dumps(
        _strict(value),
        allow_nan=False,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=None if default is None else lambda one: _strict(default(one)),
    )


def of_json(value: Any) -> Any:
    """Return the value that was given to `to_json`, from its parsed text.

    Examples
    --------
    >>> of_json({"loss": "inf", "name": "'inf"})
    {'loss': inf, 'name': 'inf'}
    """
    if isinstance(value, dict):
        return {key: of_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [of_json(item) for item in value]
    if isinstance(value, str):
        return float(value) if value in _NOT_FINITE else _text(value)
    return value


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    return _quoted(value)


def _quoted(value: Any) -> Any:
    looks_like_one = isinstance(value, str) and value.lstrip("'") in _NOT_FINITE
    return f"'{value}" if looks_like_one else value


def _text(value: str) -> str:
    return value[1:] if value[:1] == "'" and value.lstrip("'") in _NOT_FINITE else value
