"""The border of a format: what damaged bytes raise in it, or in a library, names the file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from struct import error as StructError

from sweephand.errors import DataError

# A ValueError or TypeError may also be of a wrong call, an OSError of the system.
_OF_DATA = (
    ArithmeticError,
    AssertionError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    StructError,
    UnicodeError,
)

_OF_NAMES = errno.ENAMETOOLONG, errno.ENOTDIR  # as no file can have


@contextmanager
def guarded(path: str) -> Iterator[None]:
    """Raise what escapes the reading of a file as DataError, with the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError as error:
        reason = f"it takes more memory than there is: {error}".removesuffix(": ")
        raise DataError(reason, path) from error
    except Exception as error:
        is_of_arrow = type(error).__module__.startswith("pyarrow")
        is_name = isinstance(error, OSError) and error.errno in _OF_NAMES
        if not (is_of_arrow or is_name or isinstance(error, _OF_DATA)):
            raise
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        raise DataError(reason, path) from error
