"""Read Parquet files and an Arrow table: pip install sweephand[parquet]."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[parquet]'")


import sweephand as sh


def main() -> None:
    """Serve the same rows from files and from memory."""
    table = pa.table({"tokens": [[1, 2, 3], [4], [5, 6]], "text": ["a", "bc", "d"]})
    streams = sh.StreamDefs(
        tokens=sh.StreamDef(dtype="int32", defines_mb_size=True), text=sh.StreamDef()
    )
    with TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder) / "train.parquet", row_group_size=2)
        corpora = {
            "files": sh.ParquetDeserializer(str(Path(folder) / "*.parquet"), streams),
            "a table": sh.ArrowDeserializer(table, streams),
        }
        for name, corpus in corpora.items():
            with sh.MinibatchSource(corpus, max_sweeps=1) as source:
                for minibatch in source.minibatches(4):
                    print(name, minibatch.ids, minibatch["text"].values)


if __name__ == "__main__":
    main()
