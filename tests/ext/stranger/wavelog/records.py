"""Logs of waves: records of heights, each with its length and a checksum.

::

    file    "WAVELOG1" | record | record | ...
    record  u32 bytes n | u32 CRC-32 of the heights | n bytes of float32; all little-endian
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from sweephand import DataError
from sweephand.extend import Format, Places, RecordDeserializer, SampleType

MAGIC = b"WAVELOG1"
HEAD = struct.Struct("<II")


class WaveDeserializer(RecordDeserializer):
    """Serve the records of logs of waves, each a sequence of heights."""

    format = "wavelog 1"  # in its indexes
    samples: ClassVar = {"height": SampleType("float32")}

    def find_records(self, content: BinaryIO) -> Iterator[Places | DataError]:
        """Find the heights of each record, and compare its checksum."""
        content.seek(len(MAGIC))
        while head := content.read(HEAD.size):
            size, checksum = HEAD.unpack(head)
            begin = content.tell()
            heights = content.read(size)
            if len(heights) < size:
                raise DataError("the record is cut", offset=begin)
            if zlib.crc32(heights) == checksum:
                yield {"height": (begin, size)}
            else:
                yield DataError("the checksum is wrong", offset=begin)


WAVES = Format("wave log", "wavelog.records:WaveDeserializer", magic=MAGIC)
