"""The command line ``sweephand``: one module per command."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import sweephand
from sweephand.base.public_names import entry_points
from sweephand.cli.answers import Answer, WrongUsage, error_facts, write_json
from sweephand.cli.help import HelpFormatter, short_usage
from sweephand.errors import DataError, printable

_CORE = ("demo", "info", "index", "plan", "bench", "verify", "trace", "find", "events")
_GROUP = "sweephand.commands"  # of entry points, whose names are commands and values modules

_SYNONYMS = (
    dict.fromkeys(["version", "-V", "-v"], "--version")
    | dict.fromkeys(["describe", "inspect", "ls", "list", "stats", "open"], "info")
    | dict.fromkeys(["show", "head", "cat", "print", "browse", "serve"], "view")
    | dict.fromkeys(["check", "test", "validate"], "verify")
    | dict.fromkeys(["benchmark", "speed", "time"], "bench")
)

# Errors that a user or the data can cause; anything else is a bug and shows its traceback.
_EXPECTED = (
    DataError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OSError,
    ImportError,
    OverflowError,
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
        parsed = _parsed(words)
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


def _parsed(words: list[str]) -> argparse.Namespace:
    """Parse the words; ``help COMMAND`` is ``COMMAND --help``."""
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    root = parser()
    first = next(iter(words), "--json")
    if first in _SYNONYMS or (not first.startswith("-") and first not in commands()):
        raise WrongUsage(
            f"there is no command {first!r}{_meant(first)} There are: {', '.join(commands())}",
            root.prog,
            root.format_usage(),
        )
    if set(words) <= {"--json"}:
        raise WrongUsage(
            "a command is needed, such as sweephand demo, or sweephand info PATH",
            root.prog,
            root.format_help(),
        )
    return root.parse_args(words)


def _meant(word: str) -> str:
    """Return the command that was meant, as the end of a sentence."""
    if Path(word).exists() or "://" in word:
        return f"; write sweephand info {word}."
    close = _SYNONYMS.get(word) or next(iter(get_close_matches(word, commands(), 1)), "")
    return f"; is it {close!r}?" if close else "."


def _fail(error: BaseException, reason: str, command: str, code: int, is_json: bool) -> int:
    """Print an error, in one line or as JSON, and return the exit code."""
    message = printable(" ".join(reason.split()))
    if is_json:
        write_json(error_facts(error, message, command))
    elif code != 130:
        print(f"sweephand {command}".rstrip() + f": {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which imports them."""
    root = _Parser(
        prog="sweephand",
        description=sweephand.__doc__,
        epilog="Begin with: sweephand demo",
        formatter_class=HelpFormatter,
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
            formatter_class=HelpFormatter,
        )
        module.add_options(command)
        command.add_argument(
            "--json", action="store_true", help="write the answer as JSON, and nothing else"
        )
        command.usage = short_usage(command)
    return root


@cache
def commands() -> dict[str, str]:
    """Return the commands, those of the core first, and the module of each."""
    added = {point.name: point.value for point in entry_points(_GROUP)}
    return {name: f"sweephand.cli.{name}" for name in _CORE} | dict(sorted(added.items()))


def _command(name: str) -> ModuleType:
    return import_module(commands()[name])


def _run(parsed: argparse.Namespace) -> int:
    from sweephand.terminal.screen import Screen

    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        # All is well unless the command finds otherwise.
        facts: Answer = {"ok": True} | _command(parsed.command).run(
            parsed, Screen(quiet=parsed.json)
        )
    if parsed.json:
        write_json(facts)
    sys.stdout.flush()
    return 0 if facts["ok"] else 1


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
