"""Read data sets of an HDF5 file: pictures with labels, and sequences of any length."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    import h5py
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[hdf5]'")

import numpy as np

import sweephand as sh


def write(path: Path) -> None:
    """Write five pictures, and the words that belong to each, one after the other."""
    words = [[1, 2, 3], [4], [5, 6], [7, 8], [9]]
    with h5py.File(path, "w") as file:
        pictures = np.arange(5 * 2 * 2, dtype=np.uint8).reshape(5, 2, 2)
        file.create_dataset(
            "train/picture", data=pictures, chunks=(2, 2, 2), compression="gzip"
        )
        file["train/label"] = np.arange(5) % 3
        file["train/words"] = np.concatenate(words)
        file["train/words_offsets"] = np.cumsum([0, *map(len, words)])  # begin of each, and end
        file["test/picture"] = pictures[:2]


def main() -> None:
    """Name data sets by their paths; what is called NAME_offsets cuts NAME into sequences."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.h5"
        write(path)
        corpus = sh.HDF5Deserializer(
            path,
            {
                "words": sh.StreamDef(field="train/words", defines_mb_size=True),
                "picture": sh.StreamDef(field="train/picture", dtype="float32"),
                "label": sh.StreamDef(field="train/label"),
            },
        )
        with sh.MinibatchSource(corpus, max_sweeps=1, randomization_seed=1) as source:
            for minibatch in source.minibatches(4):
                print(minibatch.ids, minibatch["words"].values, minibatch["label"].values)
                print(minibatch["picture"].values.shape)


if __name__ == "__main__":
    main()
