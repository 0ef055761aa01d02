"""Read arrays of Zarr stores, several of which are one corpus."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

try:
    import zarr
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[zarr]'")


import sweephand as sh


def write(path: Path, first: int) -> None:
    """Write four samples of a signal and a label, in chunks of two and one shard."""
    group = zarr.open_group(path, mode="w")
    signal = np.arange(first, first + 12, dtype=np.float32).reshape(4, 3)
    group.create_array("signal", data=signal, chunks=(2, 3), shards=(4, 3))
    group.create_array("label", data=np.arange(first, first + 4))


def main() -> None:
    """Open both; an array's first axis is that of the sequences."""
    with TemporaryDirectory() as folder:
        for number in range(2):
            write(Path(folder) / f"part-{number}.zarr", 100 * number)
        corpus = sh.open(f"{folder}/part-*.zarr")
        with sh.MinibatchSource(corpus, max_sweeps=1, randomization_seed=1) as source:
            for minibatch in source.minibatches(3):
                print(minibatch.ids, minibatch["label"].values)
                print(minibatch["signal"].values)


if __name__ == "__main__":
    main()
