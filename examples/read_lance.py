"""Read a Lance dataset at a version: pip install sweephand[lance]."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    import lance
    import pyarrow as pa
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[lance,parquet]'")


import sweephand as sh


def main() -> None:
    """Add rows while a corpus is open: it stays at its version."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "train.lance")
        rows = pa.table({"tokens": [[1, 2, 3], [4], [5, 6]], "label": [0, 1, 2]})
        lance.write_dataset(rows, path)
        corpus = sh.LanceDeserializer(path)
        lance.write_dataset(rows, path, mode="append")
        with sh.MinibatchSource(corpus, max_sweeps=2, randomization_seed=1) as source:
            for minibatch in source.minibatches(6):
                print(minibatch.ids, minibatch["tokens"].values, minibatch["label"].values)
        print(f"version {corpus.version} of {sh.LanceDeserializer(path).version}")


if __name__ == "__main__":
    main()
