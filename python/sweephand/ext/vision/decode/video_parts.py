"""Parts of videos: stored bytes, or a file and a range of time in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import BinaryIO

from sweephand.extend import open_regular, shown

_KEYS = ("path", "begin", "end", "num_frames", "frames")


@dataclass(frozen=True)
class VideoPart:
    """A video, or the frames of it in a range of time."""

    content: bytes | str  # stored bytes, or the path of a file
    # Seconds; frames of `begin <= time < end`. None: from its first, to its last one.
    begin: float | None = None
    end: float | None = None
    num_frames: int | None = None  # how many those are, if it is known; else it is not compared
    frames: tuple[int, int] | None = None  # first of them, and the end; None: all

    def open(self) -> tuple[BinaryIO, int]:
        """Return the open file, and how many bytes it has."""
        if isinstance(self.content, bytes):
            return BytesIO(self.content), len(self.content)
        file = open_regular(Path(self.content))
        return file, file.seek(0, 2)

    def chosen(self, num_frames: int) -> range:
        """Return the numbers of the frames to read, of those in the range of time.

        ValueError if there are not as many as there should be.
        """
        if self.num_frames is not None and num_frames != self.num_frames:
            raise ValueError(
                f"the video has {num_frames} frames {self._when()}, {self.num_frames} should "
                "be there"
            )
        begin, end = (0, num_frames) if self.frames is None else self.frames
        if end > num_frames:
            raise ValueError(
                f"the video has {num_frames} frames {self._when()}, of which frames {begin} to "
                f"{end - 1} are asked for"
            )
        return range(begin, end)

    def _when(self) -> str:
        if self.begin is None and self.end is None:
            return "in all"
        end = "its end" if self.end is None else f"{self.end:.6g} s"
        return f"from {self.begin or 0:.6g} s to {end}"


def part_of(sample: object) -> VideoPart:
    """Return a sample of a stream as a part of a video."""
    if isinstance(sample, bytes):
        return VideoPart(sample)
    if not isinstance(sample, Mapping):
        raise ValueError(
            "a video is stored bytes, or a dict such as {'path': 'a.mp4', 'begin': 0.0, 'end': "
            f"2.5}}, got {shown(sample)}"
        )
    unknown = [key for key in sample if key not in _KEYS]
    if unknown or "path" not in sample:
        found = f"unknown is {unknown[0]!r}" if unknown else "'path' is not there"
        raise ValueError(f"a part of a video has the keys {', '.join(_KEYS)}; {found}")
    path, count = sample["path"], sample.get("num_frames")
    if not isinstance(path, str):
        raise ValueError(f"the path of a video is text, got {shown(path)}")
    if count is not None and not _is_count(count):
        raise ValueError(f"num_frames of a video is a count, got {shown(count)}")
    begin, end = (_seconds(name, sample.get(name)) for name in ("begin", "end"))
    return VideoPart(path, begin, end, count, _frames(sample.get("frames")))


def _seconds(name: str, given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real) or not isfinite(given):
        raise ValueError(f"{name} of a part of a video is in seconds, got {shown(given)}")
    return float(given)


def _frames(given: object) -> tuple[int, int] | None:
    if given is None:
        return None
    if (
        not isinstance(given, list | tuple)
        or len(given) != 2
        or not all(_is_count(one) for one in given)
        or given[0] >= given[1]
    ):
        raise ValueError(
            f"frames of a part of a video are [first, end], such as [0, 16], got {shown(given)}"
        )
    return given[0], given[1]


def _is_count(given: object) -> bool:
    return type(given) is int and given >= 0
