"""Commands that the page on the command line shows, run again.

    python -m docs.tools.shown_commands          name the commands whose output has another form
    python -m docs.tools.shown_commands --write  write the outputs of this machine into the page

Numbers, and lines that only differ in them, depend on the machine and its standard library: the
form of an output is what is left without them.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from sweephand.cli.demo import read_functions, standard_library

PAGE = Path(__file__).parents[1] / "command_line.md"

_BLOCK = re.compile(r"^```console\n\$ (sweephand [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_UNITS = r"(?: ?(?:ns|us|ms|s|min|h|B|KiB|MiB|GiB|TiB|%|k|M|G)(?:/s)?(?![\w]))?"
_NUMBER = re.compile(rf"[-+]?\d[\d,_.]*(?:e[-+]?\d+)?{_UNITS}")


def shown(page: str) -> dict[str, str]:
    """Return the outputs that a page shows, by their commands."""
    return dict(_BLOCK.findall(page))


def form(output: str) -> str:
    r"""Return an output without numbers, bars, lines that are alike, and breaks of lines.

    Examples
    --------
    >>> form("steps   488 in 1.2 s\n ────\n 1 - 2  3 ▏\n 3 - 4  99 ███\n")
    'steps # in # # - # #'
    """
    lines: list[str] = []
    for line in output.splitlines():
        line = _NUMBER.sub("#", re.sub(r"[▏▎▍▌▋▊▉█─]+", "", line))
        line = " ".join(line.split())
        if line and line not in lines[-1:]:
            lines.append(line)
    return " ".join(lines)


def make_corpus(folder: Path) -> None:
    """Write the corpus of the demonstration, which the page looks at."""
    read_functions(standard_library()).write(folder / "sweephand-demo" / "corpus")


def run(command: str, folder: Path) -> str:
    """Return what a command writes in a folder, on a screen of 100 columns."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.decode().splitlines())


def main() -> None:
    """Compare, or write with ``--write``."""
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as name:
        make_corpus(Path(name))
        for command, output in shown(page).items():
            found = run(command, Path(name))
            if form(found) != form(output):
                print(command)
                if "--write" in sys.argv:
                    page = page.replace(
                        f"$ {command}\n{output}```", f"$ {command}\n{found.rstrip()}\n```"
                    )
    if "--write" in sys.argv:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
