"""Read arrays in files: values and where each sequence begins, and a row per sequence."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh


def main() -> None:
    """Read sequences where they lie, in any order."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "tokens.npy", np.arange(10, dtype=np.uint16))
        np.save(folder / "begins.npy", [0, 3, 7, 10])
        np.save(folder / "labels.npy", [1, 0, 1])
        corpus = sh.NpyDeserializer(
            {
                "tokens": (folder / "tokens.npy", folder / "begins.npy"),
                "label": folder / "labels.npy",
            },
            sh.StreamDefs(tokens=sh.StreamDef(defines_mb_size=True), label=sh.StreamDef()),
        )
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            for minibatch in source.minibatches(7):
                print(minibatch.ids, minibatch["tokens"].values, minibatch["label"].values)


if __name__ == "__main__":
    main()
