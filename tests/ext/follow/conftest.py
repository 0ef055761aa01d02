"""What commands need: a corpus as a file, and calls of the command line."""

from tests.cli.conftest import call, tokens

__all__ = ["call", "tokens"]
