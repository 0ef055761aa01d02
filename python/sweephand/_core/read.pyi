from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import os
import sweephand._core.base
import sweephand._core.index
import typing
__all__: list[str] = ['ByteSource', 'CallbackBytes', 'CallbackDeserializer', 'Chunk', 'Column', 'Deserializer', 'ExtentChunks', 'Extents', 'FetchingDeserializer', 'File', 'FileTag', 'FrameDeserializer', 'ListedFile', 'ResidentDeserializer', 'empty_bytes']
class FileTag:
    def __init__(self, size: typing.SupportsInt | typing.SupportsIndex, mtime_ns: typing.SupportsInt | typing.SupportsIndex, inode: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def inode(self) -> int:
        ...
    @property
    def mtime_ns(self) -> int:
        ...
    @property
    def size(self) -> int:
        ...
class ByteSource:
    @property
    def size(self) -> int:
        ...
class CallbackBytes(ByteSource):
    def __init__(self, path: os.PathLike | str | bytes, size: typing.SupportsInt | typing.SupportsIndex, read_into: collections.abc.Callable) -> None:
        ...
class File(ByteSource):
    @typing.overload
    def __init__(self, path: os.PathLike | str | bytes) -> None:
        ...
    @typing.overload
    def __init__(self, path: os.PathLike | str | bytes, tag: FileTag) -> None:
        ...
    def read_into(self, offset: typing.SupportsInt | typing.SupportsIndex, out: numpy.typing.NDArray[numpy.uint8]) -> None:
        ...
    @property
    def path(self) -> str:
        ...
    @property
    def tag(self) -> FileTag:
        ...
class ListedFile:
    def __init__(self, path: os.PathLike | str | bytes, tag: FileTag) -> None:
        ...
class Extents:
    def __init__(self, files: collections.abc.Sequence[ListedFile], numbers: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], bytes: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64]) -> None:
        ...
    def gather(self, offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], sizes: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], out: numpy.typing.NDArray[numpy.uint8]) -> None:
        ...
    @property
    def num_bytes(self) -> int:
        ...
class Column:
    def __init__(self, values: numpy.ndarray | None, sample_offsets: numpy.typing.NDArray[numpy.int64] | None, element_offsets: numpy.typing.NDArray[numpy.int64] | None, indices: numpy.typing.NDArray[numpy.int32] | None, element_bytes: typing.SupportsInt | typing.SupportsIndex, sample_elements: typing.SupportsInt | typing.SupportsIndex, type: sweephand._core.base.ElementType, extents: Extents | None, num_samples: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class Chunk:
    def __init__(self, columns: collections.abc.Sequence[Column], num_sequences: typing.SupportsInt | typing.SupportsIndex, bytes: typing.SupportsInt | typing.SupportsIndex, owner: typing.Any, skipped: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None:
        ...
class Deserializer:
    def load(self, chunk: typing.SupportsInt | typing.SupportsIndex) -> list:
        ...
class ResidentDeserializer(Deserializer):
    def __init__(self, corpus: Chunk) -> None:
        ...
class ExtentChunks(Deserializer):
    def __init__(self, corpus: Chunk, starts: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64]) -> None:
        ...
class FrameDeserializer(Deserializer):
    def __init__(self, sequences: Deserializer, names: collections.abc.Sequence[str], corpus: sweephand._core.index.Corpus, report: collections.abc.Callable) -> None:
        ...
class CallbackDeserializer(Deserializer):
    def __init__(self, load: collections.abc.Callable) -> None:
        ...
class FetchingDeserializer(Deserializer):
    def __init__(self, fetch: collections.abc.Callable) -> None:
        ...
def empty_bytes(size: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.uint8]:
    ...
