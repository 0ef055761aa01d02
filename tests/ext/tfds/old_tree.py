"""A features.json as TFDS wrote it in 2020, for examples of the recorded folder "kinds"."""

from __future__ import annotations

import json
from typing import Any


def old(kind: str, content: Any, **more: str) -> dict[str, Any]:
    return {"type": f"tensorflow_datasets.core.features.{kind}", "content": content, **more}


def tensor(dtype: str, *shape: int | None) -> dict[str, Any]:
    return old("tensor_feature.Tensor", {"shape": list(shape), "dtype": dtype})


TEXT = old("text_feature.Text", {})
IMAGE = {"shape": [3, 4, 3], "dtype": "uint8", "encoding_format": None}
OLD_TREE = old(
    "features_dict.FeaturesDict",
    {
        "int16": tensor("int16"),
        "matrix": tensor("int16", 2, 3),
        "first": tensor("int64", None, 2),
        "text": TEXT,
        "label": old("class_label_feature.ClassLabel", {"num_classes": 2}),
        "list": old("sequence_feature.Sequence", {"feature": tensor("int32"), "length": None}),
        "three": old("sequence_feature.Sequence", {"feature": tensor("float32"), "length": 3}),
        "dicts": old(
            "sequence_feature.Sequence",
            {
                "feature": old(
                    "features_dict.FeaturesDict", {"id": tensor("int64"), "name": TEXT}
                ),
                "length": None,
            },
        ),
        "box": old("bounding_boxes.BBoxFeature", {}),
        "image": old("image_feature.Image", IMAGE),
        "audio": old(
            "audio_feature.Audio",
            {"file_format": None, "shape": [None], "dtype": "int64", "sample_rate": None},
        ),
        "two_languages": old("translation_feature.Translation", {"languages": ["en", "fr"]}),
        "languages": old(
            "translation_feature.TranslationVariableLanguages",
            {"languages": ["de", "en", "fr"]},
        ),
        # Half way: messages as objects or as text in the old frame.
        "raw": old(
            "tensor_feature.Tensor",
            {"shape": {"dimensions": ["2"]}, "dtype": "float64", "encoding": "bytes"},
            proto_cls="tensorflow_datasets.TensorFeature",
        ),
        "uint64": old(
            "tensor_feature.Tensor",
            json.dumps({"shape": {}, "dtype": "uint64", "encoding": "none"}),
            proto_cls="tensorflow_datasets.TensorFeature",
        ),
    },
)
