"""Features of ``features.json``, and the streams that examples hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import DataError
from sweephand.extend import AnyPath, read_file

Value = TypeVar("Value", str, bool, list[object], dict[str, object])


class JsonFields:
    """The fields of one JSON object. Absent fields have their default values."""

    def __init__(self, file: AnyPath, values: object) -> None:
        if not isinstance(values, dict):
            raise DataError(f"expected a JSON object, found {values!r:.80}", str(file))
        self._file = file
        self._values: dict[str, object] = values

    def damaged(self, reason: str) -> DataError:
        """Return the error for what the file says."""
        return DataError(reason, str(self._file))

    def _get(self, name: str, default: Value) -> Value:
        value = self._values.get(name, default)
        if not isinstance(value, type(default)):
            wanted = type(default).__name__
            raise self.damaged(f"field {name!r} must be a {wanted}, got {value!r:.80}")
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        return self._get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return self._get(name, False)

    def nested(self, name: str) -> JsonFields:
        """Return an object."""
        return JsonFields(self._file, self._get(name, {}))

    def nested_list(self, name: str) -> list[JsonFields]:
        """Return a list of objects."""
        return [JsonFields(self._file, value) for value in self._get(name, [])]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that are there."""
        return iter(self._values)

    def has(self, name: str) -> bool:
        """Return True if a field is there."""
        return name in self._values

    def texts(self, name: str) -> list[str]:
        """Return a list of strings."""
        values = self._get(name, [])
        if not all(isinstance(value, str) for value in values):
            raise self.damaged(f"field {name!r} must hold strings")
        return [str(value) for value in values]

    def integer(self, name: str, default: int = 0, *, least: int = 0) -> int:
        """Return an integer in ``[least, 2^63)``."""
        return self._to_integer(name, self._values.get(name, default), least)

    def integers(self, name: str, *, least: int = 0) -> tuple[int, ...]:
        """Return a list of integers in ``[least, 2^63)``."""
        return tuple(self._to_integer(name, value, least) for value in self._get(name, []))

    def _to_integer(self, name: str, value: object, least: int) -> int:
        # 64-bit integers are text in the JSON form of Protocol Buffers.
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise self.damaged(
                f"field {name!r} must hold integers in [{least}, 2^63), got {value!r:.80}"
            )
        return value


def read_json(file: AnyPath) -> object:
    """Return the content of a JSON file.

    FileNotFoundError if there is no such file; DataError if it is not valid JSON.
    """
    try:
        content: object = json.loads(read_file(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", str(file)) from error
    return content


_OLD_CONTENTS = {
    "FeaturesDict": "featuresDict",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "ClassLabel": "classLabel",
    "Image": "image",
    "LabeledImage": "image",
    "Video": "video",
    "Audio": "audio",
    "BBoxFeature": "boundingBox",
    "Text": "text",
    "Translation": "translation",
    "TranslationVariableLanguages": "translation",
    "Sequence": "sequence",
    "Dataset": "sequence",
}


def modernize(node: Any) -> Any:
    """Return a tree as it is written today."""
    if not isinstance(node, dict) or not {"type", "content"} <= node.keys():
        return node
    kind = str(node["type"]).rpartition(".")[2]
    key, content = _OLD_CONTENTS.get(kind, kind), node["content"]
    if node.get("proto_cls"):  # it was half way
        content = json.loads(content) if isinstance(content, str) else content
    elif isinstance(content, dict):
        if content.get("use_encoder") is True:
            key = "encoded"  # texts that were stored as numbers of words: unknown today
        content = _modernize_content(kind, content)
    return {"pythonClassName": node["type"], key: content}


def _modernize_content(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    if kind == "FeaturesDict":
        return {"features": {name: modernize(one) for name, one in content.items()}}
    modern = dict(content)
    if "feature" in content:
        modern["feature"] = modernize(content["feature"])
    if "lazy_decode" in content:
        modern["lazyDecode"] = content["lazy_decode"]
    if kind == "TranslationVariableLanguages":
        modern["variableLanguagesPerExample"] = True
    if isinstance(content.get("shape"), list):
        modern["shape"] = {"dimensions": [-1 if n is None else n for n in content["shape"]]}
    return {name: one for name, one in modern.items() if one is not None}


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
