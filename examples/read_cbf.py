"""Read CNTK's binary format, as its ctf2bin.py writes it."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh

MAGIC = struct.pack("<Q", 0x636E746B5F62696E)


def write_binary(path: Path) -> None:
    """Write two sequences of dense features of two values, in one chunk."""
    sequences = [np.array([[0, 1], [2, 3]], "<f4"), np.array([[4, 5]], "<f4")]
    begin = MAGIC + struct.pack("<I", 1)
    chunk = struct.pack("<II", *map(len, sequences))
    for one in sequences:
        chunk += struct.pack("<I", len(one)) + one.tobytes()
    name = b"features"
    header = MAGIC + struct.pack("<II", 1, 1)  # chunks, streams
    header += struct.pack("<BI", 0, len(name)) + name + struct.pack("<BI", 0, 2)
    header += struct.pack("<qII", len(begin), 2, 3)
    path.write_bytes(begin + chunk + header + struct.pack("<q", len(begin + chunk)))


def main() -> None:
    """Print what the file says of itself, and its sequences."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.cbf"
        write_binary(path)
        corpus = sh.CBFDeserializer(path)
        with sh.MinibatchSource(corpus, max_sweeps=1, randomization_seed=1) as source:
            print(source.streams.features.brief)
            for minibatch in source.minibatches(3):
                print(minibatch.ids, minibatch["features"].values.tolist())


if __name__ == "__main__":
    main()
