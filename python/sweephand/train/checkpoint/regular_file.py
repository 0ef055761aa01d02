"""Files of a checkpoint, opened without blocking: regular ones only, no links."""

from io import BufferedReader
from pathlib import Path

from sweephand.errors import DataError, StateError
from sweephand.files import local


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, and never block on a pipe or device.

    StateError is raised if it is no regular file, or a link, which may lead out of the folder.
    """
    try:
        return local.open_regular(path, follow_links=False)
    except DataError as error:
        raise StateError(str(error)) from None
