"""Maps of pictures: a function of a sequence that goes through steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.vision.images.transforms import Compose, Picture, Transform
from sweephand.extend import KnownMap

Steps = Transform | Callable[[Picture], Picture]


class PictureMap(KnownMap):
    """Reads the pictures of streams, and changes them by steps.

    All pictures of a sequence draw the same: the frames of a film are cut at one place, and so
    are a picture and its mask.
    """

    def __init__(
        self,
        name: str,
        streams: str | Sequence[str],
        read: Callable[[Any, int | None], Picture],
        transforms: Sequence[Steps],
        *,
        channels_first: bool = True,
    ) -> None:
        self.streams = (streams,) if isinstance(streams, str) else tuple(streams)
        if not self.streams or not all(isinstance(one, str) for one in self.streams):
            raise TypeError(f"name the streams of pictures, got {streams!r:.60}")
        self.name = name
        self.steps = Compose(transforms)
        self.is_random = self.steps.is_random
        self._read = read
        self._channels_first = channels_first

    def __repr__(self) -> str:
        steps = ", ".join(map(repr, self.steps.transforms))
        return f"{self.name}({', '.join(self.streams)}; {steps or 'as they are'})"

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> dict[str, Any]:
        """Return the sequence with its pictures changed."""
        return {
            **sequence,
            **{name: self._all(name, sequence, key) for name in self.streams},
        }

    def _all(self, name: str, sequence: Mapping[str, Any], key: Key | None) -> NDArray[Any]:
        samples = samples_of(name, sequence)
        if len(samples) == 0:
            raise ValueError(f"the sequence has no picture in stream {name!r}")
        pictures = [self.picture(name, one, key) for one in samples]
        if len({(one.shape, one.dtype) for one in pictures}) > 1:
            raise ValueError(
                f"the pictures of stream {name!r} are of different sizes or types: bring them "
                "to one by size=, Resize or a crop"
            )
        if self._channels_first:
            pictures = [one.transpose(2, 0, 1) for one in pictures]
        first = pictures[0]
        return np.stack(pictures, out=np.empty((len(pictures), *first.shape), first.dtype))

    def picture(self, name: str, sample: Any, key: Key | None) -> Picture:
        """Return a sample as a picture that went through all steps."""
        draw: Any = None if key is None else key.numpy()  # from the start, for each picture
        try:
            picture, steps = self.begin(sample, draw)
        except ValueError as error:
            raise ValueError(f"stream {name!r}: {error}") from error
        picture = steps(picture, draw)
        if getattr(picture, "ndim", 0) != 3:
            raise ValueError(
                f"stream {name!r}: a step returned {type(picture).__name__} and no array of "
                "(height, width, channels)"
            )
        return picture

    def begin(self, sample: Any, draw: np.random.Generator) -> tuple[Picture, Compose]:
        """Read a sample; return the picture, and the steps that are left."""
        return self._read(sample, self.max_bytes), self.steps


def samples_of(name: str, sequence: Mapping[str, Any]) -> Any:
    """Return the samples of a stream; ValueError if the name is unknown."""
    if name not in sequence:
        raise ValueError(f"there is no stream {name!r}, there are: {', '.join(sequence)}")
    return sequence[name]


def transform(
    stream: str | Sequence[str], transforms: Sequence[Steps], *, channels_first: bool = True
) -> PictureMap:
    """Return a map of pictures that are arrays already, for `Deserializer.map`.

    Parameters
    ----------
    stream : str, or sequence of str
        Whose samples are pictures; those of several, such as a mask, draw the same.
    transforms : sequence of Transform or callable
        Applied in turn to each picture as (height, width, channels). The last ones bring all to
        one size, if they are not of one.
    channels_first : bool
        The pictures are of shape (channels, height, width), before and after.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> pictures = np.zeros((4, 3, 32, 32), np.uint8)
    >>> crop = sh.images.transform("x", [sh.images.RandomCrop(28), sh.images.ToDtype()])
    >>> corpus = sh.ArrayDeserializer({"x": pictures}).map(crop)
    >>> source = sh.MinibatchSource(corpus)
    >>> source.next_minibatch(2)["x"].values.shape, str(source.streams.x.dtype)
    ((2, 3, 28, 28), 'float32')
    """
    read = _channels_last if channels_first else _three_axes
    name = "transform_" + (stream if isinstance(stream, str) else "_".join(stream))
    return PictureMap(name, stream, read, transforms, channels_first=channels_first)


def _three_axes(sample: Any, max_bytes: int | None = None) -> Picture:
    picture = np.asarray(sample)
    if picture.ndim != 3:
        raise ValueError(f"a picture has three axes, got samples of shape {picture.shape}")
    return picture


def _channels_last(sample: Any, max_bytes: int | None = None) -> Picture:
    return _three_axes(sample).transpose(1, 2, 0)
