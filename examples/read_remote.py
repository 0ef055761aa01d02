"""Read objects of a store by ranges: pip install sweephand[remote].

Here the store is fsspec's, in memory; s3://, gs://, az:// and https:// URLs are read alike.
"""

import os
import sys
from tempfile import TemporaryDirectory

try:
    import fsspec
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[remote]'")


import sweephand as sh


def main() -> None:
    """Read shards of JSON lines by their URLs; the index is kept in a cache folder."""
    store = fsspec.filesystem("memory")
    for shard in range(2):
        lines = "".join(f'{{"tokens": [{shard}, {n}]}}\n' for n in range(3))
        store.pipe(f"/corpus/part-{shard}.jsonl", lines.encode())
    with TemporaryDirectory() as cache:
        os.environ["SWEEPHAND_CACHE"] = cache
        corpus = sh.JSONLDeserializer(
            "memory://corpus/*.jsonl", sh.StreamDefs(tokens=sh.StreamDef())
        )
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            for minibatch in source.minibatches(6):
                print(minibatch.ids, minibatch["tokens"].values)


if __name__ == "__main__":
    main()
