"""Read bare tokens as documents: by offsets beside them, and by the token that ends each."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh


def main() -> None:
    """Write the same tokens as datatrove does, and read them in both ways."""
    documents = [[5, 6, 7, 0], [8, 0], [9, 10, 0]]  # 0 ends each
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.ds"
        np.concatenate(documents).astype(np.uint16).tofile(path)
        ends = np.cumsum([len(one) for one in documents])
        ends.astype(np.uint64).tofile(f"{path}.index")

        by_offsets = sh.RawTokensDeserializer(path, offsets=".index")
        by_token = sh.RawTokensDeserializer(path, "uint16", end_of_document=0)
        for corpus in (by_offsets, by_token):
            with sh.MinibatchSource(corpus, max_sweeps=1, randomization_seed=1) as source:
                minibatch = source.next_minibatch(100)
                print(minibatch.ids, minibatch["tokens"].as_sequences())


if __name__ == "__main__":
    main()
