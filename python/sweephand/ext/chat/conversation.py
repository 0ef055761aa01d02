"""Conversations in the forms that data sets have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
"""A message: its ``role``, its ``content`` or None, and whatever else a template knows."""

_SHAREGPT = "conversations"
_ALPACA = ("instruction", "output")
_PROMPT = ("prompt", "completion")
_ROLES = {
    "human": "user",
    **dict.fromkeys(["gpt", "bing", "chatgpt", "function_call"], "assistant"),
    **dict.fromkeys(["observation", "function_response"], "tool"),
}
_SWITCHES = ("weight", "loss_mask")
_REASONING = ("reasoning_content", "thinking", "reasoning")


def conversation_of(
    sequence: Mapping[str, Any], column: str
) -> tuple[list[list[Message]], int]:
    """Return the conversation of a sequence, and how many messages of it are only a prompt.

    They are in a column; where that is absent, as ShareGPT has them, Alpaca, or TRL with
    ``prompt`` and ``completion``. ValueError if there are none, or they are no messages.
    """
    for name in (column, _SHAREGPT):
        if name in sequence:
            return [_messages(sequence[name], name)], 0
    if all(name in sequence for name in _ALPACA):
        return [_alpaca(sequence)], 0
    if all(name in sequence for name in _PROMPT):
        prompt = _part(sequence, "prompt", "user")
        return [[*prompt, *_part(sequence, "completion", "assistant")]], len(prompt)
    raise ValueError(
        f"there is no column {column!r}, there are: {', '.join(sequence)}; name the one of the "
        "messages, messages=..."
    )


def pair_of(
    sequence: Mapping[str, Any], columns: tuple[str, str, str]
) -> tuple[list[list[Message]], int]:
    """Return both conversations of a pair, and how many messages of each are the prompt."""
    prompt = _part(sequence, columns[0], "user") if columns[0] in sequence else []
    both = [_part(sequence, name, "assistant") for name in columns[1:]]
    if not prompt:
        alike = [one == other for one, other in zip(*both, strict=False)]
        return both, [*alike, False].index(False)
    count = len(prompt)  # some data sets have it both by itself and before the answers
    return [one if one[:count] == prompt else prompt + one for one in both], count


def _part(sequence: Mapping[str, Any], column: str, role: str) -> list[Message]:
    """Return messages of a column, which may also be the text of a single message."""
    if column not in sequence:
        raise ValueError(f"there is no column {column!r}, only {', '.join(sequence)}")
    value = _listed(sequence[column])
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return _messages(value, column)


def _messages(value: Any, column: str) -> list[Message]:
    """Return a value, which may be JSON, as messages; ValueError if it is no list of them."""
    value = _listed(value)
    if not isinstance(value, list) or not value:
        kind = "an empty list" if value == [] else type(value).__name__
        raise ValueError(f"the column {column!r} is {kind}, and no list of messages")
    return [_message(one, f"message {n} of {column!r}") for n, one in enumerate(value)]


def _listed(value: Any) -> Any:
    """Return a value, or the messages that a text has as JSON, or the text."""
    if value is None or isinstance(value, list | dict):
        return value
    text = _text(value)
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError:
        return text
    is_messages = isinstance(found, list) and all(
        isinstance(one, dict) and ("role" in one or "from" in one) for one in found
    )
    return found if is_messages else text


def _message(one: Any, place: str) -> Message:
    if not isinstance(one, dict):
        raise ValueError(f"{place} is {type(one).__name__}, no object")
    made = {key: value for key, value in one.items() if value is not None}
    calls = made.pop("function_call", None)
    if "role" not in made and "from" in made:
        role, made["content"] = made.pop("from"), made.pop("value", None)
        made = {"role": _ROLES.get(role, role), **made}
        if role == "function_call":
            calls, made["content"] = made["content"], None
    if not isinstance(made.get("role"), str):
        raise ValueError(f"{place} has no role: it has {', '.join(map(str, one))}")
    if calls is not None:
        made["tool_calls"] = _tool_calls(calls, place)
    for name in _SWITCHES:
        if made.get(name, 1) not in (0, 1):
            raise ValueError(
                f"{place} has the {name} {made[name]!r}: a loss is taken on it, 1, or not, 0"
            )
    for name in _REASONING:
        if name in made:  # as transformers gives templates the names that they may ask for
            made = {"thinking": made[name], **made, "reasoning_content": made[name]}
            break
    made.setdefault("content", None)
    return made


def _tool_calls(calls: Any, place: str) -> list[dict[str, Any]]:
    """Return a call of a function, or several, in the form that templates know."""
    try:
        calls = json.loads(calls) if isinstance(calls, str) else calls
        calls = calls if isinstance(calls, list) else [calls]
        return [{"type": "function", "function": {"name": one["name"], **one}} for one in calls]
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{place} calls a function, and is no JSON with its name and arguments"
        ) from None


def _alpaca(sequence: Mapping[str, Any]) -> list[Message]:
    asked = _text(sequence["instruction"])
    more = _text(sequence["input"]) if "input" in sequence else ""
    return [
        {"role": "user", "content": f"{asked}\n\n{more}" if more else asked},
        {"role": "assistant", "content": _text(sequence["output"])},
    ]


def _text(value: Any) -> str:
    """Return a text that a map is given as str, as bytes, or in an array of one element."""
    if not isinstance(value, str | bytes) and len(value) <= 1:
        value = value[0] if len(value) else ""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise ValueError(f"a text is wanted, got {type(value).__name__}")
    return value


def has_loss(message: Message) -> bool:
    """Return False if a message excludes itself from the loss."""
    return all(message.get(name, 1) for name in _SWITCHES)
