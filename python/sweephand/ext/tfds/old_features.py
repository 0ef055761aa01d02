"""Trees of features as TFDS wrote them before they were Protocol Buffers messages."""

from __future__ import annotations

import json
from typing import Any

_CONTENTS = {
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
    """Return a tree as it is written today.

    Parameters
    ----------
    node : object
        What JSON holds: an old tree is a dict of "type" and "content"; others are returned as
        they are.

    Examples
    --------
    >>> modernize({"type": "a.Tensor", "content": {"shape": [None, 2]}})
    {'pythonClassName': 'a.Tensor', 'tensor': {'shape': {'dimensions': [-1, 2]}}}
    """
    if not isinstance(node, dict) or not {"type", "content"} <= node.keys():
        return node
    kind = str(node["type"]).rpartition(".")[2]
    key, content = _CONTENTS.get(kind, kind), node["content"]
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
