"""TFRecord files of examples and sequence examples, written without TensorFlow."""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice
from sweephand.corpus.casts import as_array, cast
from sweephand.files.source_file import spec_of
from sweephand.run.writing import replaced_file

Feature = bool | int | float | bytes | str | Sequence[object] | NDArray[np.generic]
"""Value of a key of an example: numbers, bytes or text, one or a list of them."""

__all__ = ["Feature", "encode_example", "encode_record", "encode_sequence_example", "write"]

_WINDOW_BITS = {"gzip": 31, "zlib": 15}  # as zlib has them for the two


def _varints(values: NDArray[np.integer]) -> bytes:
    """Return all values in order."""
    places = np.arange(10, dtype=np.uint64) * np.uint64(7)
    sevens = values.astype(np.uint64)[:, None] >> places  # (values, 10)
    goes_on = np.zeros(sevens.shape, dtype=bool)
    goes_on[:, :-1] = sevens[:, 1:] != 0
    is_used = np.ones(sevens.shape, dtype=bool)
    is_used[:, 1:] = goes_on[:, :-1]
    encoded = (sevens & np.uint64(0x7F)).astype(np.uint8) | (goes_on.astype(np.uint8) << 7)
    return encoded[is_used].tobytes()


def _field(number: int, content: bytes) -> bytes:
    size = len(content)
    encoded = bytes([size]) if size < 0x80 else _varints(np.array([size]))
    return bytes([number << 3 | 2]) + encoded + content


def _encode_feature(key: str, value: Feature) -> bytes:
    values = value if isinstance(value, list | tuple | np.ndarray) else [value]
    texts = [
        one.encode() if isinstance(one, str) else one
        for one in values
        if isinstance(one, bytes | str)
    ]
    if texts:
        if len(texts) < len(values):
            raise ValueError(f"feature {key!r} mixes bytes or text with other values")
        return _field(1, b"".join(_field(1, text) for text in texts))
    try:
        array = as_array(f"feature {key!r}", values).reshape(-1)
        if array.dtype.kind == "f":
            array = cast(array, np.dtype("<f4"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"feature {key!r} holds no numbers, bytes or text: {error}") from None
    if array.size == 0:
        return b""
    if array.dtype.kind == "f":
        return _field(2, _field(1, array.tobytes()))
    if array.dtype.kind not in "biu":
        raise ValueError(f"feature {key!r} must hold integers, floats, bytes or text")
    return _field(3, _field(1, _varints(array.astype(np.int64))))


def encode_example(features: Mapping[str, Feature]) -> bytes:
    """Return the bytes of a ``tf.train.Example``, its features in the order of the mapping.

    Parameters
    ----------
    features : mapping of str to numbers, bytes or text, or arrays or lists of them
        Integers and booleans are stored as int64, unsigned ones above 2^63 - 1 with the same
        bits; floating-point numbers as float32; text in UTF-8. An array of any shape is stored
        flat, in C order. Anything else, and several kinds in a feature, are a ValueError.

    Examples
    --------
    >>> encode_example({"a": [1, -1]}).hex(" ")
    '0a 16 0a 14 0a 01 61 12 0f 1a 0d 0a 0b 01 ff ff ff ff ff ff ff ff ff 01'
    """
    entries = [
        _field(1, _field(1, key.encode()) + _field(2, _encode_feature(key, value)))
        for key, value in features.items()
    ]
    return _field(1, b"".join(entries))


def encode_sequence_example(
    context: Mapping[str, Feature], feature_lists: Mapping[str, Sequence[Feature]]
) -> bytes:
    """Return the bytes of a ``tf.train.SequenceExample``.

    The context belongs to the whole, as in `encode_example`; of each feature list the steps are
    given: ``[5, 6]`` are two of one value, an array of shape ``(steps, d)`` as many of d.

    Examples
    --------
    >>> encode_sequence_example({}, {"b": [2, 3]}).hex(" ")
    '0a 00 12 15 0a 13 0a 01 62 12 0e 0a 05 1a 03 0a 01 02 0a 05 1a 03 0a 01 03'
    """
    entries = []
    for key, steps in feature_lists.items():
        features = b"".join(_field(1, _encode_feature(key, step)) for step in steps)
        entries.append(_field(1, _field(1, key.encode()) + _field(2, features)))
    return encode_example(context) + _field(2, b"".join(entries))


def encode_record(data: bytes) -> bytes:
    """Return the data in its frame: length, checksum of the length, data, checksum of the data.

    Examples
    --------
    >>> encode_record(b"abc").hex(" ")
    '03 00 00 00 00 00 00 00 b0 99 49 0e 61 62 63 6e 57 f1 21'
    """
    length = struct.pack("<Q", len(data))
    sums = [_core.formats.mask_crc(_core.formats.crc32c(part)) for part in (length, data)]
    return length + struct.pack("<I", sums[0]) + data + struct.pack("<I", sums[1])


def write(
    path: str | PathLike[str],
    examples: Iterable[Mapping[str, Feature] | bytes],
    *,
    compression: Literal["gzip", "zlib"] | None = None,
) -> int:
    """Write a TFRecord file, and return the number of its records.

    Parameters
    ----------
    path : path
        The file. It is there only when all of it has been written.
    examples : iterable of mappings or bytes
        Each a record: what `encode_example` takes, or bytes to store as they are.
    compression : {None, "gzip", "zlib"}
        How the whole file is compressed; it then has no random access.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.tfrecord.write("train.tfrecord", [{"label": 7}, {"label": 8}])
    2
    >>> source = sh.MinibatchSource(sh.open("train.tfrecord"), randomize=False, max_sweeps=1)
    >>> source.next_minibatch(2)["label"].values.ravel()
    array([7, 8])
    """
    check_choice("compression", compression, None, *_WINDOW_BITS)
    packer = zlib.compressobj(wbits=_WINDOW_BITS[compression]) if compression else None
    count = 0
    with replaced_file(Path(spec_of(path))) as file:
        for example in examples:
            data = example if isinstance(example, bytes) else encode_example(example)
            record = encode_record(data)
            file.write(packer.compress(record) if packer else record)
            count += 1
        if packer:
            file.write(packer.flush())
    return count


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
