"""HTK's feature files, as HTK writes them."""

from __future__ import annotations

import struct
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
