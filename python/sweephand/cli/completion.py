"""Print a script that completes commands, options and file names with the TAB key.

It needs shtab: pip install 'sweephand[completion]'. Bash reads the file from ~/.bashrc by
"source ~/.sweephand.bash"; zsh and fish look for theirs in the folders of the examples.

for example:
  sweephand completion bash > ~/.sweephand.bash
  sweephand completion zsh > ~/.zfunc/_sweephand
  sweephand completion fish > ~/.config/fish/completions/sweephand.fish
"""

from __future__ import annotations

import argparse

from sweephand.terminal.screen import Screen

_SHELLS = ("bash", "zsh", "fish")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    try:
        import shtab
    except ImportError:
        raise ImportError(
            "completion needs shtab: pip install 'sweephand[completion]'"
        ) from None
    from sweephand.cli import parser

    places = dict.fromkeys(("PATH", "FILE", "RUN"), shtab.FILE)
    places |= dict.fromkeys(("DIR", "LEDGER"), shtab.DIRECTORY)
    root = parser()
    for action in _actions(root):
        if action.metavar in places:
            action.complete = places[action.metavar]  # type: ignore[attr-defined]
    script = shtab.complete(root, shell=arguments.shell)
    screen.lines(script.splitlines())
    return {"shell": arguments.shell, "script": script}


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of all commands of a parser."""
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [one for command in action.choices.values() for one in _actions(command)]
    return found
