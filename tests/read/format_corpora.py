"""One small corpus written in every format that Python reads, and how to open each."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.read.written import (
    npy_bytes,
    write_array_record,
    write_mds,
    write_megatron,
    write_tar,
)

import sweephand as sh


@dataclass(frozen=True)
class Corpus:
    """Sequences of tokens; every one also has a label and a text that tell its number."""

    tokens: list[NDArray[np.int32]]
    first: int = 0  # the number of the first

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], seed: int = 0) -> Corpus:
        random = np.random.default_rng(seed)
        return cls([random.integers(0, 60000, n, dtype=np.int32) for n in lengths])

    @property
    def labels(self) -> list[int]:
        return [100 + self.first + number for number in range(len(self.tokens))]

    @property
    def texts(self) -> list[str]:
        return [f"é{self.first + number}\0" for number in range(len(self.tokens))]

    @property
    def rows(self) -> list[dict[str, Any]]:
        named = zip(self.tokens, self.labels, self.texts, strict=True)
        return [{"tokens": one, "label": label, "text": text} for one, label, text in named]

    def parts(self, count: int) -> list[Corpus]:
        """The same in runs of nearly equal length."""
        ends = [len(self.tokens) * i // count for i in range(count + 1)]
        return [Corpus(self.tokens[begin:end], begin) for begin, end in pairwise(ends)]

    def table(self) -> Any:
        pa = pytest.importorskip("pyarrow")
        tokens = pa.array([one.tolist() for one in self.tokens], pa.list_(pa.int32()))
        return pa.table({"tokens": tokens, "label": self.labels, "text": self.texts})

    def arrays(self) -> dict[str, Any]:
        """The streams as arrays of rows, and where the tokens of each sequence begin."""
        return {
            "label": np.array(self.labels, np.int64),
            "text": self.texts,
            "x/tokens": np.concatenate([np.empty(0, np.int32), *self.tokens]),
            "x/tokens_offsets": np.cumsum([0, *map(len, self.tokens)]),
        }


def varied(count: int = 40) -> Corpus:
    return Corpus.of_lengths([1 + 7 * n % 9 for n in range(count)])


def named(tokens: sh.StreamDef, **others: sh.StreamDef) -> sh.StreamDefs:
    return sh.StreamDefs(tokens=tokens, **others)


LABEL = sh.StreamDef(dtype="int64")
TOKENS = named(sh.StreamDef(dtype="int32"))
ALL = named(sh.StreamDef(dtype="int32", defines_mb_size=True), label=LABEL, text=sh.StreamDef())
TEXT = named(sh.StreamDef(field="text"))
TAR_STREAMS = named(
    sh.StreamDef(field="tokens.npy", dtype="int32", defines_mb_size=True),
    label=sh.StreamDef(field="cls", dtype="int64"),
    text=sh.StreamDef(field="txt"),
)
BARE_STREAMS = named(
    sh.StreamDef(field="x/tokens", dtype="int32", defines_mb_size=True), label=LABEL
)
ARRAY_STREAMS = sh.StreamDefs({**BARE_STREAMS, "text": sh.StreamDef()})
CTF_STREAMS = sh.StreamDefs(
    label=sh.StreamDef(field="L", shape=1, dtype="int64"),
    tokens=sh.StreamDef(field="T", shape=1, dtype="int32", defines_mb_size=True),
)

Make = Callable[[Path, Corpus], sh.Deserializer]
Write = Callable[[Path, Corpus], object]
OPEN: dict[Make, Callable[[Any], sh.Deserializer]] = {}
"""The formats that lie in files: how to open a folder of them, or its URL."""
OPEN_FILES: dict[Make, tuple[str, Callable[..., sh.Deserializer]]] = {}
"""Of those that a pattern finds: the pattern, and what opens files."""


def opened_by(opener: Callable[..., Any], pattern: str = "") -> Callable[[Write], Make]:
    """Have a function that writes a corpus return what is opened of it."""

    def register(write: Write) -> Make:
        def make(folder: Path, corpus: Corpus) -> sh.Deserializer:
            write(folder, corpus)
            return OPEN[make](folder)

        make.__name__ = write.__name__
        OPEN[make] = lambda at: opener(f"{at}/{pattern}" if pattern else at)
        if pattern:
            OPEN_FILES[make] = pattern, opener
        return make

    return register


def packed(make: Make, name: str, pack: Callable[[], Callable[[bytes], bytes]]) -> Make:
    """The same, compressed: members or frames of some lines each, the last may go on."""
    pattern, opener = OPEN_FILES[make]

    def write(folder: Path, corpus: Corpus) -> None:
        compress = pack()
        make(folder, corpus)
        for path in folder.glob(pattern):
            text = path.read_bytes()
            ends = [*range(0, len(text), 150), len(text)]
            content = b"".join(compress(text[begin:end]) for begin, end in pairwise(ends))
            (folder / f"{path.name}.packed").write_bytes(content)
            path.unlink()

    write.__name__ = name
    return opened_by(opener, "*.packed")(write)


def gzipped() -> Callable[[bytes], bytes]:
    return partial(gzip.compress, mtime=0)


def in_zstd() -> Callable[[bytes], bytes]:
    compressor: Any = pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True)
    return compressor.compress  # type: ignore[no-any-return]


# In memory


def arrays(folder: Path, corpus: Corpus) -> sh.Deserializer:
    data = {"tokens": corpus.tokens, "label": np.array(corpus.labels), "text": corpus.texts}
    return sh.ArrayDeserializer(data, ALL)


def map_items(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return sh.MapDeserializer(corpus.rows, ALL, lengths=list(map(len, corpus.tokens)))


def arrow_table(folder: Path, corpus: Corpus) -> sh.Deserializer:
    batches = corpus.table().to_batches(max_chunksize=3)
    return sh.ArrowDeserializer(pytest.importorskip("pyarrow").Table.from_batches(batches), ALL)


def dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """A Hugging Face dataset whose rows an indices mapping puts in order."""
    datasets = pytest.importorskip("datasets")
    order = np.random.default_rng(1).permutation(len(corpus.tokens))
    table = corpus.table().take(np.argsort(order))
    return sh.ArrowDeserializer(datasets.Dataset(table).select(order), ALL)


# Bare numbers


@opened_by(partial(sh.MegatronDeserializer, streams=TOKENS), "part-*")
def megatron(folder: Path, corpus: Corpus) -> None:
    for number, part in enumerate(corpus.parts(3)):
        write_megatron(folder / f"part-{number}", part.tokens)


@opened_by(
    partial(sh.RawTokensDeserializer, dtype="uint16", sequence_length=5, streams=TOKENS),
    "*.bin",
)
def raw_tokens(folder: Path, corpus: Corpus) -> None:
    """Only for sequences of 5 tokens, and a shorter one at the end of each of two files."""
    for number, part in enumerate(corpus.parts(2)):
        part.arrays()["x/tokens"].astype("<u2").tofile(folder / f"part-{number}.bin")


@opened_by(
    partial(sh.RawTokensDeserializer, dtype="uint16", streams=TOKENS, offsets=".index"),
    "*.ds",
)
def datatrove(folder: Path, corpus: Corpus) -> None:
    """Tokens, and where every document ends in them, as datatrove's tokenizer writes both."""
    for number, part in enumerate(corpus.parts(3)):
        own = part.arrays()
        own["x/tokens"].astype("<u2").tofile(folder / f"part-{number}.ds")
        own["x/tokens_offsets"][1:].astype("<u8").tofile(folder / f"part-{number}.ds.index")


