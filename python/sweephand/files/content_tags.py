"""Tags of stores that change with the content of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CONTENT_TAGS = ("etag", "e_tag", "generation", "blob_id", "content-md5", "md5", "digest")
_TIME_TAGS = (
    *("last-modified", "last_modified", "lastmodified", "updated", "modified", "mtime"),
    "created",
)


def tag_of(info: Mapping[str, Any]) -> str:
    """Return the tag of an object that changes with its content."""
    known = {key.lower(): value for key, value in info.items()}
    for name in (*_CONTENT_TAGS, *_TIME_TAGS):
        if known.get(name) is not None:
            return f"{name} {known[name]}"
    return ""


def is_of_content(tag: str) -> bool:
    """Return True if a tag is made of the content, and not of a time.

    Examples
    --------
    >>> is_of_content(tag_of({"ETag": "5d41"})), is_of_content(tag_of({"mtime": 3}))
    (True, False)
    """
    return tag.startswith(_CONTENT_TAGS)
