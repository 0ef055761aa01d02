"""Corpora whose stored pictures and sounds are decoded, where streams ask for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sweephand.base.public_names import load_added
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.maps import KnownMap, OpenContext, SequenceMap, function_digest, map_corpus

_GROUP = "sweephand.decoders"  # of entry points: what decodes an "image" or "audio"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def decode_streams(corpus: Corpus, opening: OpenContext) -> Corpus:
    """Return the corpus with the streams decoded whose definitions have a decoder."""
    streams = corpus.streams
    wanted = {info.name: info.definition for info in streams if info.definition.decode}
    for name, definition in wanted.items():
        decoder = _decoder(name, definition)
        definitions = StreamDefs(
            {
                info.name: definition.of_form(definition.shape, definition.dtype)
                if info.name == name
                else info.definition.of_form()
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
    shape, kind = definition.shape, str(definition.decode)
    make: Callable[..., KnownMap] | None = load_added(_GROUP, kind)
    if make is None:
        raise ImportError(f"no package here decodes {kind!r}: no entry point of {_GROUP} does")
    if definition.decode == "audio":
        is_int16 = definition.dtype is not None and np.dtype(definition.dtype) == np.int16
        return make(name, dtype="int16" if is_int16 else "float32")
    if shape is None:
        return make(name)
    if not isinstance(shape, tuple) or len(shape) != 3 or shape[0] not in _MODES:
        raise ValueError(
            f"stream {name!r} is of pictures, whose shape is (channels, height, width) with 1, "
            f"3 or 4 channels, got {shape!r:.60}; sh.decode.image has more to choose from"
        )
    return make(name, shape[1:], mode=_MODES[shape[0]])
