"""One small corpus written in every format that Python reads, and how to open each."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ext.formats.cntk_files import cbf_bytes, htk_bytes

import sweephand as sh

TOKENS = sh.StreamDefs(tokens=sh.StreamDef(dtype="int32"))
TEXT = sh.StreamDefs(tokens=sh.StreamDef(field="text"))
ALL = sh.StreamDefs(
    tokens=sh.StreamDef(dtype="int32", defines_mb_size=True),
    label=sh.StreamDef(dtype="int64"),
    text=sh.StreamDef(),
)


@dataclass(frozen=True)
class Corpus:
    """Sequences of tokens; every one also has a label and a text that tell its number."""

    tokens: list[NDArray[np.int32]]

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], seed: int = 0) -> Corpus:
        random = np.random.default_rng(seed)
        return cls([random.integers(0, 60000, n, dtype=np.int32) for n in lengths])

    @property
    def labels(self) -> list[int]:
        return [100 + number for number in range(len(self.tokens))]

    @property
    def texts(self) -> list[str]:
        return [f"é{number}\0" for number in range(len(self.tokens))]

    def parts(self, count: int) -> list[Corpus]:
        """The same in runs of nearly equal length."""
        return [Corpus(list(part)) for part in _split(self.tokens, count)]


def _split(items: list[Any], count: int) -> list[list[Any]]:
    ends = [len(items) * i // count for i in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(ends)]


def varied(count: int = 40) -> Corpus:
    return Corpus.of_lengths([1 + 7 * n % 9 for n in range(count)])


# Writing


def write_megatron(
    prefix: Path,
    tokens: Sequence[NDArray[Any]],
    bounds: Sequence[int] | None = None,
    dtype: str = "u2",
    modes: bool = False,
) -> None:
    """A ``.bin`` and an ``.idx`` file, as Megatron's own writer lays them out."""
    code = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u2": 8}[dtype]
    lengths = np.array([len(one) for one in tokens], "<i4")
    item = np.dtype(dtype).itemsize
    offsets = np.concatenate([[0], np.cumsum(lengths.astype("<i8"))])[:-1] * item
    if bounds is None:
        bounds = range(len(lengths) + 1)
    content = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(bounds))
    content += lengths.tobytes() + offsets.astype("<i8").tobytes()
    content += np.array(bounds, "<i8").tobytes() + bytes(len(lengths) if modes else 0)
    prefix.with_suffix(".idx").write_bytes(content)
    prefix.with_suffix(".bin").write_bytes(
        b"".join(one.astype(f"<{dtype}").tobytes() for one in tokens)
    )


def write_jsonl(path: Path, corpus: Corpus) -> None:
    rows = zip(corpus.tokens, corpus.labels, corpus.texts, strict=True)
    lines = [
        json.dumps({"tokens": tokens.tolist(), "label": label, "text": text})
        for tokens, label, text in rows
    ]
    path.write_text("".join(line + "\n" for line in lines))


def to_table(corpus: Corpus, first: int = 0) -> Any:
    import pyarrow as pa

    count = len(corpus.tokens)
    return pa.table(
        {
            "tokens": pa.array([one.tolist() for one in corpus.tokens], pa.list_(pa.int32())),
            "label": np.arange(100 + first, 100 + first + count),
            "text": [f"é{first + number}\0" for number in range(count)],
        }
    )


# OpenContext: a folder and a corpus to a deserializer


def arrays(folder: Path, corpus: Corpus) -> sh.Deserializer:
    data: dict[str, object] = {
        "tokens": corpus.tokens,
        "label": np.array(corpus.labels),
        "text": corpus.texts,
    }
    return sh.ArrayDeserializer(data, ALL)


def megatron(folder: Path, corpus: Corpus) -> sh.Deserializer:
    for number, part in enumerate(corpus.parts(3)):
        write_megatron(folder / f"part-{number}", part.tokens)
    return OPEN[megatron](folder)


