"""Files as the writers of their formats lay them out."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def write_megatron(prefix: Path, tokens: Sequence[NDArray[Any]], dtype: str = "u2") -> None:
    """A ``.bin`` and an ``.idx`` file, as Megatron's own writer lays them out."""
    code = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u2": 8}[dtype]
    lengths = np.array([len(one) for one in tokens], "<i4")
    item = np.dtype(dtype).itemsize
    offsets = np.concatenate([[0], np.cumsum(lengths.astype("<i8"))])[:-1] * item
    content = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1)
    content += lengths.tobytes() + offsets.astype("<i8").tobytes()
    content += np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    prefix.with_suffix(".idx").write_bytes(content)
    prefix.with_suffix(".bin").write_bytes(
        b"".join(one.astype(f"<{dtype}").tobytes() for one in tokens)
    )


def write_array_record(
    path: Path, records: Sequence[bytes], options: str = "group_size:1"
) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()


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
