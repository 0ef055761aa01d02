"""Files of a checkpoint, opened without a wait: regular ones only, and no links."""

import errno
import io
import os
import stat
from pathlib import Path

from sweephand.errors import StateError


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; at once also where a pipe or device stands under its name.

    Raises
    ------
    StateError
        If it is no regular file, or a link, which may lead out of the folder.
    OSError
        If it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise StateError(f"{path} is a link or a socket, and no regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StateError(f"{path} is no regular file")
    return os.fdopen(descriptor, "rb")
