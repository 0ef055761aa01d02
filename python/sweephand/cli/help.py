"""Help texts, wrapped between words for a screen of any width."""

from __future__ import annotations

import argparse
from typing import Any

from sweephand.terminal.wrapping import wrapped, wrapped_command

_EXAMPLES = "for example:"


def short_usage(parser: argparse.ArgumentParser) -> str:
    """Return the call of a command with its required arguments alone."""
    needed = [
        f"({' | '.join(_spelled(action) for action in group._group_actions)})"
        for group in parser._mutually_exclusive_groups
        if group.required
    ]
    needed += [_spelled(a) for a in parser._actions if a.option_strings and a.required]
    words = [
        f"[{a.metavar}]" if a.nargs == "?" else str(a.metavar)
        for a in parser._actions
        if not a.option_strings
    ]
    return " ".join([parser.prog, *words, *needed, "[options]"])


def _spelled(action: argparse.Action) -> str:
    return f"{action.option_strings[0]} {action.metavar}"


class HelpFormatter(argparse.HelpFormatter):
    """Formats paragraphs, and examples as commands of a line each."""

    def _format_usage(
        self, usage: str | None, actions: Any, groups: Any, prefix: str | None
    ) -> str:
        if usage is None:
            return super()._format_usage(usage, actions, groups, prefix)
        lines = wrapped(f"{prefix or 'usage: '}{usage}", self._width, len("usage: "))
        return "\n".join(lines) + "\n\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = [self._paragraph(part, width) for part in text.strip().split("\n\n")]
        return "\n\n".join("\n".join(lines) for lines in paragraphs)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)

    @staticmethod
    def _paragraph(text: str, width: int) -> list[str]:
        first, *lines = text.strip().splitlines()
        if first.strip() != _EXAMPLES:
            return wrapped(" ".join(text.split()), width)
        return [first] + [one for line in lines for one in wrapped_command(line[2:], width, 2)]
