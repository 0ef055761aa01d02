"""The pictures of a command, which ``--png`` and ``--html`` keep."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sweephand.cli.answers import WrongUsage
from sweephand.terminal import pictures
from sweephand.terminal.screen import Screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS = ("png", "html")


def add_picture(parser: argparse.ArgumentParser, command: ModuleType) -> None:
    """Add the options; they are shown where the command's PICTURE describes its drawing.

    A command with a PAGE writes that itself for ``--html``, and draws nothing.
    """
    for kind in _KINDS:
        drawn = getattr(command, "PICTURE", getattr(command, "PAGE", None))
        if kind == "png" and hasattr(command, "PAGE"):
            drawn = None
        parser.add_argument(
            f"--{kind}",
            metavar="FILE",
            type=Path,
            help=argparse.SUPPRESS if drawn is None else f"draw {drawn}, as {kind.upper()}",
        )


def picture_paths(arguments: argparse.Namespace) -> dict[str, Path]:
    """Return the files that a picture is wanted in, by their kind."""
    return {kind: path for kind in _KINDS if (path := getattr(arguments, kind)) is not None}


def check_picture(arguments: argparse.Namespace, command: ModuleType) -> None:
    """Refuse a picture that cannot be drawn or kept, before any work is done."""
    asked = picture_paths(arguments)
    if not asked:
        return
    name = arguments.command
    writes_page = hasattr(command, "PAGE") and "png" not in asked
    if not hasattr(command, "PICTURE") and not writes_page:
        raise WrongUsage(
            f"--{next(iter(asked))}: {name} has no picture; info, plan, bench and "
            "ledger have one",
            f"sweephand {name}",
            "",
        )
    if not writes_page:
        pictures.check_matplotlib()
    for kind, path in asked.items():
        if path.is_dir() or not path.parent.is_dir():
            raise FileNotFoundError(
                f"--{kind} {path}: "
                + ("it is a folder" if path.is_dir() else f"there is no folder {path.parent}")
            )


def keep_picture(
    arguments: argparse.Namespace,
    screen: Screen,
    facts: dict[str, object],
    draw: Callable[[], Figure],
) -> None:
    """Write the picture to the files of the command line, and report their paths."""
    paths = picture_paths(arguments)
    if not paths:
        return
    figure = draw()
    screen.text()
    for kind, path in paths.items():
        pictures.save(figure, path, kind)
        screen.text(f"figure: {path}")
        facts[kind] = str(path)
