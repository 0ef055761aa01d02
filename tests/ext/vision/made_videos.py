"""Videos that tests make, and the frames that decoding all of one gives."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

av = pytest.importorskip("av")

TICKS = Fraction(1, 1000)

X264 = {"preset": "ultrafast", "bf": "3", "b_strategy": "0", "g": "12", "tune": "psnr"}


def picture(number: int, width: int = 48, height: int = 32) -> NDArray[np.uint8]:
    """Return a picture that moves, and is unlike that of any other number."""
    rows, columns = np.mgrid[:height, :width]
    waves = [
        rows / 9 + number / 7,
        columns / 8 - number / 5,
        (rows + columns) / 20 + number / 3,
    ]
    return np.stack([128 + 120 * np.sin(wave) for wave in waves], -1).astype(np.uint8)


def video(
    num_frames: int,
    *,
    codec: str = "libx264",
    kind: str = "mp4",
    options: Mapping[str, str] | None = None,
    muxer: Mapping[str, str] | None = None,
    times: Sequence[int] | None = None,
    rate: int = 25,
    size: tuple[int, int] = (32, 48),
    first: int = 0,
    quarter_turns: int = 0,
    fmt: str = "yuv420p",
) -> bytes:
    """Return a stored video; `times` are milliseconds of its frames."""
    file = io.BytesIO()
    height, width = size
    with av.open(file, "w", format=kind, options=dict(muxer or {})) as container:
        own = dict(X264 if options is None and codec == "libx264" else options or {})
        stream: Any = container.add_stream(codec, rate=rate, options=own)
        stream.width, stream.height, stream.pix_fmt = width, height, fmt
        stream.codec_context.thread_count = 1
        if times is not None:
            stream.codec_context.time_base = TICKS
        if quarter_turns:
            stream.set_display_rotation(90 * quarter_turns)
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(first + number, width, height), "rgb24")
            frame.pts = number if times is None else times[number]
            if times is not None:
                frame.time_base = TICKS
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def all_frames(content: bytes | str) -> list[tuple[float, NDArray[np.uint8]]]:
    """Decode all of a video: time in seconds and pixels of each frame, as presented."""
    source: Any = io.BytesIO(content) if isinstance(content, bytes) else content
    with av.open(source) as container:
        found = [
            (one.time, one.to_ndarray(format="rgb24")) for one in container.decode(video=0)
        ]
    return sorted(found, key=lambda one: one[0])
