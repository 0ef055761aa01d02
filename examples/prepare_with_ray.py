"""Tokenise text in parallel with Ray Data, and write what a source reads.

    python examples/prepare_with_ray.py --to parquet
    python examples/prepare_with_ray.py --to megatron

Files of text are read one line a document, and become a shard each, of the same name: so the
order of the corpus is that of the files and lines, whatever Ray does first. A shard that is
there already is left as it is, as each is written under another name and renamed; so a run that
was interrupted goes on. Without files an example of two is made.

Needs: pip install 'sweephand[ray]'
"""

import argparse
import struct
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh

try:
    import ray
except ModuleNotFoundError:
    raise SystemExit("this example needs Ray: pip install 'sweephand[ray]'") from None

SYMBOLS = 256  # of a tokenizer that takes bytes: put yours into `tokenize`


def tokenize(line):
    """Return the tokens of a document, with one after it that ends it."""
    return np.append(np.frombuffer(line.encode(), np.uint8), 0).astype(np.uint16)


def write_parquet(documents, path):
    """Write a list of tokens a row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    tokens = pa.LargeListArray.from_arrays(offsets, np.concatenate(documents))
    pq.write_table(pa.table({"tokens": tokens}), path)


def write_megatron(documents, path):
    """Write tokens, and beside them the index that Megatron's tools read."""
    lengths = np.array([len(one) for one in documents], "<i4")
    begins = 2 * (np.cumsum(lengths, dtype="<i8") - lengths)
    bounds = np.arange(len(lengths) + 1, dtype="<i8")
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(bounds))
    path.with_suffix(".idx").write_bytes(
        head + lengths.tobytes() + begins.tobytes() + bounds.tobytes()
    )
    np.concatenate(documents).tofile(path)


WRITERS = {"parquet": (write_parquet, ".parquet"), "megatron": (write_megatron, ".bin")}


def prepare(row, folder, kind):
    """Make a shard of a file of text, and tell how many tokens it has."""
    write, ending = WRITERS[kind]
    text, shard = Path(row["item"]), Path(folder, Path(row["item"]).stem + ending)
    documents = [tokenize(line) for line in text.read_text().splitlines() if line]
    if not shard.exists():
        part = shard.with_name(f".{shard.name}.part")
        write(documents, part)
        if kind == "megatron":
            part.with_suffix(".idx").replace(shard.with_suffix(".idx"))
        part.replace(shard)  # last: a shard that is there is whole
    return {"shard": shard.name, "tokens": sum(map(len, documents))}


def open_shards(folder, kind):
    """Return all shards as one corpus, in the order of their names."""
    shards = sorted(folder.glob(f"*{WRITERS[kind][1]}"))
    if kind == "parquet":
        return sh.ParquetDeserializer([str(path) for path in shards], ["tokens"])
    return sh.MegatronDeserializer([str(path.with_suffix("")) for path in shards])


def example_of_text(folder):
    """Write lines that count, in two files."""
    for number in range(2):
        lines = [f"line {line} of {number} " * (1 + line % 7) for line in range(200)]
        Path(folder, f"text-{number}.txt").write_text("\n".join(lines))
    return sorted(folder.glob("*.txt"))


def main():
    """Prepare files, and read the first minibatch of packed rows."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("text", nargs="*", type=Path, help="files, one document a line")
    arguments.add_argument("--folder", type=Path, help="where shards go")
    arguments.add_argument("--to", choices=WRITERS, default="parquet")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary, "shards")
        folder.mkdir(parents=True, exist_ok=True)
        files = given.text or example_of_text(Path(temporary))
        ray.init(ignore_reinit_error=True, include_dashboard=False)
        names = ray.data.from_items([str(path.resolve()) for path in files])
        made = names.map(prepare, fn_args=(str(folder.resolve()), given.to)).take_all()
        ray.shutdown()
        tokens = sum(one["tokens"] for one in made)
        with sh.MinibatchSource(open_shards(folder, given.to), layout=sh.Packed(512)) as source:
            rows = source.next_minibatch(4 * 512)["tokens"].asarray()
            print(f"shards: {len(made)}, tokens: {tokens}, rows {rows.shape}")
            print(f"a source reads them all: {source.num_samples_per_sweep == tokens}")


if __name__ == "__main__":
    main()
