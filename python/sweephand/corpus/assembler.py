"""Assembler of the sequences of a corpus into minibatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.reader import Reader
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError


def make_assembler(
    corpus: Corpus,
    options: _core.engine.AssembleOptions,
    padding_of: Callable[[StreamInfo], bytes],
    *,
    load_ahead: bool,
    report: Callable[[DataError], None],
    led_by: int = 0,
    readers: Sequence[Reader] | None = None,
    heads: Mapping[str, int] | None = None,
) -> _core.engine.Assembler:
    """Return the engine that carries out plans of a corpus."""
    readers = corpus.readers if readers is None else readers
    has_size_stream = corpus.size_stream is not None
    leader = led_by or len(corpus.chunk_starts)
    return _core.engine.Assembler(
        [
            reader.member(
                corpus.open_chunks, load_ahead=load_ahead, led_by=leader if number else led_by
            )
            for number, reader in enumerate(readers)
        ],
        [
            stream_spec(
                info,
                member,
                column,
                reader,
                padding_of(info),
                has_size_stream,
                head=(heads or {}).get(info.name, 0),
            )
            for member, reader in enumerate(readers)
            for column, info in enumerate(reader.streams)
        ],
        options,
        load_ahead,
        led_by,
        report,
    )


def stream_spec(
    info: StreamInfo,
    member: int,
    column: int,
    reader: Reader,
    padding: bytes,
    has_size_stream: bool,
    *,
    head: int = 0,
) -> _core.engine.StreamSpec:
    """Return how the engine delivers a stream, given where its reader has it."""
    dtype = np.dtype(np.uint8) if info.is_bytes else info.dtype
    return _core.engine.StreamSpec(
        name=info.name,
        member=member,
        column=column,
        type=element_type(dtype),
        element_bytes=dtype.itemsize,
        variable=info.is_variable,
        sparse=info.is_sparse,
        head=head,
        sample_elements=int(np.prod(info.shape, dtype=np.int64)),
        broadcast=info.broadcast,
        single=info.is_single,
        carried=info.carried,
        counts=info.defines_mb_size
        if has_size_stream
        else reader.sized_by_streams and not info.carried,
        pad_value=padding,
    )
