"""The command line ``sweephand``: one module per command."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from textwrap import fill
from types import ModuleType
from typing import Any, NoReturn

import sweephand
from sweephand.base.public_names import entry_points
from sweephand.errors import DataError, printable

_CORE = ("demo", "info", "index", "plan", "bench", "verify", "trace", "find", "events")
_GROUP = "sweephand.commands"  # of entry points, whose names are commands and values modules

Answer = dict[str, Any]  # of a command under --json: its facts, or the error in place of them

_PLACE = ("file", "offset", "line", "chunk", "stream", "sequence")
_CODES: dict[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted",
    ImportError: "missing-package",
    OSError: "unreadable-file",
    BaseException: "wrong-call",
}
# Errors that a user or the data can cause; anything else is a bug and shows its traceback.
_EXPECTED = DataError, ValueError, LookupError, TypeError, OSError, ImportError, OverflowError


class WrongUsage(Exception):
    """The words of a command line make no sense; `usage` says how it is called."""

    code = "wrong-usage"

    def __init__(self, message: str, program: str, usage: str) -> None:
        super().__init__(message)
        self.command = program.partition(" ")[2]
        self.usage = usage


class _HelpFormatter(argparse.HelpFormatter):
    """Formats paragraphs, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part
            if part.startswith("for example:")
            else fill(part, width, initial_indent=indent)
            for part in text.strip().split("\n\n")
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message, self.prog, self.format_usage())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_json = "--json" in words
    command = ""
    try:
        parsed = parser().parse_args(words)
        command = parsed.command
        return _run(parsed)
    except BrokenPipeError:  # who read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as error:
        return _fail(error, "interrupted", command, 130, is_json)
    except WrongUsage as error:
        if not is_json:
            sys.stderr.write(error.usage)
        return _fail(error, str(error), error.command, 2, is_json)
    except _EXPECTED as error:
        reason = error.args[0] if isinstance(error, KeyError) and error.args else error
        return _fail(error, str(reason), command, 1, is_json)


def _fail(error: BaseException, reason: str, command: str, code: int, is_json: bool) -> int:
    """Print an error, in one line or as JSON, and return the exit code."""
    message = printable(" ".join(reason.split()))
    if is_json:
        _write_json(_error_facts(error, message, command))
    elif code != 130:
        print(f"sweephand {command}".rstrip() + f": {message}", file=sys.stderr)
    return code


def _error_facts(error: BaseException, message: str, command: str) -> Answer:
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


def _write_json(facts: Answer) -> None:
    """Write facts to standard output; numbers that JSON lacks, such as NaN, become null."""
    json.dump(_plain(facts), sys.stdout, indent=2, allow_nan=False, default=str)
    print()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which imports them."""
    root = _Parser(
        prog="sweephand",
        description=sweephand.__doc__,
        epilog="Begin with: sweephand demo",
        formatter_class=_HelpFormatter,
    )
    root.add_argument("--version", action="version", version=sweephand.__version__)
    words = root.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", required=True
    )
    for name in commands():
        module = _command(name)
        summary, _, description = (module.__doc__ or "").partition("\n\n")
        command = words.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{description}",
            formatter_class=_HelpFormatter,
        )
        module.add_options(command)
        command.add_argument(
            "--json", action="store_true", help="write the answer as JSON, and nothing else"
        )
    return root


@cache
def commands() -> dict[str, str]:
    """Return the commands, those of the core first, and the module of each."""
    added = {point.name: point.value for point in entry_points(_GROUP)}
    return {name: f"sweephand.cli.{name}" for name in _CORE} | dict(sorted(added.items()))


def _command(name: str) -> ModuleType:
    return import_module(commands()[name])


def _run(parsed: argparse.Namespace) -> int:
    from sweephand.cli.screen import Screen

    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        # All is well unless the command finds otherwise.
        facts: Answer = {"ok": True} | _command(parsed.command).run(
            parsed, Screen(quiet=parsed.json)
        )
    if parsed.json:
        _write_json(facts)
    sys.stdout.flush()
    return 0 if facts["ok"] else 1


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
