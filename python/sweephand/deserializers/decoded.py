"""Corpora whose stored pictures and sounds are decoded, where streams ask for it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo
from sweephand.ext.vision.decode.pictures import Mode, image
from sweephand.ext.vision.decode.sounds import audio
from sweephand.maps.function_digest import function_digest
from sweephand.maps.known_map import KnownMap
from sweephand.maps.mapped import map_corpus
from sweephand.maps.open_context import OpenContext
from sweephand.maps.sequence_map import SequenceMap

_MODES: dict[int, Mode] = {1: "L", 3: "RGB", 4: "RGBA"}


def decode_streams(corpus: Corpus, opening: OpenContext) -> Corpus:
    """Return the corpus with the streams decoded whose definitions have a decoder.

    Raises
    ------
    ValueError
        If a shape or a dtype is none of a picture or a sound.
    ImportError
        If the library that decodes is not installed.
    DataError
        If the first sequences cannot be decoded.
    """
    streams = corpus.streams
    wanted = {info.name: info.decode for info in streams if info.decode is not None}
    for name, definition in wanted.items():
        decoder = _decoder(name, definition)
        definitions = StreamDefs(
            {
                info.name: _plain(definition, definition.shape, definition.dtype)
                if info.name == name
                else _plain(info)
                for info in corpus.streams
            }
        )
        digest = function_digest(decoder)
        made = SequenceMap(
            decoder, decoder.name, streams=definitions, size=decoder.size, digest=digest
        )
        corpus = map_corpus(corpus, made, opening)
    return corpus


def _decoder(name: str, definition: StreamDef) -> KnownMap:
    shape = definition.shape
    if definition.decode == "audio":
        dtype: Literal["float32", "int16"] = "float32"
        if definition.dtype is not None and np.dtype(definition.dtype) == np.int16:
            dtype = "int16"
        return audio(name, dtype=dtype)
    if shape is None:
        return image(name)
    if not isinstance(shape, tuple) or len(shape) != 3 or shape[0] not in _MODES:
        raise ValueError(
            f"stream {name!r} is of pictures, whose shape is (channels, height, width) with 1, "
            f"3 or 4 channels, got {shape!r:.60}; sh.decode.image has more to choose from"
        )
    return image(name, shape[1:], mode=_MODES[shape[0]])


def _plain(
    stream: StreamDef | StreamInfo, shape: Any = None, dtype: DTypeLike | None = None
) -> StreamDef:
    """Return the definition of a stream without a decoder."""
    return StreamDef(
        shape=shape,
        dtype=dtype,
        defines_mb_size=stream.defines_mb_size,
        transforms=stream.transforms,
        broadcast=stream.broadcast,
        carried=stream.carried,
    )