@opened_by(
    lambda at: sh.NpyDeserializer({"tokens": (f"{at}/tokens.npy", f"{at}/offsets.npy")}, TOKENS)
)
def npy(folder: Path, corpus: Corpus) -> None:
    np.save(folder / "tokens.npy", np.concatenate(corpus.tokens))
    np.save(folder / "offsets.npy", corpus.arrays()["x/tokens_offsets"])


# Lines


@opened_by(partial(sh.JSONLDeserializer, streams=ALL), "*.jsonl")
def jsonl(folder: Path, corpus: Corpus) -> None:
    for number, part in enumerate(corpus.parts(3)):
        write_jsonl(folder / f"part-{number}.jsonl", part)


def write_jsonl(path: Path, corpus: Corpus) -> None:
    lines = [json.dumps({**row, "tokens": row["tokens"].tolist()}) for row in corpus.rows]
    path.write_text("".join(line + "\n" for line in lines))


@opened_by(partial(sh.CTFDeserializer, streams=CTF_STREAMS), "*.ctf")
def ctf(folder: Path, corpus: Corpus) -> None:
    """CNTK's text has numbers only, and a label is a line of its own stream."""
    for number, part in enumerate(corpus.parts(3)):
        texts = [
            sh.sequence_to_cntk_text_format(
                row["label"] - 100, {"T": row["tokens"][:, None], "L": [[row["label"]]]}
            )
            for row in part.rows
        ]
        (folder / f"part-{number}.ctf").write_text("".join(f"{text}\n" for text in texts))


