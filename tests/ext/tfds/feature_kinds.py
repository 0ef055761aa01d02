"""The kinds of features that TFDS writes; needs TFDS, see `record_tfds`."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
from tensorflow_datasets import features


def pixels(*shape: int, dtype: Any = np.uint8) -> Any:
    return (np.arange(np.prod(shape)) * 37 % 251).astype(dtype).reshape(shape)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def tensor(dtype: Any, *shape: int | None, encoding: str = "none", **options: Any) -> Any:
    return features.Tensor(shape=shape, dtype=dtype, encoding=encoding, **options)


def wave_file(*values: int) -> io.BytesIO:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(np.array(values, "<i2").tobytes())
    file.seek(0)
    return file


BOXES = [features.BBox(0.25, 0.5, 0.75, 1.0), features.BBox(0.0, 0.125, 0.5, 0.25)]
WORDS = [[1, 2, 3], [], [4]]
STEPS = [{"reward": floats(1)[0], "move": 2}, {"reward": floats(-0.5)[0], "move": 0}]

# The kinds of features, each with what two examples hold.
KINDS: dict[str, tuple[Any, list[Any]]] = {
    **{
        np.dtype(dtype).name: (dtype, [np.iinfo(dtype).min, np.iinfo(dtype).max])
        for dtype in (
            np.int8,
            np.int16,
            np.int32,
            np.int64,
            np.uint8,
            np.uint16,
            np.uint32,
            np.uint64,
        )
    },
    "bool": (np.bool_, [True, False]),
    "float16": (np.float16, [np.float16(0.1), np.float16(-2)]),
    "float32": (np.float32, [np.float32(0.1), np.float32(np.inf)]),
    "float64": (np.float64, [0.1, -1e300]),
    "text": (features.Text(), ["grün", ""]),
    "label": (features.ClassLabel(names=["cat", "dog"]), ["dog", 0]),
    "matrix": (tensor(np.int16, 2, 3), [pixels(2, 3, dtype=np.int16)] * 2),
    "texts": (tensor(np.str_, 2), [["a", "bc"], ["", "d"]]),
    "first": (tensor(np.int64, None, 2), [pixels(3, 2, dtype=np.int64), np.zeros((0, 2), int)]),
    "inner": (tensor(np.int64, 2, None), [pixels(2, 3, dtype=np.int64), np.zeros((2, 0), int)]),
    "dynamic": (
        tensor(np.int16, None, None, encoding="bytes"),
        [pixels(2, 3, dtype=np.int16), pixels(0, 4, dtype=np.int16)],
    ),
    "dynamics": (
        features.Sequence(tensor(np.uint8, None, None, encoding="zlib")),
        [[pixels(1, 2), pixels(1, 2) + 1], [pixels(2, 0)]],
    ),
    "raw": (tensor(np.float64, 2, encoding="bytes"), [np.array([0.1, 1e300])] * 2),
    "zipped": (
        tensor(np.uint64, 2, encoding="zlib"),
        [np.array([1, 2**64 - 1], np.uint64)] * 2,
    ),
    "zipped_flags": (tensor(np.bool_, 3, encoding="zlib"), [np.array([True, False, True])] * 2),
    "some_raw": (
        tensor(np.int32, None, 2, encoding="bytes"),
        [pixels(2, 2, dtype=np.int32)] * 2,
    ),
    "perhaps": (tensor(np.int64, optional=True), [5, None]),
    "perhaps_pair": (tensor(np.float32, 2, optional=True), [None, floats(1, 2)]),
    "nest": ({"a": {"b": np.int64}, "c": features.Text()}, [{"a": {"b": 1}, "c": "x"}] * 2),
    "list": (features.Sequence(np.int32), [[1, -2, 3], []]),
    "three": (features.Sequence(np.float32, length=3), [floats(1, 2, 3)] * 2),
    "labels": (features.Sequence(features.ClassLabel(num_classes=4)), [[3, 1], [0]]),
    "rows": (features.Sequence(tensor(np.int64, 2)), [[[1, 2], [3, 4]], []]),
    "words": (features.Sequence(features.Text()), [["a", "", "bc"], []]),
    "dicts": (
        features.Sequence({"id": np.int64, "name": features.Text()}),
        [{"id": [1, 2], "name": ["a", "b"]}, {"id": [], "name": []}],
    ),
    "ragged": (features.Sequence(features.Sequence(np.int64)), [WORDS, []]),
    "ragged_3": (
        features.Sequence(features.Sequence(features.Sequence(np.int64))),
        [[WORDS, [], [[5]]], [[]]],
    ),
    "ragged_rows": (
        features.Sequence(features.Sequence(tensor(np.float32, 2))),
        [[[floats(1, 2)], []], [[floats(3, 4), floats(5, 6)]]],
    ),
    "ragged_words": (
        features.Sequence({"w": features.Sequence(features.Text())}),
        [
            {"w": [["a", "b"], []]},
            {"w": []},
        ],
    ),
    "steps": (features.Dataset({"reward": np.float32, "move": np.int64}), [STEPS, STEPS[:1]]),
    "image": (features.Image(shape=(3, 4, 3)), [pixels(3, 4, 3), pixels(3, 4, 3) + 1]),
    "grey": (features.Image(shape=(3, 4, 1)), [pixels(3, 4, 1)] * 2),
    "alpha": (features.Image(shape=(3, 4, 4)), [pixels(3, 4, 4)] * 2),
    "any_image": (features.Image(), [pixels(3, 4, 3), pixels(2, 5, 3)]),
    "jpeg": (features.Image(shape=(8, 8, 3), encoding_format="jpeg"), [pixels(8, 8, 3)] * 2),
    "deep": (
        features.Image(shape=(2, 2, 1), dtype=np.uint16),
        [pixels(2, 2, 1, dtype=np.uint16) * 255] * 2,
    ),
    "images": (features.Sequence(features.Image(shape=(2, 2, 3))), [[pixels(2, 2, 3)], []]),
    "classes": (features.LabeledImage(labels=3, shape=(2, 2, 1)), [pixels(2, 2, 1) % 3] * 2),
    "video": (features.Video(shape=(2, 2, 2, 3)), [pixels(2, 2, 2, 3)] * 2),
    "any_video": (
        features.Video(shape=(None, 2, 2, 3)),
        [pixels(3, 2, 2, 3), pixels(1, 2, 2, 3)],
    ),
    "box": (features.BBoxFeature(), BOXES),
    "boxes": (features.Sequence(features.BBoxFeature()), [BOXES, []]),
    "audio": (features.Audio(), [pixels(5, dtype=np.int64), pixels(2, dtype=np.int64)]),
    "stereo": (
        features.Audio(shape=(None, 2), dtype=np.int16),
        [pixels(3, 2, dtype=np.int16)] * 2,
    ),
    "wave": (
        features.Audio(file_format="wav", dtype=np.int32),
        [pixels(4, dtype=np.int32)] * 2,
    ),
    "zipped_wave": (
        features.Audio(file_format="wav", dtype=np.int16, encoding="zlib"),
        [wave_file(1, -2, 3, -4), wave_file(5)],
    ),
    "lazy_wave": (
        features.Audio(file_format="wav", shape=(3,), dtype=np.int16, lazy_decode=True),
        [wave_file(1, -2, 3), wave_file(4, 5, 6)],
    ),
    "two_languages": (features.Translation(["en", "fr"]), [{"en": "cat", "fr": "chat"}] * 2),
    "languages": (
        features.TranslationVariableLanguages(["de", "en", "fr"]),
        [{"en": "cat", "fr": ["chat", "chatte"]}, {"de": "Katze"}],
    ),
}