def raw_tokens(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Only for sequences of 5 tokens, and a shorter one at the end of each of two files."""
    for number, part in enumerate(corpus.parts(2)):
        tokens = np.concatenate([np.empty(0, np.uint16), *part.tokens])
        tokens.astype(np.uint16).tofile(folder / f"part-{number}.bin")
    return OPEN[raw_tokens](folder)


def datatrove(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Tokens, and where every document ends in them, as datatrove's tokenizer writes both."""
    for number, part in enumerate(corpus.parts(3)):
        tokens = np.concatenate([np.empty(0, np.uint16), *part.tokens])
        tokens.astype("<u2").tofile(folder / f"part-{number}.ds")
        ends = np.cumsum([len(one) for one in part.tokens])
        ends.astype("<u8").tofile(folder / f"part-{number}.ds.index")
    return OPEN[datatrove](folder)


def jsonl(folder: Path, corpus: Corpus) -> sh.Deserializer:
    path = folder / "all.jsonl"
    write_jsonl(path, corpus)
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    for number, part in enumerate(_split(lines, 3)):
        (folder / f"part-{number}.jsonl").write_bytes(b"".join(part))
    return OPEN[jsonl](folder)


def _pack(folder: Path, pattern: str, pack: Callable[[bytes], bytes]) -> None:
    """Members or frames of some lines each, the last of which may go on in the next one."""
    for path in folder.glob(pattern):
        text = path.read_bytes()
        ends = [*range(0, len(text), 150), len(text)]
        packed = b"".join(pack(text[begin:end]) for begin, end in pairwise(ends))
        (folder / f"{path.name}.packed").write_bytes(packed)
        path.unlink()


def jsonl_in_gzip(folder: Path, corpus: Corpus) -> sh.Deserializer:
    jsonl(folder, corpus)
    _pack(folder, "*.jsonl", partial(gzip.compress, mtime=0))
    return OPEN[jsonl_in_gzip](folder)


def jsonl_in_zstd(folder: Path, corpus: Corpus) -> sh.Deserializer:
    zstandard = pytest.importorskip("zstandard")
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    jsonl(folder, corpus)
    _pack(folder, "*.jsonl", compressor.compress)
    return OPEN[jsonl_in_zstd](folder)


def _tfrecord(folder: Path, corpus: Corpus, **options: Any) -> sh.Deserializer:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        examples = [{"tokens": t, "label": label, "text": text} for t, label, text in part]
        sh.tfrecord.write(folder / f"part-{number}.tfrecord", examples, **options)
    return OPEN[tfrecords](folder)


def tfrecords(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return _tfrecord(folder, corpus)


def tfrecords_in_gzip(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return _tfrecord(folder, corpus, compression="gzip")


def tfrecords_in_zlib(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return _tfrecord(folder, corpus, compression="zlib")


def sequence_examples(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        examples = [
            sh.tfrecord.encode_sequence_example({"label": label, "text": text}, {"tokens": t})
            for t, label, text in part
        ]
        sh.tfrecord.write(folder / f"part-{number}.tfrecord", examples)
    return OPEN[sequence_examples](folder)


def write_array_record(
    path: Path, records: Sequence[bytes], options: str = "group_size:1"
) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()


def array_records(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        records = [
            sh.tfrecord.encode_example({"tokens": t, "label": label, "text": text})
            for t, label, text in part
        ]
        write_array_record(folder / f"part-{number}.array_record", records, "group_size:2")
    return OPEN[array_records](folder)


def array_records_of_json(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        records = [
            json.dumps({"tokens": t.tolist(), "label": label, "text": text}, indent=1).encode()
            for t, label, text in part
        ]
        write_array_record(folder / f"part-{number}.array_record", records)
    return OPEN[array_records_of_json](folder)


def parquet(folder: Path, corpus: Corpus) -> sh.Deserializer:
    pq = pytest.importorskip("pyarrow.parquet")
    table = to_table(corpus)
    middle = len(corpus.tokens) // 2
    pq.write_table(table.slice(0, middle), folder / "a.parquet", row_group_size=3)
    pq.write_table(table.slice(middle), folder / "b.parquet", row_group_size=3)
    return OPEN[parquet](folder)


def lance_dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Three fragments, the last of which comes by a version of its own."""
    lance = pytest.importorskip("lance")
    table = to_table(corpus)
    middle = len(corpus.tokens) // 2
    path = str(folder / "train.lance")
    lance.write_dataset(table.slice(0, middle), path, max_rows_per_file=-(-middle // 2))
    lance.write_dataset(table.slice(middle), path, mode="append")
    return sh.LanceDeserializer(path, ALL)


def arrow_files(folder: Path, corpus: Corpus) -> sh.Deserializer:
    ipc = pytest.importorskip("pyarrow.ipc")
    table = to_table(corpus)
    middle = len(corpus.tokens) // 2
    with ipc.new_stream(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table.slice(0, middle), max_chunksize=3)
    with ipc.new_file(folder / "b.arrow", table.schema) as writer:
        writer.write_table(table.slice(middle), max_chunksize=3)
    return OPEN[arrow_files](folder)


def arrow_table(folder: Path, corpus: Corpus) -> sh.Deserializer:
    pa = pytest.importorskip("pyarrow")
    batches = to_table(corpus).to_batches(max_chunksize=3)
    return sh.ArrowDeserializer(pa.Table.from_batches(batches), ALL)


def dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """A Hugging Face dataset whose rows an indices mapping puts in order."""
    datasets = pytest.importorskip("datasets")
    count = len(corpus.tokens)
    order = np.random.default_rng(1).permutation(count)
    table = to_table(corpus).take(np.argsort(order))
    return sh.ArrowDeserializer(datasets.Dataset(table).select(order), ALL)


def saved_dataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset(to_table(corpus)).save_to_disk(str(folder / "saved"), num_shards=3)
    return sh.ArrowDeserializer(folder / "saved", ALL)


def ctf(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """CNTK's text has numbers only, and a label is a line of its own stream."""
    texts = [
        sh.sequence_to_cntk_text_format(number, {"T": tokens[:, None], "L": [[label]]})
        for number, (tokens, label) in enumerate(zip(corpus.tokens, corpus.labels, strict=True))
    ]
    for number, part in enumerate(_split(texts, 3)):
        (folder / f"part-{number}.ctf").write_text("".join(f"{text}\n" for text in part))
    return OPEN[ctf](folder)


def ctf_in_gzip(folder: Path, corpus: Corpus) -> sh.Deserializer:
    ctf(folder, corpus)
    _pack(folder, "*.ctf", partial(gzip.compress, mtime=0))
    return OPEN[ctf_in_gzip](folder)


def ctf_in_zstd(folder: Path, corpus: Corpus) -> sh.Deserializer:
    zstandard = pytest.importorskip("zstandard")
    ctf(folder, corpus)
    _pack(folder, "*.ctf", zstandard.ZstdCompressor(write_checksum=True).compress)
    return OPEN[ctf_in_zstd](folder)


def ctf_in_store(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """The same files as objects of a store in memory, under the path of the folder."""
    ctf(folder, corpus)
    return OPEN[ctf_in_store](folder)


def npy(folder: Path, corpus: Corpus) -> sh.Deserializer:
    offsets = np.cumsum([0, *map(len, corpus.tokens)])
    np.save(folder / "tokens.npy", np.concatenate(corpus.tokens))
    np.save(folder / "offsets.npy", offsets)
    return OPEN[npy](folder)


def map_items(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = zip(corpus.tokens, corpus.labels, corpus.texts, strict=True)
    items = [{"tokens": t, "label": label, "text": text} for t, label, text in rows]
    return sh.MapDeserializer(items, ALL, lengths=[len(one) for one in corpus.tokens])


def write_tar(path: Path, members: Sequence[tuple[str, bytes]], **options: Any) -> None:
    with tarfile.open(path, "w", **options) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        end = archive.offset + 2 * tarfile.BLOCKSIZE
    os.truncate(path, end)  # without what fills a block of a tape


def npy_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def webdataset(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        members = []
        for row, (tokens, label, text) in enumerate(part):
            key = f"shard/{number}-{row:04d}"
            members += [
                (f"{key}.cls", f"{label}".encode()),
                (f"{key}.Tokens.npy", npy_bytes(tokens)),
                (f"{key}.txt", text.encode()),
            ]
        write_tar(folder / f"part-{number}.tar", members)
    return OPEN[webdataset](folder)


def webdataset_in_gzip(folder: Path, corpus: Corpus) -> sh.Deserializer:
    webdataset(folder, corpus)
    _pack(folder, "*.tar", partial(gzip.compress, mtime=0))
    return OPEN[webdataset_in_gzip](folder)


def write_mds(
    folder: Path,
    columns: dict[str, tuple[str, int | None]],
    shards: Sequence[Sequence[dict[str, bytes]]],
    pack: tuple[str, str, Callable[[bytes], bytes]] | None = None,
) -> None:
    """Shards as MosaicML's writer lays them out; of every column its encoding and size."""
    told = []
    names = sorted(columns)
    for number, samples in enumerate(shards):
        name = f"shard.{number:05}.mds"
        described = json.dumps({"column_names": names}).encode()
        bodies = []
        for sample in samples:
            words = [len(sample[one]) for one in names if columns[one][1] is None]
            values = [sample[one] for one in names]
            bodies.append(struct.pack(f"<{len(words)}I", *words) + b"".join(values))
        begin = 4 * (len(samples) + 2) + len(described)
        ends = np.cumsum([begin, *map(len, bodies)]).astype("<u4").tobytes()
        content = struct.pack("<I", len(samples)) + ends + described + b"".join(bodies)
        shard: dict[str, Any] = {
            "format": "mds",
            "version": 2,
            "column_names": names,
            "column_encodings": [columns[one][0] for one in names],
            "column_sizes": [columns[one][1] for one in names],
            "samples": len(samples),
            "raw_data": {"basename": name, "bytes": len(content), "hashes": {}},
            "zip_data": None,
            "compression": None,
        }
        if pack is not None:
            algorithm, suffix, compress = pack
            content = compress(content)
            name = f"{name}.{suffix}"
            shard["compression"] = algorithm
            shard["zip_data"] = {"basename": name, "bytes": len(content), "hashes": {}}
        (folder / name).write_bytes(content)
        told.append(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": told}))


def _mds(folder: Path, corpus: Corpus, pack: Any = None) -> None:
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    columns: dict[str, tuple[str, int | None]] = {
        "label": ("int", 8),
        "text": ("str", None),
        "tokens": ("ndarray:int32", None),
    }
    shards = [
        [
            {
                "label": struct.pack("<q", label),
                "text": text.encode(),
                "tokens": bytes([4, len(tokens)]) + tokens.astype("<i4").tobytes(),
            }
            for tokens, label, text in part
        ]
        for part in _split(rows, 3)
    ]
    write_mds(folder, columns, shards, pack)


def mds(folder: Path, corpus: Corpus) -> sh.Deserializer:
    _mds(folder, corpus)
    return OPEN[mds](folder)


def mds_in_zstd(folder: Path, corpus: Corpus) -> sh.Deserializer:
    zstandard = pytest.importorskip("zstandard")
    compress = zstandard.ZstdCompressor(write_checksum=True).compress
    _mds(folder, corpus, ("zstd:7", "zstd", compress))
    return OPEN[mds_in_zstd](folder)


def text_lines(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Only for sequences of one token: a line is one sample, and its bytes are the digits."""
    for number, part in enumerate(corpus.parts(3)):
        lines = [f"{token}\r\n" if token % 2 else f"{token}\n" for (token,) in part.tokens]
        (folder / f"part-{number}.txt").write_bytes("".join(lines).encode())
    return OPEN[text_lines](folder)


def text_in_gzip(folder: Path, corpus: Corpus) -> sh.Deserializer:
    text_lines(folder, corpus)
    _pack(folder, "*.txt", partial(gzip.compress, mtime=0))
    return OPEN[text_in_gzip](folder)


def csv_rows(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Only for sequences of one token: a row is one sample in every column."""
    rows = list(zip(corpus.tokens, corpus.labels, corpus.texts, strict=True))
    for number, part in enumerate(_split(rows, 3)):
        lines = [f'{tokens[0]},{label},"{text}"\n' for tokens, label, text in part]
        text = "".join(["tokens,label,text\n", *lines])
        (folder / f"part-{number}.csv").write_bytes(text.encode())
    return OPEN[csv_rows](folder)


def htk(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """A file for each utterance, without a list."""
    for number, tokens in enumerate(corpus.tokens):
        (folder / f"u{number:04}.mfc").write_bytes(htk_bytes(tokens[:, None]))
    return OPEN[htk](folder)


def _htk_archives(folder: Path, corpus: Corpus, *form: Any) -> sh.Deserializer:
    """Archives that utterances take turns in, as a list says."""
    lines = []
    for archive in range(3):
        own = corpus.tokens[archive::3]
        content = htk_bytes(np.concatenate(own)[:, None], *form)
        (folder / f"{archive}.chunk").write_bytes(content)
        ends = np.cumsum([0, *map(len, own)]).tolist()
        lines.append([f"{archive}.chunk[{a},{b - 1}]" for a, b in pairwise(ends)])
    text = [f"u/{n}.mfc={lines[n % 3][n // 3]}\n" for n in range(len(corpus.tokens))]
    (folder / "train.scp").write_text("".join(text))
    streams = {"tokens": sh.io.StreamDef(scp=folder / "train.scp", shape=1, dtype="int32")}
    return sh.HTKFeatureDeserializer(streams)


def htk_archives(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return _htk_archives(folder, corpus)


def htk_compressed(folder: Path, corpus: Corpus) -> sh.Deserializer:
    return _htk_archives(folder, corpus, 9 | 0o12000, "<")


def mlf(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Labels whose classes are the tokens, each of a frame, in 100 ns."""
    numbered = list(enumerate(corpus.tokens))
    for number, part in enumerate(_split(numbered, 3)):
        lines = ["#!MLF!#"]
        for name, tokens in part:
            lines.append(f'"*/u/{name}.lab"')
            for frame, token in enumerate(tokens.tolist()):
                lines.append(f"{frame}00000 {frame + 1}00000 s{token} {token}")
            lines.append(".")
        (folder / f"part-{number}.mlf").write_text("".join(f"{line}\n" for line in lines))
    return OPEN[mlf](folder)


def cbf(folder: Path, corpus: Corpus) -> sh.Deserializer:
    rows = [
        {"label": [[label]], "tokens": tokens[:, None].tolist()}
        for tokens, label in zip(corpus.tokens, corpus.labels, strict=True)
    ]
    streams = {"label": (False, "f", 1), "tokens": (False, "d", 1)}
    for number, part in enumerate(_split(rows, 2)):
        chunks = [part[at : at + 3] for at in range(0, len(part), 3)]
        (folder / f"part-{number}.cbf").write_bytes(cbf_bytes(streams, chunks))
    return OPEN[cbf](folder)


def arrays_of(corpus: Corpus, first: int = 0) -> dict[str, Any]:
    """The streams as arrays of rows, and where the tokens of each sequence begin."""
    texts = [f"é{first + number}\0" for number in range(len(corpus.tokens))]
    return {
        "label": np.arange(100 + first, 100 + first + len(corpus.tokens)),
        "text": texts,
        "x/tokens": np.concatenate([np.empty(0, np.int32), *corpus.tokens]),
        "x/tokens_offsets": np.cumsum([0, *map(len, corpus.tokens)]),
    }


def _parts(corpus: Corpus) -> list[dict[str, Any]]:
    parts = corpus.parts(3)
    firsts = np.cumsum([0, *(len(part.tokens) for part in parts)]).tolist()
    return [arrays_of(part, first) for part, first in zip(parts, firsts[:-1], strict=True)]


def hdf5(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Compressed chunks with checksums, and texts."""
    h5py = pytest.importorskip("h5py")
    filters = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    for number, part in enumerate(_parts(corpus)):
        with h5py.File(folder / f"part-{number}.h5", "w", libver="latest") as file:
            tokens = part.pop("x/tokens")
            file.create_dataset(
                "x/tokens", data=tokens, chunks=(16,), maxshape=(None,), **filters
            )
            texts = part.pop("text")
            stored = file.create_dataset("text", len(texts), h5py.vlen_dtype("u1"))
            for row, text in enumerate(texts):  # of its own texts a zero is the end
                stored[row] = np.frombuffer(text.encode(), "u1")
            for name, values in part.items():
                file[name] = values
    return OPEN[hdf5](folder)


def hdf5_in_place(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Bare numbers: in one run, and in chunks."""
    h5py = pytest.importorskip("h5py")
    for number, part in enumerate(_parts(corpus)):
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            shape: Any = {"chunks": (7,), "maxshape": (None,)} if number else {}
            file.create_dataset("x/tokens", data=part["x/tokens"], **shape)
            for name in ("label", "x/tokens_offsets"):
                file[name] = part[name]
    return OPEN[hdf5_in_place](folder)


def hdf5_in_vlen(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Rows of any length."""
    h5py = pytest.importorskip("h5py")
    for number, part in enumerate(corpus.parts(3)):
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            tokens = file.create_dataset("t", len(part.tokens), h5py.vlen_dtype("i4"))
            for row, one in enumerate(part.tokens):
                tokens[row] = one
    return OPEN[hdf5_in_vlen](folder)


def zarr(folder: Path, corpus: Corpus) -> sh.Deserializer:
    """Arrays in compressed chunks and shards, with checksums, and texts."""
    library = pytest.importorskip("zarr")
    for number, part in enumerate(_parts(corpus)):
        group = library.open_group(folder / f"part-{number}.zarr", mode="w")
        for name, values in part.items():
            if name == "text":
                texts = group.create_array(name, shape=len(values), dtype=str)
                texts[:] = np.array(values, texts.dtype)
                continue
            shards = (16,) if name == "x/tokens" and len(values) else None
            checksum = library.codecs.Crc32cCodec()
            packed = [library.codecs.ZstdCodec(checksum=True), checksum]
            group.create_array(
                name, data=values, chunks=(8,), shards=shards, compressors=packed
            )
    return OPEN[zarr](folder)


Make = Callable[[Path, Corpus], sh.Deserializer]

TAR_STREAMS = sh.StreamDefs(
    tokens=sh.StreamDef(field="tokens.npy", dtype="int32", defines_mb_size=True),
    label=sh.StreamDef(field="cls", dtype="int64"),
    text=sh.StreamDef(field="txt"),
)


def _records_in(folder: Path) -> sh.Deserializer:
    return sh.TFRecordDeserializer(str(folder / "*.tfrecord"), ALL)


ARRAY_STREAMS = sh.StreamDefs(
    tokens=sh.StreamDef(field="x/tokens", dtype="int32", defines_mb_size=True),
    label=sh.StreamDef(dtype="int64"),
    text=sh.StreamDef(),
)
BARE_STREAMS = sh.StreamDefs({name: ARRAY_STREAMS[name] for name in ("tokens", "label")})

CTF_STREAMS = sh.StreamDefs(
    label=sh.StreamDef(field="L", shape=1, dtype="int64"),
    tokens=sh.StreamDef(field="T", shape=1, dtype="int32", defines_mb_size=True),
)


CBF_STREAMS = sh.StreamDefs(label=sh.StreamDef(), tokens=sh.StreamDef(defines_mb_size=True))


def _upload_ctf(folder: Path) -> sh.Deserializer:
    store = pytest.importorskip("fsspec").filesystem("memory")
    if store.exists(str(folder)):
        store.rm(str(folder), recursive=True)
    for path in folder.glob("*.ctf"):
        if path.is_file():
            store.pipe(str(path), path.read_bytes())
    url = f"memory:/{folder}/*.ctf"
    return sh.CTFDeserializer(url, CTF_STREAMS, chunk_size_in_bytes=300)


OPEN: dict[Make, Callable[[Path], sh.Deserializer]] = {
    megatron: lambda folder: sh.MegatronDeserializer(str(folder / "part-*"), TOKENS),
    raw_tokens: lambda folder: sh.RawTokensDeserializer(
        str(folder / "*.bin"), "uint16", 5, TOKENS
    ),
    datatrove: lambda folder: sh.RawTokensDeserializer(
        str(folder / "*.ds"), "uint16", streams=TOKENS, offsets=".index"
    ),
    jsonl: lambda folder: sh.JSONLDeserializer(str(folder / "*.jsonl"), ALL),
    jsonl_in_gzip: lambda folder: sh.JSONLDeserializer(str(folder / "*.packed"), ALL),
    jsonl_in_zstd: lambda folder: sh.JSONLDeserializer(str(folder / "*.packed"), ALL),
    ctf: lambda folder: sh.CTFDeserializer(str(folder / "*.ctf"), CTF_STREAMS),
    ctf_in_gzip: lambda folder: sh.CTFDeserializer(str(folder / "*.packed"), CTF_STREAMS),
    ctf_in_zstd: lambda folder: sh.CTFDeserializer(str(folder / "*.packed"), CTF_STREAMS),
    ctf_in_store: _upload_ctf,
    npy: lambda folder: sh.NpyDeserializer(
        {"tokens": (folder / "tokens.npy", folder / "offsets.npy")}, TOKENS
    ),
    tfrecords: _records_in,
    tfrecords_in_gzip: _records_in,
    tfrecords_in_zlib: _records_in,
    sequence_examples: _records_in,
    array_records: lambda folder: sh.ArrayRecordDeserializer(
        str(folder / "*.array_record"), ALL
    ),
    array_records_of_json: lambda folder: sh.ArrayRecordDeserializer(
        str(folder / "*.array_record"), ALL
    ),
    webdataset: lambda folder: sh.WebDatasetDeserializer(str(folder / "*.tar"), TAR_STREAMS),
    webdataset_in_gzip: lambda folder: sh.WebDatasetDeserializer(
        str(folder / "*.packed"), TAR_STREAMS
    ),
    mds: lambda folder: sh.MDSDeserializer(folder, ALL),
    mds_in_zstd: lambda folder: sh.MDSDeserializer(folder, ALL),
    text_lines: lambda folder: sh.TextDeserializer(str(folder / "*.txt"), TEXT),
    text_in_gzip: lambda folder: sh.TextDeserializer(str(folder / "*.packed"), TEXT),
    csv_rows: lambda folder: sh.CSVDeserializer(str(folder / "*.csv"), ALL),
    htk: lambda folder: sh.HTKFeatureDeserializer(
        {"tokens": sh.io.StreamDef(scp=str(folder / "*.mfc"))}
    ),
    mlf: lambda folder: sh.HTKMLFDeserializer(
        None, {"tokens": sh.io.StreamDef(mlf=str(folder / "*.mlf"), dtype="int32")}
    ),
    cbf: lambda folder: sh.CBFDeserializer(str(folder / "*.cbf"), CBF_STREAMS),
    hdf5: lambda folder: sh.HDF5Deserializer(str(folder / "*.h5"), ARRAY_STREAMS),
    hdf5_in_place: lambda folder: sh.HDF5Deserializer(str(folder / "*.h5"), BARE_STREAMS),
    hdf5_in_vlen: lambda folder: sh.HDF5Deserializer(
        str(folder / "*.h5"), {"tokens": sh.StreamDef(field="t", dtype="int32")}
    ),
    zarr: lambda folder: sh.ZarrDeserializer(str(folder / "*.zarr"), ARRAY_STREAMS),
    parquet: lambda folder: sh.ParquetDeserializer(str(folder / "*.parquet"), ALL),
    arrow_files: lambda folder: sh.ArrowDeserializer(
        [folder / "a.arrow", folder / "b.arrow"], ALL
    ),
}
"""The formats that lie in files, by what writes them: how to open a folder of them."""

EVERY_FORMAT: list[Make] = [
    *(megatron, raw_tokens, jsonl, parquet, arrow_files, arrow_table, dataset),
    *(saved_dataset, map_items, tfrecords, tfrecords_in_gzip, tfrecords_in_zlib, npy),
    *(sequence_examples, array_records, array_records_of_json, lance_dataset),
    *(
        webdataset_in_gzip,
        ctf,
        ctf_in_store,
        webdataset,
        jsonl_in_gzip,
        jsonl_in_zstd,
        datatrove,
    ),
    *(mds, mds_in_zstd, ctf_in_gzip, ctf_in_zstd, text_lines, text_in_gzip, csv_rows),
    *(htk, htk_archives, htk_compressed, mlf, cbf, webdataset_in_gzip),
    *(hdf5, hdf5_in_place, hdf5_in_vlen, zarr),
]

ONE_EACH: tuple[Make, ...] = (text_lines, text_in_gzip, csv_rows)
"""Formats whose sequences are one sample each."""


def corpus_for(make: Make) -> Corpus:
    """The corpus that a format is tried with: what it can hold."""
    if make is raw_tokens:
        lengths = [5] * 9 + [3] + [5] * 9 + [1]
        return Corpus.of_lengths(lengths)
    if make in ONE_EACH:
        return Corpus.of_lengths([1] * 40)
    return varied()
