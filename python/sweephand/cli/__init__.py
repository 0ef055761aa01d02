"""The command line ``sweephand``: one module per command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import sweephand
from sweephand.errors import DataError
from sweephand.printable import printable

COMMANDS = ("demo", "info", "index", "plan", "bench", "verify", "trace", "find")

# What a user or the data can cause; anything else is a bug and shows its traceback.
_EXPECTED = (DataError, ValueError, KeyError, IndexError, TypeError, OSError, ImportError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the program's name; those of the process by default.

    Returns
    -------
    int
        0 only when all is well; 1 when the data, a check or a file is at fault; 130 when the
        user interrupts. Wrong usage ends the process with 2.
    """
    parsed = parser().parse_args(arguments)
    try:
        return _run(parsed)
    except BrokenPipeError:  # who read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except _EXPECTED as error:
        reason = error.args[0] if isinstance(error, KeyError) and error.args else error
        told = printable(" ".join(str(reason).split()))
        print(f"sweephand {parsed.command}: {told}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which imports them."""
    root = argparse.ArgumentParser(
        prog="sweephand",
        description=sweephand.__doc__,
        epilog="Begin with: sweephand demo",
    )
    root.add_argument("--version", action="version", version=sweephand.__version__)
    commands = root.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", required=True
    )
    for name in COMMANDS:
        module = _command(name)
        summary, _, description = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{description}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_options(command)
        command.add_argument(
            "--json", action="store_true", help="write the answer as JSON, and nothing else"
        )
    return root


def _command(name: str) -> ModuleType:
    return import_module(f"sweephand.cli.{name}")


def _run(parsed: argparse.Namespace) -> int:
    from sweephand.terminal.screen import Screen

    facts = _command(parsed.command).run(parsed, Screen(quiet=parsed.json))
    if parsed.json:
        json.dump(facts, sys.stdout, indent=2)
        print()
    sys.stdout.flush()
    return 0 if facts["ok"] else 1
