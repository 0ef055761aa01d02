"""Answers of commands under ``--json``: their facts, or the error in place of them."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

Answer = dict[str, Any]

_PLACE = ("file", "offset", "line", "chunk", "stream", "sequence")
_CODES: dict[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted",
    ImportError: "missing-package",
    OSError: "unreadable-file",
    BaseException: "wrong-call",
}


class WrongUsage(Exception):
    """The words of a command line make no sense; `usage` says how it is called."""

    code = "wrong-usage"

    def __init__(self, message: str, program: str, usage: str) -> None:
        super().__init__(message)
        self.command = program.partition(" ")[2]
        self.usage = usage


def error_facts(error: BaseException, message: str, command: str) -> Answer:
    """Return an error as facts."""
    place = {name: getattr(error, name, None) for name in _PLACE}
    if isinstance(error, OSError):
        place["file"] = error.filename
    return {
        "ok": False,
        "code": getattr(error, "code", None)
        or next(code for kind, code in _CODES.items() if isinstance(error, kind)),
        "error": message,
        "where": {
            "command": command or None,
            **{name: value for name, value in place.items() if value is not None},
        },
        "hint": _hint(error, message, command),
    }


def _hint(error: BaseException, message: str, command: str) -> str | None:
    """Return the part of a message that advises the user."""
    if isinstance(error, WrongUsage):
        return f"sweephand {command}".rstrip() + " --help"
    if install := re.search(r"pip install \S+", message):
        return install[0]
    return message.rpartition("; ")[2] if "; " in message else None


def write_json(facts: Answer) -> None:
    """Write facts to standard output; numbers that JSON lacks, such as NaN, become null."""
    json.dump(_plain(facts), sys.stdout, indent=2, allow_nan=False, default=str)
    print()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
