"""Stored sounds as arrays.

WAV states the size of its samples; that of a pipe states none:

::

    RIFF   | id | size: 4 bytes | WAVE | chunks: | id | size: 4 bytes | content |

RF64 has sizes of 8 bytes in its first chunk, ``ds64``. What writes into a pipe, or was killed,
leaves a size of 0, of all ones, or of 2 GiB and more.

https://www.rfc-editor.org/rfc/rfc2361, https://tech.ebu.ch/docs/tech/tech3306.pdf (RF64)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.vision.images.picture_map import samples_of
from sweephand.extend import KnownMap, OptionalModule, check_flag, check_int, check_memory

_LONGEST = 0x7FFFF000  # bytes: what writers to pipes give at least, where sizes have 4
_SIZES_OF_RF64 = 20, 28  # of the file and its samples
_OTHERS = (b"fLaC", b"OggS", b"ID3")


def with_sizes(content: bytes) -> bytes:
    """Return a stored sound, in which the size of its samples is stated.

    ValueError if it is cut short, or of another format: libsndfile cuts many to what is there.
    """
    if content[:4] not in (b"RIFF", b"RF64"):
        is_mpeg = content[:1] == b"\xff" and content[1:2] >= b"\xe0"
        if content.startswith(_OTHERS) or is_mpeg:
            return content
        raise ValueError(
            f"{len(content)} bytes are no sound that can be decoded: they are none of WAV, "
            "FLAC, Ogg and MP3"
        )
    at = 12
    while at + 8 <= len(content):
        begin = at + 8
        size = int.from_bytes(content[at + 4 : begin], "little")
        if content.startswith(b"data", at):
            return _with_size(content, at + 4, begin)
        at = begin + size + size % 2
    return content


def _with_size(content: bytes, at: int, begin: int) -> bytes:
    """Return a WAV with the size of its samples, which is stated at a byte."""
    outer_at, width, longest = 4, 4, _LONGEST
    if content.startswith(b"RF64") and content[at:begin] == b"\xff" * 4:
        (outer_at, at), width, longest = _SIZES_OF_RF64, 8, 1 << 62
    stated, outer = (
        int.from_bytes(content[one : one + width], "little") for one in (at, outer_at)
    )
    # A sound without samples has the size of the whole that its file has.
    is_empty = outer + 8 <= len(content) <= outer + 9
    there = len(content) - begin
    if stated >= longest or (stated == 0 and not is_empty):
        return content[:at] + there.to_bytes(width, "little") + content[at + width :]
    if stated > there:
        whole = begin + stated
        raise ValueError(f"the sound is cut short: {len(content)} of {whole} bytes")
    return content


soundfile: Any = OptionalModule("soundfile", extra="audio")
signal: Any = OptionalModule("scipy.signal", extra="scipy")

_PIECE = 1 << 18  # numbers that are decoded at once
_FRAME = 4096  # bytes, in which a first frame of MP3 is
_UNKNOWN = 1 << 62  # samples, from which on libsndfile does not know how many there are
_FLOATS = ("FLOAT", "DOUBLE", "VORBIS", "OPUS")  # which libsndfile does not bring to integers
_TAP_BYTES = 20 * 8 * 4  # of the filter, by the larger factor of resampling


def audio(
    stream: str,
    rate: int | None = None,
    *,
    mono: bool = False,
    dtype: Literal["float32", "int16"] = "float32",
) -> AudioMap:
    """Return a map that decodes sounds, for `Deserializer.map`.

    A sequence of one sample of ``bytes`` becomes one of as many samples as the sound has. Their
    lengths are measured once and kept; see ``size="measured"`` of `Deserializer.map`. Bytes
    that are no sound, or cut short, are a `DataError` that names the sequence, and is counted
    by ``max_errors``.

    Parameters
    ----------
    stream : str
        Whose samples are WAV, FLAC, Ogg (Vorbis, Opus) or MP3.
    rate : int, optional
        Samples a second; a sound of another rate is resampled by SciPy's polyphase filter. By
        default each is as it is stored, whatever its rate.
    mono : bool
        Take the mean of all channels. Else samples of several have the shape (channels,), and
        those of one ``()``.
    dtype : {"float32", "int16"}
        Floats are in [-1, 1]; as int16 they are times 32,768, and cut where they are beyond.

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
        dtype = "float32" if self._rate else self._dtype
        values, rate = sound_of(content, dtype, self.max_bytes)
        if self._mono and values.ndim == 2:
            mean = values.mean(axis=1)
            values = (np.rint(mean) if dtype == "int16" else mean).astype(dtype)
        if self._rate is None:
            return values
        if rate != self._rate:
            values = self._resampled(values, rate, self._rate)
        return _as_int16(values) if self._dtype == "int16" else np.asarray(values, np.float32)

    def _resampled(self, values: NDArray[Any], rate: int, wanted: int) -> NDArray[Any]:
        factor = math.gcd(rate, wanted)
        up, down = wanted // factor, rate // factor
        needed = values.nbytes * up // down + max(up, down) * _TAP_BYTES
        check_memory(f"resampling {rate} to {wanted} samples a second", needed, self.max_bytes)
        return np.asarray(signal.resample_poly(values, up, down))


def _as_int16(values: NDArray[Any]) -> NDArray[np.int16]:
    return np.asarray(np.clip(np.rint(values * 32768), -32768, 32767), np.int16)


def sound_of(
    content: bytes, dtype: str, max_bytes: int | None = None
) -> tuple[NDArray[Any], int]:
    """Return the samples of stored bytes, and how many are in a second.

    ValueError if libsndfile cannot decode them, they are cut short, or take more memory than
    `max_bytes`.
    """
    content = with_sizes(content)
    try:
        with soundfile.SoundFile(BytesIO(content)) as opened:
            rate, wanted = opened.samplerate, opened.frames
            is_stated = wanted < _UNKNOWN and not _is_guessed(content, opened.subtype)
            values = np.concatenate(list(_pieces(opened, dtype, max_bytes)))
    except Exception as error:  # damaged bytes make it raise several kinds
        reason = getattr(error, "error_string", str(error))
        raise ValueError(
            f"{len(content)} bytes are no sound that can be decoded: {reason}"
        ) from error
    if is_stated and len(values) < wanted:
        raise ValueError(f"the sound is cut short: {len(values)} of {wanted} samples are there")
    return values, int(rate)


def _pieces(opened: Any, dtype: str, max_bytes: int | None) -> Iterator[NDArray[Any]]:
    """Decode a sound piece by piece: its header may state any length, or none."""
    is_scaled = dtype == "int16" and opened.subtype in _FLOATS
    num_bytes = 0
    opened.seekable = lambda: False  # else it seeks after each, which not all codecs can
    while True:
        wanted = max(1, _PIECE // opened.channels)
        piece = opened.read(wanted, dtype="float64" if is_scaled else dtype)
        yield _as_int16(piece) if is_scaled else piece
        if not len(piece):
            return
        num_bytes += len(piece) * opened.channels * np.dtype(dtype).itemsize
        # They are there twice when they are joined.
        check_memory(f"a sound of {opened.frames} samples", 2 * num_bytes, max_bytes)


def _is_guessed(content: bytes, subtype: str) -> bool:
    """Return True for an MP3 that does not state its length, as those of pipes."""
    begin = 0
    if content.startswith(b"ID3"):  # with 7 bits of its size in a byte
        begin = 10 + sum(byte << 7 * n for n, byte in enumerate(reversed(content[6:10])))
    first = content[begin : begin + _FRAME]
    return subtype.startswith("MPEG") and b"Xing" not in first and b"Info" not in first
