"""Frames of a video, found by their presentation time stamps and decoded from key frames.

::

    stored      I0   P3   B1   B2   I6   B4   B5   P9   B7   B8     as they are decoded
    presented   0    1    2    3    4    5    6    7    8    9      by time stamp
    asked for                            5         7
    decoded     I0   P3   B1   B2   I6   B4   B5,  then flushed      for 5
                                    I6   B4   B5   P9   B7           for 7

The packets of the container are listed without decoding any of them. The list gives the time
stamp of every frame, and so the number of each. A frame is decoded from the last key frame that
is presented no later: the frames in between refer to nothing before that one.

Containers are known by their bytes, with the number of bytes that they should have.

::

    MP4       | size: 4 bytes | name: 4 bytes | [size: 8 bytes, if the first is 1] | content |
    Matroska  | id: 1 to 4 bytes | size: 1 to 8 bytes | content |

Both are big-endian. A size of 0 in MP4, and one of all ones in Matroska, is "to the end". The
first bits of an id or size of Matroska say how many bytes it has.

FFmpeg itself would go by names too, and read scripts that name other files and addresses.

https://www.iso.org/standard/83102.html (ISO/IEC 14496-12), https://www.rfc-editor.org/rfc/rfc8794
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.vision.images.transforms import Picture
from sweephand.extend import OptionalModule, check_memory, open_regular, shown

_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = 0x18538067
_LONG_SIZE = 1
_BOX_HEADER = 8  # bytes
_BOXES = (b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"sidx")
# Boxes that state a number of samples, and how far after their names.
_COUNTED = re.compile(rb"stsz.{8}(.{4})|trun.{4}(.{4})|(cmov)", re.DOTALL)
_COUNTED_BYTES = 16
_PIECE = 1 << 20  # bytes


def container_of(file: BinaryIO, num_bytes: int) -> str:
    """Return the name of FFmpeg's demuxer for a file, all of which is there."""
    file.seek(0)
    head = file.read(12)
    end = num_bytes
    if head[:4] == _EBML:
        name, end = "matroska", _matroska_end(file, num_bytes)
    elif head[4:8] in _BOXES:
        name, end = "mov", _boxes_end(file, num_bytes)
    elif head[:4] == b"RIFF" and head[8:] == b"AVI ":
        name = "avi"
    else:
        raise ValueError(
            f"{num_bytes} bytes are no video that can be decoded: they are none of MP4, "
            "Matroska and AVI"
        )
    if end > num_bytes:
        raise ValueError(f"the video is cut short: {num_bytes} of {end} bytes are there")
    return name


def _boxes_end(file: BinaryIO, num_bytes: int) -> int:
    """Return where the last box ends; zeros may follow."""
    at = num_samples = 0
    while at + _BOX_HEADER <= num_bytes:
        file.seek(at)
        head = file.read(2 * _BOX_HEADER)
        size, name = int.from_bytes(head[:4]), head[4:8]
        if size == _LONG_SIZE:
            size = int.from_bytes(head[8:16])
        elif size == 0 and (name.isalnum() or not any(name)):
            return num_bytes
        if size < _BOX_HEADER or not name.isalnum():
            raise ValueError(f"the video is damaged: no box of MP4 begins at byte {at}")
        if name != b"mdat":
            num_samples += _stated_samples(file, at, min(at + size, num_bytes))
            if num_samples > num_bytes:  # of which FFmpeg would make a list
                raise ValueError(
                    f"the video is damaged: {num_samples} samples in {num_bytes} bytes"
                )
        at += size
    return at


def _stated_samples(file: BinaryIO, begin: int, end: int) -> int:
    """Return the number of samples that the boxes in a range of a file state."""
    total = 0
    for at in range(begin, end, _PIECE):
        file.seek(at)
        piece = file.read(min(_PIECE + _COUNTED_BYTES - 1, end - at))
        for sizes, run, compressed in _COUNTED.findall(piece):
            if compressed:
                raise ValueError("the header of the video is compressed, which is not read")
            total += int.from_bytes(sizes or run)
    return total


def _matroska_end(file: BinaryIO, num_bytes: int) -> int:
    """Return the end of the segment, if it is stored."""
    at = 0
    while at < num_bytes:
        file.seek(at)
        head = file.read(12)
        id_bytes = _width(head[:1])
        size_bytes = _width(head[id_bytes : id_bytes + 1])
        begin = id_bytes + size_bytes
        if not id_bytes or not size_bytes or len(head) < begin:
            return num_bytes
        ones = (1 << 7 * size_bytes) - 1
        size = int.from_bytes(head[id_bytes:begin]) & ones
        if size == ones:  # written as it was recorded
            return num_bytes
        at += begin + size
        if int.from_bytes(head[:id_bytes]) == _SEGMENT:
            return at
    return at


