"""The sizes that files of sound state of their samples, and those of pipes, which state none.

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

from typing import Literal, NamedTuple

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