def _upload_ctf(folder: Path) -> sh.Deserializer:
    store = pytest.importorskip("fsspec").filesystem("memory")
    if store.exists(str(folder)):
        store.rm(str(folder), recursive=True)
    for path in folder.glob("*.ctf"):
        if path.is_file():
            store.pipe(str(path), path.read_bytes())
    url = f"memory:/{folder}/*.ctf"
    return sh.CTFDeserializer(url, CTF_STREAMS, chunk_size_in_bytes=300)


@opened_by(_upload_ctf)
def ctf_in_store(folder: Path, corpus: Corpus) -> None:
    """The same files as objects of a store in memory, under the path of the folder."""
    ctf(folder, corpus)


@opened_by(partial(sh.TextDeserializer, streams=TEXT), "*.txt")
def text_lines(folder: Path, corpus: Corpus) -> None:
    """Only for sequences of one token: a line is one sample, and its bytes are the digits."""
    for number, part in enumerate(corpus.parts(3)):
        lines = [f"{token}\r\n" if token % 2 else f"{token}\n" for (token,) in part.tokens]
        (folder / f"part-{number}.txt").write_bytes("".join(lines).encode())


@opened_by(partial(sh.CSVDeserializer, streams=ALL), "*.csv")
def csv_rows(folder: Path, corpus: Corpus) -> None:
    """Only for sequences of one token: a row is one sample in every column."""
    for number, part in enumerate(corpus.parts(3)):
        lines = [f'{row["tokens"][0]},{row["label"]},"{row["text"]}"\n' for row in part.rows]
        text = "".join(["tokens,label,text\n", *lines])
        (folder / f"part-{number}.csv").write_bytes(text.encode())


# Records


def write_tfrecords(folder: Path, corpus: Corpus, **options: Any) -> None:
    for number, part in enumerate(corpus.parts(3)):
        sh.tfrecord.write(folder / f"part-{number}.tfrecord", part.rows, **options)


by_records = opened_by(partial(sh.TFRecordDeserializer, streams=ALL), "*.tfrecord")


@by_records
def tfrecords(folder: Path, corpus: Corpus) -> None:
    write_tfrecords(folder, corpus)


@by_records
def tfrecords_in_gzip(folder: Path, corpus: Corpus) -> None:
    write_tfrecords(folder, corpus, compression="gzip")


@by_records
def tfrecords_in_zlib(folder: Path, corpus: Corpus) -> None:
    write_tfrecords(folder, corpus, compression="zlib")


@by_records
def sequence_examples(folder: Path, corpus: Corpus) -> None:
    for number, part in enumerate(corpus.parts(3)):
        examples = [
            sh.tfrecord.encode_sequence_example(row, {"tokens": row.pop("tokens")})
            for row in part.rows
        ]
        sh.tfrecord.write(folder / f"part-{number}.tfrecord", examples)


@opened_by(partial(sh.ArrayRecordDeserializer, streams=ALL), "*.array_record")
def array_records(folder: Path, corpus: Corpus) -> None:
    for number, part in enumerate(corpus.parts(3)):
        records = list(map(sh.tfrecord.encode_example, part.rows))
        write_array_record(folder / f"part-{number}.array_record", records, "group_size:2")


@opened_by(partial(sh.WebDatasetDeserializer, streams=TAR_STREAMS), "*.tar")
def webdataset(folder: Path, corpus: Corpus) -> None:
    for number, part in enumerate(corpus.parts(3)):
        members = []
        for place, row in enumerate(part.rows):
            key = f"shard/{number}-{place:04d}"
            members += [
                (f"{key}.cls", f"{row['label']}".encode()),
                (f"{key}.Tokens.npy", npy_bytes(row["tokens"])),
                (f"{key}.txt", row["text"].encode()),
            ]
        write_tar(folder / f"part-{number}.tar", members)


def _mds(folder: Path, corpus: Corpus, pack: Any = None) -> None:
    columns = {
        "label": ("int", 8), "text": ("str", None), "tokens": ("ndarray:int32", None),
    }  # fmt: skip
    shards = [
        [
            {
                "label": struct.pack("<q", row["label"]),
                "text": row["text"].encode(),
                "tokens": bytes([4, len(row["tokens"])]) + row["tokens"].tobytes(),
            }
            for row in part.rows
        ]
        for part in corpus.parts(3)
    ]
    write_mds(folder, columns, shards, pack)


