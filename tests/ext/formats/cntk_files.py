"""HTK's feature files and CNTK's binary format, as their own writers lay them out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np


def htk_bytes(frames: Any, kind: int = 9, order: str = ">", period: int = 100_000) -> bytes:
    """Frames, shape (frames, values), as HTK stores them; 0o2000 compresses, 0o10000 checks.

    What is compressed are integers of [0, 65536), which stay exact.
    """
    frames = np.asarray(frames, np.float32)
    content, count, item = frames.astype(f"{order}f4").tobytes(), len(frames), 4
    if kind & 0o2000:
        scale = np.repeat(np.array([[1], [32768]], np.float32), frames.shape[1], axis=1)
        stored = (frames * scale[0] - scale[1]).astype(f"{order}i2")
        content = scale.astype(f"{order}f4").tobytes() + stored.tobytes()
        count, item = count + 4, 2
    header = struct.pack(f"{order}IIHH", count, period, item * frames.shape[1], kind)
    return header + content + bytes(2 if kind & 0o10000 else 0)


def cbf_bytes(
    streams: dict[str, tuple[bool, str, int]], chunks: Sequence[Sequence[dict[str, Any]]]
) -> bytes:
    """Chunks of sequences in CNTK's binary format.

    A stream is (is sparse, "f" or "d", dimension); a sequence has of each a list of samples:
    lists of values, or dicts of index and value.
    """
    magic = struct.pack("<Q", 0x636E746B5F62696E)
    content = magic + struct.pack("<I", 1)
    table = b""
    for chunk in chunks:
        lengths = [max(len(samples) for samples in one.values()) for one in chunk]
        table += struct.pack("<qII", len(content), len(chunk), sum(lengths))
        content += np.array(lengths, "<u4").tobytes()
        for name, (is_sparse, code, _) in streams.items():
            for samples in (one[name] for one in chunk):
                content += struct.pack("<I", len(samples))
                if is_sparse:
                    values = [value for one in samples for value in one.values()]
                    content += struct.pack(f"<i{len(values)}{code}", len(values), *values)
                    indices = [index for one in samples for index in one]
                    content += np.array([*indices, *map(len, samples)], "<i4").tobytes()
                else:
                    content += np.array(samples, f"<{code}").tobytes()
    header = magic + struct.pack("<II", len(chunks), len(streams))
    for name, (is_sparse, code, dimension) in streams.items():
        header += struct.pack("<BI", is_sparse, len(name)) + name.encode()
        header += struct.pack("<BI", code == "d", dimension)
    return content + header + table + struct.pack("<q", len(content))
