"""Stored sounds as arrays.

Files of sound state the size of their samples; those of pipes state none:

::

    RIFF   | id | size: 4 bytes | WAVE |        chunks | id | size: 4 bytes | content |
    FORM   | id | size: 4 bytes | AIFF |               | id | size: 4 bytes | content |
    CAF    | id | version: 4 bytes |                   | id | size: 8 bytes | content |
    W64    | 16 bytes | size: 8 bytes | 16 bytes |    | id: 16 bytes | size: 8 bytes | content |
    AU     | id | begin of samples: 4 bytes | size: 4 bytes | ...

RF64 has sizes of 8 bytes in its first chunk, ``ds64``, and those of W64 count the chunk's head.
What writes into a pipe, or was killed, leaves a size of 0, of all ones, or of 2 GiB and more.

https://www.rfc-editor.org/rfc/rfc2361, https://tech.ebu.ch/docs/tech/tech3306.pdf (RF64)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.vision.images.picture_map import samples_of
from sweephand.extend import KnownMap, OptionalModule, check_flag, check_int, check_memory

_LONGEST = 0x7FFFF000  # bytes: what writers to pipes give at least, where sizes have 4
_SIZES_OF_RF64 = 20, 28  # of the file and its samples
_NOT_HERE = 0xFFFFFFFF


class _Chunks(NamedTuple):
    """How the chunks of a container are stored."""

    order: Literal["little", "big"]
    first: int  # byte of them
    id_bytes: int
    size_bytes: int
    samples: bytes  # id, or its begin, of the chunk of samples
    even: int  # of which the size of a content is filled up to a multiple
    counted: int = 0  # bytes of a chunk's head that its size counts


class _Size(NamedTuple):
    """A stated size of samples: where it is, and where they begin."""

    at: int
    num_bytes: int
    begin: int


_CONTAINERS = {
    b"RIFF": _Chunks("little", 12, 4, 4, b"data", 2),
    b"RIFX": _Chunks("big", 12, 4, 4, b"data", 2),
    b"RF64": _Chunks("little", 12, 4, 4, b"data", 2),
    b"FORM": _Chunks("big", 12, 4, 4, b"SSND", 2),
    b"caff": _Chunks("big", 8, 4, 8, b"data", 1),
    b"riff": _Chunks("little", 40, 16, 8, b"data", 8, counted=24),
    b".snd": _Chunks("big", 0, 4, 4, b"", 1),
}


def with_sizes(content: bytes) -> bytes:
    """Return a stored sound, in which the size of its samples is stated."""
    chunks = _CONTAINERS.get(content[:4])
    size = None if chunks is None else _size_of_samples(content, chunks)
    if chunks is None or size is None:
        return content
    stated = int.from_bytes(content[size.at : size.at + size.num_bytes], chunks.order)
    there = len(content) - size.begin + chunks.counted
    longest = _LONGEST if size.num_bytes == 4 else (1 << 62)
    if stated >= longest or (stated == 0 and not _ends_as_stated(content, chunks)):
        filled = there.to_bytes(size.num_bytes, chunks.order)
        return content[: size.at] + filled + content[size.at + size.num_bytes :]
    if stated > there:
        whole = size.begin - chunks.counted + stated
        raise ValueError(f"the sound is cut short: {len(content)} of {whole} bytes")
    return content


def _size_of_samples(content: bytes, chunks: _Chunks) -> _Size | None:
    """Return the size of the samples; None if there is no such chunk."""
    if not chunks.samples:  # AU
        return _Size(8, 4, int.from_bytes(content[4:8], chunks.order))
    at = chunks.first
    while at + chunks.id_bytes + chunks.size_bytes <= len(content):
        size_at = at + chunks.id_bytes
        begin = size_at + chunks.size_bytes
        size = int.from_bytes(content[size_at:begin], chunks.order)
        if content.startswith(chunks.samples, at):
            if size == _NOT_HERE and content.startswith(b"RF64"):
                return _Size(_SIZES_OF_RF64[1], 8, begin)
            return _Size(size_at, chunks.size_bytes, begin)
        end = begin + size - chunks.counted
        if end <= at:
            return None
        at = end + -end % chunks.even
    return None


def _ends_as_stated(content: bytes, chunks: _Chunks) -> bool:
    """Return True if the outermost size is that of the file, so that it has no samples."""
    if chunks.first < 12:
        return False
    at, width = (4, 4) if chunks.id_bytes == 4 else (16, 8)
    end = int.from_bytes(content[at : at + width], chunks.order)
    end += 0 if chunks.counted else 8
    if end == _NOT_HERE + 8:
        at = _SIZES_OF_RF64[0]
        end = int.from_bytes(content[at : at + 8], chunks.order) + 8
    return end <= len(content) <= end + 1


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
        Whose samples are WAV, FLAC, OGG, MP3 or what else libsndfile knows.
    rate : int, optional
        Samples a second; a sound of another rate is resampled by SciPy's polyphase filter. By
        default each is as it is stored, whatever its rate.
    mono : bool
        Take the mean of all channels. Else samples of several have the shape (channels,), and
        those of one ``()``.
    dtype : {"float32", "int16"}
        Floats are in [-1, 1]; as int16 they are times 32,768, and cut where they are beyond.

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
