"""Stored sounds as arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import OptionalModule, check_flag, check_int
from sweephand.images.picture_map import samples_of
from sweephand.maps.key import Key
from sweephand.maps.known_map import KnownMap

soundfile: Any = OptionalModule("soundfile", extra="audio")
signal: Any = OptionalModule("scipy.signal", extra="scipy")

_STREAMED = 0xFFFFFFFF  # bytes of a RIFF file whose writer did not know


def audio(
    stream: str,
    rate: int | None = None,
    *,
    mono: bool = False,
    dtype: Literal["float32", "int16"] = "float32",
) -> AudioMap:
    """Return a map that decodes sounds, for `Deserializer.map`.

    A sequence of one sample of ``bytes`` becomes one of as many samples as the sound has. How
    long each is, is measured once and kept; see ``size="measured"`` of `Deserializer.map`.
    What is no sound, or cut short, is a `DataError` that names the sequence, and is counted by
    ``max_errors``.

    Parameters
    ----------
    stream : str
        Whose samples are WAV, FLAC, OGG, MP3 or what else libsndfile knows.
    rate : int, optional
        Samples a second; a sound of another rate is resampled by SciPy's polyphase filter. By
        default each is as it is stored, whatever its rate.
    mono : bool
        Take the mean of all channels. Else samples of several have the shape (channels,), and
        those of one ``()``.
    dtype : {"float32", "int16"}
        Floats are in [-1, 1].

    Returns
    -------
    callable

    Raises
    ------
    ImportError
        If soundfile is not installed, saying what to install.
    ValueError
        If the dtype is another, or the rate is below 1.

    Examples
    --------
    >>> import io, wave, numpy as np, sweephand as sh
    >>> def stored(samples):
    ...     file = io.BytesIO()
    ...     with wave.open(file, "wb") as out:
    ...         out.setnchannels(1), out.setsampwidth(2), out.setframerate(8000)
    ...         out.writeframes(np.arange(samples, dtype="<i2").tobytes())
    ...     return file.getvalue()
    >>> corpus = sh.ArrayDeserializer({"wav": [stored(4), stored(9)]})
    >>> sounds = corpus.map(sh.decode.audio("wav", dtype="int16"))
    >>> source = sh.MinibatchSource(sounds, randomize=False)
    >>> source.next_minibatch(13)["wav"].as_sequences()[0]
    array([0, 1, 2, 3], dtype=int16)
    """
    soundfile()
    if dtype not in ("float32", "int16"):
        raise ValueError(f"dtype is float32 or int16, got {dtype!r:.40}")
    if rate is not None:
        check_int("rate", rate, 1, 2**31)
    return AudioMap(stream, rate, check_flag("mono", mono), dtype)


class AudioMap(KnownMap):
    """Decodes the sounds of a stream."""

    size = "measured"

    def __init__(self, stream: str, rate: int | None, mono: bool, dtype: str) -> None:
        self.name = f"decode_{stream}"
        self._stream = stream
        self._rate = rate
        self._mono = mono
        self._dtype = dtype

    def __repr__(self) -> str:
        return f"{self.name}(rate={self._rate}, mono={self._mono})"

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> dict[str, Any]:
        """Return the sequence with its sound as samples."""
        samples = samples_of(self._stream, sequence)
        if len(samples) != 1:
            raise ValueError(
                f"stream {self._stream!r} has {len(samples)} sounds, one a sequence is decoded"
            )
        try:
            return {**sequence, self._stream: self._decode(samples[0])}
        except ValueError as error:
            raise ValueError(f"stream {self._stream!r}: {error}") from error

    def _decode(self, content: object) -> NDArray[Any]:
        if not isinstance(content, bytes):
            raise ValueError(f"stored sounds are bytes, got {type(content).__name__}")
        values, rate = sound_of(content, "float32" if self._rate else self._dtype)
        if self._mono and values.ndim == 2:
            values = values.mean(axis=1).astype(values.dtype)
        if self._rate is None:
            return values
        if rate != self._rate:
            factor = math.gcd(rate, self._rate)
            values = signal.resample_poly(values, self._rate // factor, rate // factor)
        if self._dtype == "int16":
            values = np.clip(np.rint(values * 32768), -32768, 32767)
        return np.asarray(values, self._dtype)


def sound_of(content: bytes, dtype: str) -> tuple[NDArray[Any], int]:
    """Return the samples of stored bytes, and how many are in a second.

    ValueError if libsndfile cannot decode them, or they are cut short.
    """
    if content[:4] == b"RIFF" and len(content) >= 8:
        size = int.from_bytes(content[4:8], "little")
        if size != _STREAMED and size + 8 > len(content):
            raise ValueError(f"the sound is cut short: {len(content)} of {size + 8} bytes")
    try:
        with soundfile.SoundFile(BytesIO(content)) as opened:
            rate, wanted = opened.samplerate, opened.frames
            values = opened.read(dtype=dtype)
    except Exception as error:  # damaged bytes make it raise several kinds
        reason = getattr(error, "error_string", str(error))
        raise ValueError(
            f"{len(content)} bytes are no sound that can be decoded: {reason}"
        ) from error
    if len(values) < wanted:
        raise ValueError(f"the sound is cut short: {len(values)} of {wanted} samples are there")
    return values, int(rate)
