"""The functions of Python's standard library: text that every machine has."""

import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.demo import write_corpus

LIBRARY = Path(sysconfig.get_path("stdlib"))


def read_functions(sources: Path) -> list[NDArray[np.uint8]]:
    """Return the functions of all Python files below a folder, as their bytes."""
    with TemporaryDirectory() as folder:
        write_corpus(sources, Path(folder))
        tokens = np.load(Path(folder, "bytes.npy"))
        return np.split(tokens, np.load(Path(folder, "bytes_offsets.npy"))[1:-1])