@opened_by(partial(sh.MDSDeserializer, streams=ALL))
def mds(folder: Path, corpus: Corpus) -> None:
    _mds(folder, corpus)


@opened_by(partial(sh.MDSDeserializer, streams=ALL))
def mds_in_zstd(folder: Path, corpus: Corpus) -> None:
    _mds(folder, corpus, ("zstd:7", "zstd", in_zstd()))


# Tables


@opened_by(partial(sh.ParquetDeserializer, streams=ALL), "*.parquet")
def parquet(folder: Path, corpus: Corpus) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    for name, part in zip("ab", corpus.parts(2), strict=True):
        pq.write_table(part.table(), folder / f"{name}.parquet", row_group_size=3)


@opened_by(lambda at: sh.ArrowDeserializer([f"{at}/a.arrow", f"{at}/b.arrow"], ALL))
def arrow_files(folder: Path, corpus: Corpus) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    one, other = (part.table() for part in corpus.parts(2))
    with ipc.new_stream(folder / "a.arrow", one.schema) as writer:
        writer.write_table(one, max_chunksize=3)
    with ipc.new_file(folder / "b.arrow", one.schema) as writer:
        writer.write_table(other, max_chunksize=3)


def saved_dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset(corpus.table()).save_to_disk(str(folder / "saved"), num_shards=3)
    return sh.ArrowDeserializer(folder / "saved", ALL)


def lance_dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Three fragments, the last of which comes by a version of its own."""
    lance = pytest.importorskip("lance")
    path, (one, other) = str(folder / "train.lance"), corpus.parts(2)
    lance.write_dataset(one.table(), path, max_rows_per_file=-(-len(one.tokens) // 2))
    lance.write_dataset(other.table(), path, mode="append")
    return sh.LanceDeserializer(path, ALL)


# Speech


def htk_bytes(frames: Any, kind: int = 9, order: str = ">", period: int = 100_000) -> bytes:
    """Frames, shape (frames, values), as HTK stores them; 0o10000 adds a checksum."""
    frames = np.asarray(frames, f"{order}f4")
    header = struct.pack(f"{order}IIHH", len(frames), period, 4 * frames.shape[1], kind)
    return header + frames.tobytes() + bytes(2 if kind & 0o10000 else 0)


@opened_by(lambda at: sh.HTKFeatureDeserializer({"tokens": sh.io.StreamDef(scp=at)}), "*.scp")
def htk(folder: Path, corpus: Corpus) -> None:
    """A file for each utterance, in two lists."""
    for number, part in enumerate(corpus.parts(2)):
        names = [f"u{part.first + place:04}.mfc" for place in range(len(part.tokens))]
        for name, tokens in zip(names, part.tokens, strict=True):
            (folder / name).write_bytes(htk_bytes(tokens[:, None]))
        (folder / f"{number}.scp").write_text("".join(f"{name}\n" for name in names))


def htk_archives(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Archives that utterances take turns in, as a list says."""
    lines = []
    for archive in range(3):
        own = corpus.tokens[archive::3]
        content = htk_bytes(np.concatenate(own)[:, None], 9 | 0o10000, "<")
        (folder / f"{archive}.chunk").write_bytes(content)
        ends = np.cumsum([0, *map(len, own)]).tolist()
        lines.append([f"{archive}.chunk[{a},{b - 1}]" for a, b in pairwise(ends)])
    text = [f"u/{n}.mfc={lines[n % 3][n // 3]}\n" for n in range(len(corpus.tokens))]
    (folder / "train.scp").write_text("".join(text))
    return open_archives(folder)


def open_archives(at: Any) -> sh.Deserializer:
    streams = {"tokens": sh.io.StreamDef(scp=f"{at}/train.scp", shape=1, dtype="int32")}
    return sh.HTKFeatureDeserializer(streams)


