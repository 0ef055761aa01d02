from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import sweephand._core.base
import sweephand._core.compose
import sweephand._core.index
import sweephand._core.order
import sweephand._core.read
import typing
__all__: list[str] = ['AssembleOptions', 'Assembler', 'Batch', 'Engine', 'EngineStats', 'Form', 'LookAhead', 'MadeSequences', 'MappedSequences', 'Member', 'MixedMember', 'MixedSequences', 'NextMethod', 'ServedBatch', 'ServedCursor', 'ServedStream', 'StreamBatch', 'StreamKinds', 'StreamSpec', 'WorkTime', 'convert']
class Form:
    """
    Members:
    
      RAGGED
    
      PADDED
    
      ROWS
    """
    PADDED: typing.ClassVar[Form]
    RAGGED: typing.ClassVar[Form]
    ROWS: typing.ClassVar[Form]
    __members__: typing.ClassVar[dict[str, Form]]
    @typing.overload
    def __eq__(self, other: Form) -> bool:
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
    def __ne__(self, other: Form) -> bool:
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
class AssembleOptions:
    def __init__(self, form: Form, pad_left: bool, multiple_of: typing.SupportsInt | typing.SupportsIndex, segments: bool) -> None:
        ...
    @property
    def multiple_of(self) -> int:
        ...
    @property
    def pad_left(self) -> bool:
        ...
class StreamBatch:
    def __getstate__(self) -> tuple:
        ...
    def __setstate__(self, arg0: tuple) -> None:
        ...
    def beyond(self, dtype: numpy.dtype[typing.Any], shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> typing.Any:
        ...
    def element_offsets(self) -> typing.Any:
        ...
    def indices(self) -> typing.Any:
        ...
    @property
    def is_grid(self) -> bool:
        ...
    @property
    def longest(self) -> int:
        ...
    @property
    def num_elements(self) -> int:
        ...
    @property
    def num_samples(self) -> int:
        ...
    @property
    def rows(self) -> int:
        ...
    @property
    def width(self) -> int:
        ...
class Batch:
    def __getstate__(self) -> tuple:
        ...
    def __setstate__(self, arg0: tuple) -> None:
        ...
    def banned(self) -> numpy.typing.NDArray[numpy.uint64]:
        ...
    def cells(self) -> numpy.typing.NDArray[numpy.uint32]:
        ...
    def mask(self, stream: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        ...
    def position_ids(self) -> typing.Any:
        ...
    def rows_of(self, begin: typing.SupportsInt | typing.SupportsIndex, end: typing.SupportsInt | typing.SupportsIndex) -> Batch:
        ...
    def sample_offsets(self, stream: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        ...
    def segment_ids(self) -> typing.Any:
        ...
    def sequences(self) -> numpy.typing.NDArray[numpy.uint64]:
        ...
    def sizes(self) -> numpy.typing.NDArray[numpy.uint32]:
        ...
    def split_context(self, num_ranks: typing.SupportsInt | typing.SupportsIndex, cost: sweephand._core.compose.Cost) -> sweephand._core.compose.ContextSplit:
        ...
    def stream(self, stream: typing.SupportsInt | typing.SupportsIndex) -> StreamBatch:
        ...
    def sweeps(self) -> numpy.typing.NDArray[numpy.uint64]:
        ...
    def with_streams(self, numbers: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> Batch:
        ...
    @property
    def begin(self) -> sweephand._core.compose.Position:
        ...
    @property
    def counted(self) -> sweephand._core.compose.PieceCount:
        ...
    @property
    def end_of_data(self) -> bool:
        ...
    @property
    def global_rows(self) -> int:
        ...
    @property
    def next(self) -> sweephand._core.compose.Position:
        ...
    @property
    def nominal_time(self) -> int:
        ...
    @property
    def num_cells(self) -> int:
        ...
    @property
    def num_rows(self) -> int:
        ...
    @property
    def num_samples(self) -> int:
        ...
    @property
    def num_sequences(self) -> int:
        ...
    @property
    def options(self) -> AssembleOptions:
        ...
    @property
    def request(self) -> sweephand._core.compose.Request:
        ...
    @property
    def row_length(self) -> int:
        ...
    @property
    def share_ends(self) -> int:
        ...
    @property
    def share_samples(self) -> int:
        ...
    @property
    def share_size(self) -> int:
        ...
    @property
    def sweeps_ended(self) -> int:
        ...
class StreamKinds:
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
class ServedStream:
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
    def __getattribute__(self, name):
        """
        Return getattr(self, name).
        """
class ServedBatch:
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
    def __bool__(self):
        """
        True if self else False
        """
    def __getattribute__(self, name):
        """
        Return getattr(self, name).
        """
    def __getitem__(self, key):
        """
        Return self[key].
        """
class ServedCursor:
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
    @staticmethod
    def remember(*args, **kwargs):
        ...
    @staticmethod
    def serve(*args, **kwargs):
        ...
    @staticmethod
    def serve_by(*args, **kwargs):
        ...
class NextMethod:
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
    def __call__(self, *args, **kwargs):
        """
        Call self as a function.
        """
    def __get__(self, instance, owner = None):
        """
        Return an attribute of instance, which is of type owner.
        """
class Assembler:
    def __init__(self, members: collections.abc.Sequence[Member], streams: collections.abc.Sequence[StreamSpec], options: AssembleOptions, load_ahead: bool, led_by: typing.SupportsInt | typing.SupportsIndex, report: collections.abc.Callable) -> None:
        ...
class MadeSequences:
    pass
class MappedSequences(MadeSequences):
    def __init__(self, stored: Assembler, sizes: sweephand._core.index.Sizes, num_stored: typing.SupportsInt | typing.SupportsIndex, origins: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], make: collections.abc.Callable) -> None:
        ...
class Member:
    def __init__(self, deserializer: sweephand._core.read.Deserializer | None, made: MadeSequences | None, chunk_starts: sweephand._core.index.Starts, joined: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], part_starts: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64], load_threads: typing.SupportsInt | typing.SupportsIndex, open_chunks: typing.SupportsInt | typing.SupportsIndex, in_turns: bool) -> None:
        ...
class StreamSpec:
    def __init__(self, name: str, member: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex, type: sweephand._core.base.ElementType, element_bytes: typing.SupportsInt | typing.SupportsIndex, variable: bool, sparse: bool, head: typing.SupportsInt | typing.SupportsIndex, sample_elements: typing.SupportsInt | typing.SupportsIndex, broadcast: bool, single: bool, carried: bool, counts: bool, pad_value: bytes) -> None:
        ...
class MixedMember:
    def __init__(self, member: Member, streams: collections.abc.Sequence[StreamSpec], columns: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], absent: collections.abc.Sequence[StreamSpec], corpus: sweephand._core.index.Corpus, rate: sweephand._core.order.Rate) -> None:
        ...
