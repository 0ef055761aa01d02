"""Read the shards of a MosaicML streaming data set where they lie."""

import json
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh


def write_shards(folder: Path) -> None:
    """Write two samples of a label and tokens, as mosaicml-streaming's MDSWriter does."""
    bodies = []
    for label, tokens in enumerate(([1, 2, 3], [4, 5])):
        content = np.array(tokens, np.int64).tobytes()
        bodies.append(struct.pack("<I", len(content)) + struct.pack("<q", label) + content)
    ends = np.cumsum([4 * (len(bodies) + 2), *map(len, bodies)]).astype(np.uint32)
    shard = struct.pack("<I", len(bodies)) + ends.tobytes() + b"".join(bodies)
    (folder / "shard.00000.mds").write_bytes(shard)
    told = {
        "format": "mds",
        "column_names": ["label", "tokens"],
        "column_encodings": ["int", "bytes"],
        "column_sizes": [8, None],
        "samples": len(bodies),
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(shard)},
    }
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [told]}))


def main() -> None:
    """Tokens that are stored as bytes come as numbers where a dtype says so."""
    with TemporaryDirectory() as folder:
        write_shards(Path(folder))
        corpus = sh.MDSDeserializer(
            folder, {"tokens": sh.StreamDef(dtype="int64"), "label": sh.StreamDef()}
        )
        with sh.MinibatchSource(corpus, max_sweeps=2, randomization_seed=1) as source:
            for minibatch in source.minibatches(5):
                print(minibatch.ids, minibatch["tokens"].values, minibatch["label"].values)


if __name__ == "__main__":
    main()
