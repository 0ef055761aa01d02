"""Features of ``features.json``, and the streams that examples hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import DataError
from sweephand.ext.tfds.json_fields import JsonFields
from sweephand.ext.tfds.old_features import modernize
from sweephand.extend import AnyPath

BYTES = np.dtype(object)

_ENCODINGS = {"": None, "none": None, "bytes": "bytes", "zlib": "zlib"}


@dataclass(frozen=True)
class Feature:
    """A stream: a leaf of the tree of features, or a part of a leaf."""

    name: str  # the key in the examples: the names from the root on, joined by `/`
    dtype: np.dtype[Any] = BYTES  # of the elements; object for `bytes`
    shape: tuple[int, ...] = ()  # of one sample
    is_ragged: bool = False  # whether an example has any number of samples
    encoding: str | None = None  # how a whole tensor lies in one value of bytes
    # the array of a decoded image or sound; unknown extents are -1
    decoded: tuple[np.dtype[Any], tuple[int, ...]] | None = None
    decoder: Callable[[bytes], NDArray[Any]] | None = None  # makes that array of the bytes
    refusal: str = ""  # why it cannot be read; empty if it can

    @property
    def is_packed(self) -> bool:
        """True if one value of bytes holds the whole tensor."""
        return self.encoding is not None or self.decoder is not None

    @property
    def decoded_bytes(self) -> int:
        """Bytes of the array that a decoder makes; 0 without a decoder."""
        return math.prod(self.shape) * self.dtype.itemsize if self.decoder else 0

    @property
    def stored(self) -> str:
        """Type of the stored values: "int64", "float32" or "bytes"."""
        if self.dtype.hasobject or self.is_packed:
            return "bytes"
        return "float32" if self.dtype.kind == "f" else "int64"


def read_features(file: AnyPath, content: object) -> dict[str, Feature]:
    """Return the streams that a tree of features makes, by their names."""
    try:
        found = list(_walk(JsonFields(file, modernize(content)), "", []))
    except json.JSONDecodeError as error:
        raise DataError(f"not valid JSON in a feature: {error}", str(file)) from None
    except RecursionError:
        raise DataError("the tree of features is too deep", str(file)) from None
    return {feature.name: feature for feature in found}


def _walk(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    """Go down the tree; `outer` are the lengths of the sequences that a feature is in."""
    for content, visit in _CONTENTS.items():
        if node.has(content):
            yield from visit(node.nested(content), path, outer)
            return
    kind = node.text("pythonClassName")
    if not (path and kind):
        raise node.damaged(f"{path!r} is no feature" if path else "there are no features")
    yield _refuse(path, f"is a {kind}")


def _features_dict(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    features = node.nested("features")
    for name in features:
        yield from _walk(features.nested(name), _join(path, name), outer)


def _sequence(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    yield from _walk(
        node.nested("feature"), path, [*outer, node.integer("length", -1, least=-1)]
    )


def _translation(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    if node.flag("variableLanguagesPerExample"):
        languages, outer = ["language", "translation"], [*outer, -1]
    else:
        languages = node.texts("languages")
    for language in languages:
        yield from _shaped(_join(path, language), BYTES, [], outer)


def _leaf(
    dtype: DTypeLike, shape: Sequence[int], node: JsonFields, path: str, outer: list[int]
) -> Iterator[Feature]:
    yield from _shaped(path, np.dtype(dtype), shape, outer)


def _file(dtype: str, node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    """Yield a file in one value of bytes, and the array that it holds."""
    declared = _dtype_of(node.text("dtype") or dtype)
    shape = tuple(node.nested("shape").integers("dimensions", least=-1))
    decoded = (declared, shape) if declared is not None and shape else None
    for feature in _shaped(path, BYTES, [], outer):
        yield replace(feature, decoded=decoded)


def _video(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    yield from _shaped(path, BYTES, [], [*outer, -1])


def _tensor(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    shape = list(node.nested("shape").integers("dimensions", least=-1))
    encoding = node.text("encoding").lower()  # audio has it in capitals
    dtype = _dtype_of(node.text("dtype"))
    if encoding not in _ENCODINGS:
        yield _refuse(path, f"has the encoding {encoding!r}")
    elif not node.has("dtype"):
        raise node.damaged(f"the feature {path!r} has no dtype")
    elif dtype is None:
        yield _refuse(path, f"has the dtype {node.text('dtype')!r}")
    else:
        yield from _shaped(path, dtype, shape, outer, _ENCODINGS[encoding])


def _perhaps_tensor(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    for feature in _tensor(node, path, outer):
        if node.flag("optional") and feature.encoding is not None:
            yield _refuse(path, "is optional and encoded")
        elif node.flag("optional"):
            yield replace(feature, is_ragged=True)
        else:
            yield feature


def _audio(node: JsonFields, path: str, outer: list[int]) -> Iterator[Feature]:
    if node.flag("lazyDecode"):
        yield from _file("int64", node, path, outer)
    else:
        yield from _tensor(node, path, outer)


_CONTENTS: dict[str, Callable[[JsonFields, str, list[int]], Iterator[Feature]]] = {
    "featuresDict": _features_dict,
    "sequence": _sequence,
    "translation": _translation,
    "text": partial(_leaf, object, ()),
    "image": partial(_file, "uint8"),
    "video": _video,
    "classLabel": partial(_leaf, np.int64, ()),
    "boundingBox": partial(_leaf, np.float32, (4,)),
    "tensor": _perhaps_tensor,
    "audio": _audio,
}


def _shaped(
    name: str,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    outer: Sequence[int],
    encoding: str | None = None,
) -> Iterator[Feature]:
    """Yield the streams of a tensor in sequences."""
    num_unknown = sum(extent < 0 for extent in shape)
    whole = [*outer, *shape]
    if num_unknown > 1:
        yield from _shaped(f"{name}/shape", np.dtype(np.int64), [len(shape)], outer)
        yield from _shaped(f"{name}/value", BYTES, [], outer)
    elif encoding is not None and outer:
        yield _refuse(name, "is a sequence of encoded tensors")
    elif num_unknown and (len(outer) > 1 or -1 in outer):
        yield _refuse(name, "is a sequence of tensors of unknown shape")
    elif len(outer) > 1:
        sample = () if dtype.hasobject else tuple(shape)
        yield Feature(f"{name}/ragged_flat_values", dtype, sample, is_ragged=True)
        for level in range(len(outer) - 1):
            key = f"{name}/ragged_row_lengths_{level}"
            yield Feature(key, np.dtype(np.int64), is_ragged=True)
    elif all(extent >= 0 for extent in whole) and (not dtype.hasobject or not whole):
        yield Feature(name, dtype, tuple(whole), encoding=encoding)
    elif not dtype.hasobject and whole[0] < 0:
        yield Feature(name, dtype, tuple(whole[1:]), is_ragged=True, encoding=encoding)
    else:  # bytes have no shape, and of others an inner extent is unknown: one by one
        yield Feature(name, dtype, is_ragged=True, encoding=encoding)


def _dtype_of(name: str) -> np.dtype[Any] | None:
    if name in ("string", "object", "str", "bytes"):
        return BYTES
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    # The names that writers use; others have a byte order, or a size of this machine's.
    is_known = dtype.name == name and dtype.kind in "biuf" and dtype.itemsize <= 8
    return dtype if is_known else None


def _refuse(name: str, reason: str) -> Feature:
    return Feature(name, refusal=f"the feature {name!r} {reason}, which is not read here")


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
