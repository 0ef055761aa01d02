"""What reading through a window holds in memory, at 1 GB and at 10 GB of data.

``python -m benchmarks.reading_memory`` makes sparse token files, which take nothing of the
disk, and reads the same number of shuffled tokens of each in a process of its own: as it is,
and with an allocator that gives large pieces back at once (glibc keeps some for each thread).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import fsspec
from fsspec.implementations.local import LocalFileSystem

import sweephand as sh

_GB = 10**9
_READ_BYTES = 10**9
_SEQUENCE = 1 << 16  # tokens, each of 2 bytes
_MINIBATCH = 1 << 22  # tokens

ALLOCATORS = {"as it is": {}, "large pieces given back": {"MALLOC_MMAP_THRESHOLD_": "1000000"}}


class Disk(LocalFileSystem):
    """Local files as objects of a store: token files are read in chunks, through a window."""

    protocol = "disk"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("disk://"))


def resident(field: str) -> int:
    """Return memory of this process in bytes: ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


def measure(path: Path) -> None:
    """Print by how much this process grows at most, and the bound."""
    fsspec.register_implementation("disk", Disk)
    before = resident("VmRSS")
    corpus = sh.RawTokensDeserializer(f"disk://{path}", "uint16", _SEQUENCE)
    with sh.MinibatchSource(
        corpus, num_lanes=8, randomization_window_in_chunks=8, num_threads=1
    ) as source:
        for _ in range(_READ_BYTES // (2 * _MINIBATCH)):
            source.next_minibatch(_MINIBATCH)
        print(resident("VmHWM") - before, source.memory_bound(_MINIBATCH))


def main() -> None:
    """Print the figures of both sizes."""
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return
    for size in (_GB, 10 * _GB):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "tokens.bin"
            with path.open("wb") as file:
                file.truncate(size)
            for allocator, settings in ALLOCATORS.items():
                told = subprocess.run(
                    [sys.executable, "-m", "benchmarks.reading_memory", str(path)],
                    env={**os.environ, **settings},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                grown, bound = (int(word) / 1e6 for word in told.stdout.split())
                print(
                    f"{size // _GB:2} GB, {allocator}: {grown:.0f} MB at most, "
                    f"memory_bound {bound:.0f} MB"
                )


if __name__ == "__main__":
    main()
