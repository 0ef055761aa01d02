"""Clips of stored videos as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.vision.decode.video_file import VideoFile, av, part_of
from sweephand.ext.vision.images.picture_map import Steps, samples_of
from sweephand.ext.vision.images.transforms import Compose, Picture, Size, check_size
from sweephand.extend import KnownMap, Lengths, check_int

At = Literal["random", "start", "middle", "end"]
Short = Literal["error", "repeat", "drop"]


def video(
    stream: str | Sequence[str],
    frames: int,
    *,
    stride: int = 1,
    size: Size | None = None,
    at: At = "random",
    short: Short = "error",
    beside: Sequence[str] = (),
    transforms: Sequence[Steps] = (),
) -> VideoMap:
    """Return a map that decodes a clip of each video, for `Deserializer.map`.

    A stored video becomes a sample of shape (frames, height, width, 3) in uint8. It is decoded
    from the key frame before the clip on, and the frames are those that decoding all of it
    gives. Bytes that are no video, or cut short, are a `DataError` that names the sequence, and
    is counted by ``max_errors``.

    Parameters
    ----------
    stream : str, or sequence of str
        Whose sequences have one sample: ``bytes`` of MP4, MOV, Matroska, WebM or AVI, or a dict
        with the ``path`` of such a file of this machine. A dict may also have ``begin`` and
        ``end``, in seconds: the video is the frames of ``begin <= time < end``; ``num_frames``,
        which is compared with their number; and ``frames``, [first, end] of them. Several
        streams, such as cameras, have equally many frames and give the same ones.
    frames : int
        In a clip.
    stride : int
        From a frame of the clip to the next; 1: neighbours in order of presentation, however
        long each is shown.
    size : int or (int, int), optional
        Height and width that frames are resized to, before anything else; one number: both.
        Without it, the ``transforms`` bring all clips to one size, or they must be of one.
    at : {"random", "start", "middle", "end"}
        Place of the clip. "random": any is as likely, by the `Key` of the sequence, and another
        in every sweep.
    short : {"error", "repeat", "drop"}
        Of a video that has fewer frames than the clip spans. "repeat": its last frame is
        repeated. "drop": its sequence is left out; frames are counted once, without decoding,
        and what was found is kept beside the index.
    beside : sequence of str
        Streams with a sample for each frame of the video, such as actions. They are cut at the
        same places, and become one sample of shape (frames, *sample shape).
    transforms : sequence of Transform or callable
        Of `sweephand.images`, or functions of a (height, width, 3) array. All frames of all
        streams draw the same.

    Examples
    --------
    >>> import av, io, numpy as np, sweephand as sh
    >>> def stored(num_frames):
    ...     file = io.BytesIO()
    ...     with av.open(file, "w", format="mp4") as out:
    ...         stream = out.add_stream("mpeg4", rate=25, width=64, height=48)
    ...         for number in range(num_frames):
    ...             picture = np.full((48, 64, 3), number, np.uint8)
    ...             out.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
    ...         out.mux(stream.encode())
    ...     return file.getvalue()
    >>> corpus = sh.ArrayDeserializer({"mp4": [stored(20), stored(30)], "label": [0, 1]})
    >>> clips = corpus.map(sh.decode.video("mp4", frames=4, stride=5, size=32))
    >>> sh.MinibatchSource(clips).next_minibatch(2)["mp4"].values.shape
    (2, 4, 32, 32, 3)
    """
    av()  # names the package to install, if it is not there
    if at not in get_args(At):
        raise ValueError(f"at is one of {', '.join(get_args(At))}, got {at!r:.40}")
    if short not in get_args(Short):
        raise ValueError(f"short is one of {', '.join(get_args(Short))}, got {short!r:.40}")
    streams = (stream,) if isinstance(stream, str) else tuple(stream)
    if not streams or not all(isinstance(one, str) for one in streams):
        raise TypeError(f"name the streams of videos, got {stream!r:.60}")
    if isinstance(beside, str):
        raise TypeError(f"beside is a sequence of streams: write beside=[{beside!r}]")
    return VideoMap(
        streams,
        check_int("frames", frames, 1, 2**31),
        check_int("stride", stride, 1, 2**31),
        None if size is None else check_size("size", size),
        at=at,
        short=short,
        beside=tuple(beside),
        transforms=transforms,
    )


class VideoMap(KnownMap):
    """Decodes clips of videos; see `video`."""

    def __init__(
        self,
        streams: tuple[str, ...],
        frames: int,
        stride: int,
        size: tuple[int, int] | None,
        *,
        at: At,
        short: Short,
        beside: tuple[str, ...],
        transforms: Sequence[Steps],
    ) -> None:
        self.name = f"decode_{'_'.join(streams)}"
        self.steps = Compose(transforms)
        self.is_random = at == "random" or self.steps.is_random
        self._streams, self._beside = streams, beside
        self._frames, self._stride = frames, stride
        self._frame_size = size
        self._at, self._short = at, short
        if short == "drop":
            self.size = ClipLengths(streams[0], (*streams, *beside), self._span)
        elif beside:
            self.size = _one_sample

    def __repr__(self) -> str:
        streams = ", ".join(self._streams)
        return f"{self.name}({streams}; {self._frames} frames, {self._stride} apart)"

    @property
    def _span(self) -> int:
        """Frames from the first of a clip to its last."""
        return (self._frames - 1) * self._stride + 1

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> dict[str, Any]:
        """Return the sequence with clips of its videos."""
        made = dict(sequence)
        with ExitStack() as opened:
            files = {
                name: opened.enter_context(
                    closing(_open(name, sequence, self._frame_size, self.max_bytes))
                )
                for name in self._streams
            }
            numbers = self._numbers(_common_length(files), key)
            for name, file in files.items():
                made[name] = self._clip(name, file, numbers, key)
            num_frames = next(iter(files.values())).num_frames
        for name in self._beside:
            samples = samples_of(name, sequence)
            if len(samples) != num_frames:
                raise ValueError(
                    f"stream {name!r} has {len(samples)} samples beside a video of "
                    f"{num_frames} frames: a stream of beside= has one for each"
                )
            made[name] = samples[numbers][None]
        return made

    def _numbers(self, num_frames: int, key: Key | None) -> NDArray[np.int64]:
        """Return the numbers of the clip's frames."""
        spare = num_frames - self._span
        # Those that are dropped come here if the first of them is looked at.
        if spare < 0 and (self._short == "error" or num_frames == 0):
            raise ValueError(
                f"the video has {num_frames} frames, the clip spans {self._span}: "
                "short='repeat' repeats its last one, short='drop' leaves such videos out"
            )
        spare = max(0, spare)
        begin = {"start": 0, "middle": spare // 2, "end": spare}.get(self._at)
        if begin is None:
            assert key is not None
            begin = key.integer(spare + 1)
        numbers = begin + self._stride * np.arange(self._frames)
        return np.minimum(numbers, num_frames - 1)

    def _clip(
        self, name: str, file: VideoFile, numbers: NDArray[np.int64], key: Key | None
    ) -> NDArray[Any]:
        try:
            pictures = file.frames(numbers.tolist())
        except ValueError as error:
            raise ValueError(f"stream {name!r}: {error}") from error
        changed = [self._changed(one, key) for one in pictures]
        if len({(one.shape, one.dtype) for one in changed}) > 1:
            raise ValueError(
                f"the frames of stream {name!r} are of different sizes or types: bring them to "
                "one by size=, Resize or a crop"
            )
        return np.stack(changed)[None]

    def _changed(self, picture: Picture, key: Key | None) -> Picture:
        if not self.steps.transforms:
            return picture
        draw: Any = None if key is None else key.numpy()  # from the start, for each frame
        return self.steps(picture, draw)


class ClipLengths(Lengths):
    """The clip of a sequence, or none of a video that is too short; frames are not decoded."""

    def __init__(self, video: str, streams: tuple[str, ...], span: int) -> None:
        self.name = f"videos of {video} with {span} frames or more"
        self.streams = streams
        self._video = video
        self._span = span

    def __call__(self, sequence: Mapping[str, Any]) -> dict[str, int]:
        """Return the length of each stream: 1 or 0."""
        with closing(_open(self._video, sequence, None, self.max_bytes)) as file:
            return dict.fromkeys(self.streams, int(file.num_frames >= self._span))


def _open(
    name: str,
    sequence: Mapping[str, Any],
    size: tuple[int, int] | None,
    max_bytes: int | None = None,
) -> VideoFile:
    samples = samples_of(name, sequence)
    if isinstance(samples, Mapping):  # an object
        samples = [samples]
    if len(samples) != 1:
        raise ValueError(
            f"stream {name!r} has {len(samples)} videos, one a sequence is decoded"
        )
    try:
        return VideoFile(part_of(samples[0]), size, max_bytes)
    except ValueError as error:
        raise ValueError(f"stream {name!r}: {error}") from error


def _common_length(files: Mapping[str, VideoFile]) -> int:
    counts = {name: file.num_frames for name, file in files.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
        raise ValueError(f"the videos of a sequence have different numbers of frames: {found}")
    return next(iter(counts.values()))


def _one_sample(sizes: Mapping[str, int], key: Key) -> int:
    return 1
