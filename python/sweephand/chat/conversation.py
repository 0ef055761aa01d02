"""Conversations in the forms that data sets have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
"""A message: its ``role``, its ``content``, and whatever else a template knows."""

_SHAREGPT = "conversations"
_ALPACA = ("instruction", "output")
_ROLES = {"human": "user", "gpt": "assistant", "bing": "assistant", "chatgpt": "assistant"}


def conversation_of(sequence: Mapping[str, Any], column: str) -> list[Message]:
    """Return the messages of a sequence.

    They are in a column, or as ShareGPT or Alpaca has them where that column is absent.
    ValueError if there are none, or they are no messages.
    """
    if column in sequence:
        return messages_of(sequence[column], column)
    if _SHAREGPT in sequence:
        return messages_of(sequence[_SHAREGPT], _SHAREGPT)
    if all(name in sequence for name in _ALPACA):
        return _alpaca(sequence)
    raise ValueError(
        f"there is no column {column!r}, there are: {', '.join(sequence)}; name the one of the "
        "messages, messages=..."
    )


def messages_of(value: Any, column: str) -> list[Message]:
    """Return a value as messages with ``role`` and ``content``.

    ValueError if it is no list of messages.
    """
    if not isinstance(value, list) or not value:
        kind = "an empty list" if value == [] else type(value).__name__
        raise ValueError(f"the column {column!r} is {kind}, and no list of messages")
    return [_message(one, number, column) for number, one in enumerate(value)]


def _message(one: Any, number: int, column: str) -> Message:
    if not isinstance(one, dict):
        raise ValueError(f"message {number} of {column!r} is {type(one).__name__}, no object")
    if "role" not in one and "from" in one and "value" in one:
        rest = {key: value for key, value in one.items() if key not in ("from", "value")}
        role = one["from"]
        one = {"role": _ROLES.get(role, role), "content": one["value"], **rest}
    if not isinstance(one.get("role"), str):
        raise ValueError(
            f"message {number} of {column!r} has no role: it has {', '.join(map(str, one))}"
        )
    # Arrow gives all messages the keys of any of them.
    return {key: value for key, value in one.items() if value is not None or key == "content"}


def _alpaca(sequence: Mapping[str, Any]) -> list[Message]:
    asked = text_of(sequence["instruction"])
    more = text_of(sequence["input"]) if "input" in sequence else ""
    return [
        {"role": "user", "content": f"{asked}\n\n{more}" if more else asked},
        {"role": "assistant", "content": text_of(sequence["output"])},
    ]


def text_of(value: Any) -> str:
    """Return a text that a map is given as str, as bytes, or in an array of one element.

    ValueError if it is no text.
    """
    if not isinstance(value, str | bytes) and len(value) <= 1:
        value = value[0] if len(value) else ""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise ValueError(f"a text is wanted, got {type(value).__name__}")
    return value


def is_trained(message: Message) -> bool:
    """Return False for a message that excludes itself from the loss."""
    return bool(message.get("weight", 1)) and bool(message.get("loss_mask", 1))