def _width(first: bytes) -> int:
    """Return the bytes of an id or size by its first byte; 0 if it is invalid."""
    return 9 - first[0].bit_length() if first and first[0] else 0


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


av: Any = OptionalModule("av", extra="video")
reformatter: Any = OptionalModule("av.video.reformatter", extra="video")

_OPTIONS = {"protocol_whitelist": "none"}  # parts in other files are not opened
_PIXEL = 40  # bytes, in all frames that a decoder may hold to refer to
_RGB = 3
_SKIPS_UNUSED = ("h264", "mpeg4", "mpeg2video")  # codecs; all other codecs refer to all frames
_FIRST_STEP = 1.0  # seconds that a seek goes back by, if it went beyond
_ROUNDING = 1e-5  # seconds that a border may be beyond a time stamp
_FRAME_SHOWN = 0x10  # bit of the first byte of a VP8 packet: set where one is shown


class VideoFile:
    """A part of a video that is open, for one thread."""

    def __init__(
        self,
        part: VideoPart,
        size: tuple[int, int] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._part = part
        self._size = size
        self._max_bytes = max_bytes
        self._container: Any = None
        self._file, num_bytes = part.open()
        try:
            self._open(container_of(self._file, num_bytes), num_bytes)
            self._chosen = part.chosen(len(self._stamps))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._container is not None:
            self._container.close()
        self._file.close()

    def _open(self, container: str, num_bytes: int) -> None:
        self._file.seek(0)
        most = {} if self._max_bytes is None else {"max_pixels": str(self._max_bytes // _PIXEL)}
        try:
            self._container = av.open(
                self._file,
                format=container,
                options={**_OPTIONS, **most},
                metadata_errors="replace",
            )
        except Exception as error:  # PyAV has one for each code of FFmpeg
            raise ValueError(
                f"{num_bytes} bytes are no video that can be decoded: {_reason(error)}"
            ) from error
        streams = [one for one in self._container.streams.video if not _is_cover(one)]
        if not streams:
            kinds = ", ".join(sorted({one.type for one in self._container.streams})) or "none"
            raise ValueError(f"there is no stream of pictures, there are: {kinds}")
        self._stream = streams[0]
        self._codec = self._stream.codec_context
        self._codec.thread_count = 1  # threads of maps are those that decode
        self._codec.options = most  # a later frame may be larger
        height, width = self._codec.height, self._codec.width
        needed = height * width * _PIXEL
        check_memory(f"a video of {height} x {width} pixels", needed, self._max_bytes)
        self._scaler = reformatter.VideoReformatter()

    @cached_property
    def _packets(self) -> list[Any]:
        """Packets in the order of decoding, from a key frame before the part to its end."""
        begin, end = self._stamp(self._part.begin), self._stamp(self._part.end)
        try:
            first = self._seek(begin) if begin is not None else None
            return list(self._demux(first, end))
        except (av.FFmpegError, ValueError) as error:
            raise ValueError(f"the video is damaged: {_reason(error)}") from error

    def _seek(self, begin: float) -> Any:
        """Go to a key frame that is not presented after a time stamp; return its packet."""
        back = 0.0
        while True:
            at = int(begin - back / self._stream.time_base)
            self._container.seek(at, stream=self._stream, backward=True)
            first = next(self._demux(None, None), None)
            start = self._stream.start_time or 0
            if first is not None and _is_key(first) and first.pts <= begin:
                return first
            if at <= start:
                self._container.seek(min(at, start), stream=self._stream, backward=True)
                return None
            back = 2 * back or _FIRST_STEP

    def _demux(self, first: Any, end: float | None) -> Iterator[Any]:
        if first is not None:
            yield first
        for packet in self._container.demux(self._stream):
            if packet.size == 0:  # the end
                return
            if packet.is_corrupt:
                raise ValueError("a packet is cut short")
            if end is not None and packet.dts is not None and packet.dts >= end:
                return
            yield packet

    def _stamp(self, seconds: float | None) -> float | None:
        if seconds is None:
            return None
        return (seconds - _ROUNDING) / float(self._stream.time_base)

    @cached_property
    def _stamps(self) -> list[int]:
        """Time stamps of the frames of the part, ascending: those of packets, or of frames."""
        listed = self._listed
        return self._within(self._decoded_stamps() if listed is None else listed)

    @cached_property
    def _listed(self) -> list[int] | None:
        """Time stamps by packets; None if they are not those of frames."""
        is_vp8 = self._codec.codec.canonical_name == "vp8"
        stamps = [
            one.pts
            for one in self._packets
            if not one.is_discard and not (is_vp8 and _is_hidden(one))
        ]
        if None in stamps or len(set(stamps)) < len(stamps):
            return None
        return sorted(stamps)

    def _within(self, stamps: Sequence[int]) -> list[int]:
        begin, end = self._stamp(self._part.begin), self._stamp(self._part.end)
        return [
            one
            for one in stamps
            if (begin is None or one >= begin) and (end is None or one < end)
        ]

    def _decoded_stamps(self) -> list[int]:
        stamps = [frame.pts for frame in self._decode(self._packets)]
        if None in stamps:
            raise ValueError("its frames have no time stamps: put it into MP4 or Matroska")
        return sorted(stamps)

    @property
    def num_frames(self) -> int:
        """Frames in the part."""
        return len(self._chosen)

    def frames(self, numbers: Sequence[int]) -> list[Picture]:
        """Return frames as uint8 arrays of shape (height, width, 3)."""
        wanted = [self._stamps[self._chosen[number]] for number in numbers]
        height, width = self._size or (self._codec.height, self._codec.width)
        # Each is there twice when they become a clip.
        needed = 2 * len(wanted) * height * width * _RGB
        check_memory(f"{len(wanted)} frames of {height} x {width}", needed, self._max_bytes)
        found: dict[int, Picture] = {}
        if self._listed is not None:
            self._decode_stamps(set(wanted), found)
        if any(stamp not in found for stamp in wanted):
            self._decode_all(set(wanted), found)
        return [found[stamp] for stamp in wanted]

    def _decode_stamps(self, wanted: set[int], found: dict[int, Picture]) -> None:
        """Decode frames from the key frames before them; missing frames are left out."""
        for first, end in self._runs(wanted):
            key = self._packets[first].pts
            # Frames that are presented before it may refer to earlier frames.
            run = [one for one in self._packets[first:end] if one.pts >= key]
            self._restart()
            for frame in self._decode(run, wanted):
                if frame.pts in wanted:
                    found[frame.pts] = self._picture(frame)

    def _runs(self, wanted: set[int]) -> list[tuple[int, int]]:
        """Return the runs of packets that frames are decoded from, each from a key frame on."""
        keys = sorted((one.pts, at) for at, one in enumerate(self._packets) if _is_key(one))
        places = {one.pts: at for at, one in enumerate(self._packets)}
        ends: dict[int, int] = {}
        for stamp in wanted:
            number = bisect_right(keys, (stamp, len(self._packets))) - 1
            first = keys[number][1] if number >= 0 else 0
            ends[first] = max(ends.get(first, 0), places[stamp] + 1)
        runs: list[tuple[int, int]] = []
        for first, end in sorted(ends.items()):
            if runs and first <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(end, runs[-1][1])
            else:
                runs.append((first, end))
        return runs

    def _decode_all(self, wanted: set[int], found: dict[int, Picture]) -> None:
        """Decode from the first packet on, where packets do not list the frames."""
        self._restart()
        for frame in self._decode(self._packets):
            if frame.pts in wanted and frame.pts not in found:
                found[frame.pts] = self._picture(frame)
        if len(found) < len(wanted):
            raise ValueError(
                f"the video is damaged: {len(wanted) - len(found)} of {len(wanted)} frames "
                "cannot be decoded"
            )

    def _restart(self) -> None:
        if self._codec.is_open:
            self._codec.flush_buffers()

    def _decode(self, packets: Sequence[Any], used: set[int] | None = None) -> Iterator[Any]:
        """Decode packets; those of frames that are neither used nor referred to may be left."""
        can_skip = used is not None and self._codec.name in _SKIPS_UNUSED
        try:
            for packet in packets:
                skip = can_skip and used is not None and packet.pts not in used
                self._codec.skip_frame = "NONREF" if skip else "DEFAULT"
                yield from map(_checked, self._codec.decode(packet))
            yield from map(_checked, self._codec.decode(None))
        except (av.FFmpegError, EOFError) as error:
            raise ValueError(f"the video cannot be decoded: {_reason(error)}") from error

    def _picture(self, frame: Any) -> Picture:
        turns = round(frame.rotation / 90) % 4
        height, width = self._size or (None, None)
        if turns % 2:
            height, width = width, height
        scaled = self._scaler.reformat(
            frame, width=width, height=height, format="rgb24", threads=1
        )
        picture: NDArray[np.uint8] = scaled.to_ndarray()
        return np.ascontiguousarray(np.rot90(picture, turns)) if turns else picture


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _is_key(packet: Any) -> bool:
    return bool(packet.is_keyframe) and packet.pts is not None


def _checked(frame: Any) -> Any:
    """Return a frame; ValueError if it is damaged, as are those that refer to it."""
    if frame.is_corrupt:
        raise ValueError(f"the frame at {float(frame.time):.6g} s is damaged")
    return frame


def _is_hidden(packet: Any) -> bool:
    return not bytes(packet)[0] & _FRAME_SHOWN


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
