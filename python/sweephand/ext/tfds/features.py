"""Features of ``features.json``, and the streams that examples hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sweephand import DataError
from sweephand.extend import AnyPath, read_file

Value = TypeVar("Value")
Node = Mapping[str, Any]


@contextmanager
def json_errors(file: AnyPath) -> Iterator[None]:
    """Raise what is wrong with the content of a JSON file as a DataError of the file."""
    try:
        yield
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"it is damaged: {error}", str(file)) from error


def read_json(file: AnyPath) -> Node:
    """Return the object in a JSON file."""
    content = read_file(file)
    with json_errors(file):
        found = json.loads(content)
        if not isinstance(found, dict):
            raise TypeError(f"expected a JSON object, got {found!r:.80}")
        return found


def member(node: Node, name: str, kind: type[Value]) -> Value:
    """Return a member of a JSON object; if it is absent, an empty one."""
    value = node.get(name, kind())
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} must be a {kind.__name__}, got {value!r:.80}")
    return value


def objects(node: Node, name: str) -> list[Node]:
    """Return a list of objects."""
    found = member(node, name, list)
    if not all(isinstance(one, dict) for one in found):
        raise TypeError(f"{name!r} must hold objects")
    return found


def integers(node: Node, name: str, least: int = 0) -> tuple[int, ...]:
    """Return a list of integers in ``[least, 2^63)``, which may be text as in protocol JSON."""
    found = []
    for value in member(node, name, list):
        number = int(value) if isinstance(value, str) and value.isascii() else value
        if type(number) is not int or not least <= number < 2**63:
            raise ValueError(f"{name!r} must hold integers from {least}, got {value!r:.80}")
        found.append(number)
    return tuple(found)


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
    refusal: str = ""  # why it cannot be read; empty if it can

    @property
    def stored(self) -> str:
        """Type of the stored values: "int64", "float32" or "bytes"."""
        if self.dtype.hasobject or self.encoding is not None:
            return "bytes"
        return "float32" if self.dtype.kind == "f" else "int64"


def read_features(tree: Node) -> dict[str, Feature]:
    """Return the streams that a tree of features makes, by their names."""
    return {feature.name: feature for feature in _walk(tree, "", [])}


def _walk(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    """Go down the tree; `outer` are the lengths of the sequences that a feature is in."""
    for content, visit in _CONTENTS.items():
        if content in node:
            yield from visit(member(node, content, dict), path, outer)
            return
    kind = member(node, "pythonClassName", str)
    if not (path and kind):
        raise ValueError(f"{path!r} is no feature" if path else "there are no features")
    yield _refuse(path, f"is a {kind}")


def _features_dict(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    features = member(node, "features", dict)
    for name in features:
        yield from _walk(member(features, name, dict), _join(path, name), outer)


def _sequence(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    (length,) = integers({"length": [node.get("length", -1)]}, "length", -1)
    yield from _walk(member(node, "feature", dict), path, [*outer, length])


def _translation(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    languages = member(node, "languages", list)
    if member(node, "variableLanguagesPerExample", bool):
        languages, outer = ["language", "translation"], [*outer, -1]
    for language in languages:
        yield from _shaped(_join(path, f"{language}"), BYTES, [], outer)


def _leaf(
    dtype: DTypeLike, shape: Sequence[int], node: Node, path: str, outer: list[int]
) -> Iterator[Feature]:
    yield from _shaped(path, np.dtype(dtype), shape, outer)


def _tensor(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    shape = integers(member(node, "shape", dict), "dimensions", -1)
    encoding = member(node, "encoding", str).lower()  # audio has it in capitals
    name = member(node, "dtype", str)
    dtype = _dtype_of(name)
    is_optional = member(node, "optional", bool)
    if not name:
        raise ValueError(f"the feature {path!r} has no dtype")
    if encoding not in _ENCODINGS or (is_optional and _ENCODINGS[encoding]):
        yield _refuse(path, f"has the encoding {encoding!r}")
    elif dtype is None:
        yield _refuse(path, f"has the dtype {name!r}")
    else:
        for feature in _shaped(path, dtype, shape, outer, _ENCODINGS[encoding]):
            yield replace(feature, is_ragged=True) if is_optional else feature


def _audio(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    is_file = member(node, "lazyDecode", bool)
    yield from (_file if is_file else _tensor)(node, path, outer)


def _file(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    yield from _shaped(path, BYTES, [], outer)


def _video(node: Node, path: str, outer: list[int]) -> Iterator[Feature]:
    yield from _shaped(path, BYTES, [], [*outer, -1])


_CONTENTS: dict[str, Callable[[Node, str, list[int]], Iterator[Feature]]] = {
    "featuresDict": _features_dict,
    "sequence": _sequence,
    "translation": _translation,
    "text": _file,
    "image": _file,
    "video": _video,
    "classLabel": partial(_leaf, np.int64, ()),
    "boundingBox": partial(_leaf, np.float32, (4,)),
    "tensor": _tensor,
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
