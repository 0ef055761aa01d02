from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
import typing_extensions
__all__: list[str] = ['Digest', 'ElementType', 'derive_key', 'digest_words', 'name_digest', 'name_digests', 'numbered_digests', 'sum_of_digests']
class ElementType:
    """
    Members:
    
      opaque
    
      bool_
    
      int8
    
      int16
    
      int32
    
      int64
    
      uint8
    
      uint16
    
      uint32
    
      uint64
    
      float16
    
      bfloat16
    
      float32
    
      float64
    """
    __members__: typing.ClassVar[dict[str, ElementType]]
    bfloat16: typing.ClassVar[ElementType]
    bool_: typing.ClassVar[ElementType]
    float16: typing.ClassVar[ElementType]
    float32: typing.ClassVar[ElementType]
    float64: typing.ClassVar[ElementType]
    int16: typing.ClassVar[ElementType]
    int32: typing.ClassVar[ElementType]
    int64: typing.ClassVar[ElementType]
    int8: typing.ClassVar[ElementType]
    opaque: typing.ClassVar[ElementType]
    uint16: typing.ClassVar[ElementType]
    uint32: typing.ClassVar[ElementType]
    uint64: typing.ClassVar[ElementType]
    uint8: typing.ClassVar[ElementType]
    @typing.overload
    def __eq__(self, other: ElementType) -> bool:
        ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool:
        ...
    def __getstate__(self) -> int:
        ...
    def __hash__(self) -> int:
        ...
    def __index__(self) -> int:
        ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def __int__(self) -> int:
        ...
    @typing.overload
    def __ne__(self, other: ElementType) -> bool:
        ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool:
        ...
    def __repr__(self) -> str:
        ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def __str__(self) -> str:
        ...
    @property
    def name(self) -> str:
        ...
    @property
    def value(self) -> int:
        ...
class Digest:
    def __init__(self) -> None:
        ...
    def hex(self) -> str:
        ...
    def update(self, bytes: typing_extensions.Buffer) -> None:
        ...
def derive_key(words: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
    ...
def digest_words(digests: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], seed: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.uint64]:
    ...
def name_digest(name: bytes) -> int:
    ...
def name_digests(bytes: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64]) -> numpy.typing.NDArray[numpy.uint64]:
    ...
def numbered_digests(prefix: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], count: typing.SupportsInt | typing.SupportsIndex) -> numpy.typing.NDArray[numpy.uint64]:
    ...
def sum_of_digests(names: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], firsts: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], streams: collections.abc.Sequence[tuple[bytes, bytes, bytes, typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], typing.Annotated[numpy.typing.ArrayLike, numpy.int64], typing.SupportsInt | typing.SupportsIndex]]) -> int:
    ...