class MixedSequences(MadeSequences):
    def __init__(self, members: collections.abc.Sequence[MixedMember], load_ahead: bool, led_by_first: bool, report: collections.abc.Callable) -> None:
        ...
class WorkTime:
    @property
    def total_ns(self) -> int:
        ...
    @property
    def waited_ns(self) -> int:
        ...
class EngineStats:
    @property
    def bytes_assembled(self) -> int:
        ...
    @property
    def bytes_held(self) -> int:
        ...
    @property
    def bytes_loaded(self) -> int:
        ...
    @property
    def cells(self) -> int:
        ...
    @property
    def chunk_hits(self) -> int:
        ...
    @property
    def chunks_loaded(self) -> int:
        ...
    @property
    def load(self) -> WorkTime:
        ...
    @property
    def made_ahead(self) -> int:
        ...
    @property
    def minibatches(self) -> int:
        ...
    @property
    def samples(self) -> int:
        ...
    @property
    def serves_ahead(self) -> bool:
        ...
    @property
    def waited_ns(self) -> int:
        ...
    @property
    def write(self) -> WorkTime:
        ...
class LookAhead:
    def __init__(self, timeline: sweephand._core.order.Timeline, limit: typing.SupportsInt | typing.SupportsIndex, by_lanes: bool, with_open: bool) -> None:
        ...
    def chunks_at(self, time: typing.SupportsInt | typing.SupportsIndex, request: sweephand._core.compose.Request) -> list[int] | None:
        ...
    @property
    def horizon(self) -> int:
        ...
class Engine:
    def __init__(self, planner: sweephand._core.compose.Planner, assembler: Assembler, num_threads: typing.SupportsInt | typing.SupportsIndex, prefetch: typing.SupportsInt | typing.SupportsIndex, adapts: bool, may_take_turns: bool, look_ahead: LookAhead) -> None:
        ...
    def close(self, seconds: typing.SupportsFloat | typing.SupportsIndex) -> bool:
        ...
    def next(self, request: sweephand._core.compose.Request) -> Batch:
        ...
    def resume(self, position: sweephand._core.compose.Position) -> None:
        ...
    def seek(self, time: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def serve(self, request: sweephand._core.compose.Request, kind: type, contents: typing.Any, device: typing.Any) -> typing.Any:
        ...
    def stats(self) -> EngineStats:
        ...
    @property
    def forked(self) -> bool:
        ...
    @property
    def position(self) -> sweephand._core.compose.Position:
        ...
    @property
    def time(self) -> int:
        ...
def convert(from_type: sweephand._core.base.ElementType, values: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8], to_type: sweephand._core.base.ElementType, out: numpy.typing.NDArray[numpy.uint8], count: typing.SupportsInt | typing.SupportsIndex) -> int | None:
    ...
