"""Archives of arrays, ``.npz``, as a corpus in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted, the_only
from sweephand.deserializers.npy import with_offsets
from sweephand.errors import DataError
from sweephand.files.local import open_regular
from sweephand.files.paths import AnyPath, RemotePath, begins_with


def _load(path: Path) -> dict[str, NDArray[np.generic]]:
    member = None
    arrays = {}
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            for member in archive.files:
                arrays[member] = np.asarray(archive[member])
    except Exception as error:  # damaged bytes make zipfile and NumPy raise a dozen kinds
        reason = f"the archive cannot be read: {error}"
        raise DataError(reason, str(path), stream=member) from error
    return arrays


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    path = the_only(files)
    if isinstance(path, RemotePath):
        raise ValueError(f"{path}: archives are read from local disks only")
    streams = with_offsets(_load(path))
    return ArrayDeserializer(
        streams, wanted.definitions(streams), chunk_size=wanted.chunk_size, name=path.name
    )


FORMAT = Format(".npz", lambda path: begins_with(path, b"PK\x03\x04"), _open)
