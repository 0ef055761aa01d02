"""Read Megatron's indexed datasets and bare token files where they lie."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh


def write_megatron(prefix: Path, documents: list[list[int]]) -> None:
    """Write what Megatron's own tools write: tokens, and where each document begins."""
    lengths = np.array([len(one) for one in documents], "<i4")
    begins = 2 * (np.cumsum(lengths, dtype="<i8") - lengths)
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(documents), len(documents) + 1)
    bounds = np.arange(len(documents) + 1, dtype="<i8")
    prefix.with_suffix(".idx").write_bytes(
        head + lengths.tobytes() + begins.tobytes() + bounds.tobytes()
    )
    tokens = np.concatenate([np.array(one, "<u2") for one in documents])
    tokens.tofile(prefix.with_suffix(".bin"))


def main() -> None:
    """Serve documents from the pair of files, and runs of four tokens from the bare ones."""
    with TemporaryDirectory() as folder:
        prefix = Path(folder) / "corpus_text_document"
        write_megatron(prefix, [[1, 2, 3], [4, 5], [6, 7, 8, 9]])
        corpora = [
            sh.MegatronDeserializer(prefix),
            sh.RawTokensDeserializer(prefix.with_suffix(".bin"), "uint16", sequence_length=4),
        ]
        for corpus in corpora:
            with sh.MinibatchSource(corpus, max_sweeps=1) as source:
                for minibatch in source.minibatches(5):
                    print(minibatch.ids, minibatch["tokens"].values)


if __name__ == "__main__":
    main()