@opened_by(
    lambda at: sh.HTKMLFDeserializer(None, {"tokens": sh.io.StreamDef(mlf=at, dtype="int32")}),
    "*.mlf",
)
def mlf(folder: Path, corpus: Corpus) -> None:
    """Labels whose classes are the tokens, each of a frame, in 100 ns."""
    for number, part in enumerate(corpus.parts(3)):
        lines = ["#!MLF!#"]
        for place, tokens in enumerate(part.tokens, part.first):
            lines.append(f'"*/u/{place}.lab"')
            for frame, token in enumerate(tokens.tolist()):
                lines.append(f"{frame}00000 {frame + 1}00000 s{token} {token}")
            lines.append(".")
        (folder / f"part-{number}.mlf").write_text("".join(f"{line}\n" for line in lines))


# Arrays in files


@opened_by(partial(sh.HDF5Deserializer, streams=ARRAY_STREAMS), "*.h5")
def hdf5(folder: Path, corpus: Corpus) -> None:
    """Compressed chunks with checksums, and texts."""
    h5py = pytest.importorskip("h5py")
    filters = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    for number, part in enumerate(corpus.parts(3)):
        own = part.arrays()
        with h5py.File(folder / f"part-{number}.h5", "w", libver="latest") as file:
            tokens, texts = own.pop("x/tokens"), own.pop("text")
            file.create_dataset(
                "x/tokens", data=tokens, chunks=(16,), maxshape=(None,), **filters
            )
            stored = file.create_dataset("text", len(texts), h5py.vlen_dtype("u1"))
            for row, text in enumerate(texts):  # of its own texts a zero is the end
                stored[row] = np.frombuffer(text.encode(), "u1")
            for name, values in own.items():
                file[name] = values


@opened_by(partial(sh.HDF5Deserializer, streams=BARE_STREAMS), "*.h5")
def hdf5_in_place(folder: Path, corpus: Corpus) -> None:
    """Bare numbers in one run."""
    h5py = pytest.importorskip("h5py")
    for number, part in enumerate(corpus.parts(3)):
        own = part.arrays()
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            for name in ("x/tokens", "label", "x/tokens_offsets"):
                file[name] = own[name]


@opened_by(
    partial(sh.HDF5Deserializer, streams={"tokens": sh.StreamDef(field="t", dtype="int32")}),
    "*.h5",
)
def hdf5_in_vlen(folder: Path, corpus: Corpus) -> None:
    """Rows of any length."""
    h5py = pytest.importorskip("h5py")
    for number, part in enumerate(corpus.parts(3)):
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            tokens = file.create_dataset("t", len(part.tokens), h5py.vlen_dtype("i4"))
            for row, one in enumerate(part.tokens):
                tokens[row] = one


@opened_by(partial(sh.ZarrDeserializer, streams=ARRAY_STREAMS), "*.zarr")
def zarr(folder: Path, corpus: Corpus) -> None:
    """Arrays in compressed chunks and shards, with checksums, and texts."""
    library = pytest.importorskip("zarr")
    codecs = [library.codecs.ZstdCodec(checksum=True), library.codecs.Crc32cCodec()]
    for number, part in enumerate(corpus.parts(3)):
        group = library.open_group(folder / f"part-{number}.zarr", mode="w")
        for name, values in part.arrays().items():
            if name == "text":
                texts = group.create_array(name, shape=len(values), dtype=str)
                texts[:] = np.array(values, texts.dtype)
                continue
            shards = (16,) if name == "x/tokens" and len(values) else None
            group.create_array(
                name, data=values, chunks=(8,), shards=shards, compressors=codecs
            )


jsonl_in_gzip = packed(jsonl, "jsonl_in_gzip", gzipped)
jsonl_in_zstd = packed(jsonl, "jsonl_in_zstd", in_zstd)
ctf_in_gzip = packed(ctf, "ctf_in_gzip", gzipped)
ctf_in_zstd = packed(ctf, "ctf_in_zstd", in_zstd)
webdataset_in_gzip = packed(webdataset, "webdataset_in_gzip", gzipped)
text_in_gzip = packed(text_lines, "text_in_gzip", gzipped)

EVERY_FORMAT: list[Make] = [
    *OPEN,
    *(arrow_table, dataset, saved_dataset, map_items, lance_dataset),
    htk_archives,
]

ONE_EACH: tuple[Make, ...] = (text_lines, text_in_gzip, csv_rows)
"""Formats whose sequences are one sample each."""


def corpus_for(make: Make) -> Corpus:
    """The corpus that a format is tried with: what it can hold."""
    if make is raw_tokens:
        return Corpus.of_lengths([5] * 9 + [3] + [5] * 9 + [1])
    return Corpus.of_lengths([1] * 40) if make in ONE_EACH else varied()
