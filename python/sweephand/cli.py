"""The command line ``sweephand``."""

import argparse
from collections.abc import Sequence

import sweephand


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the program's name; those of the process by default.

    Returns
    -------
    int
        0 only when all is well.
    """
    parser = argparse.ArgumentParser(prog="sweephand", description=sweephand.__doc__)
    parser.add_argument("--version", action="version", version=sweephand.__version__)
    parser.parse_args(arguments)
    parser.print_help()
    return 0
