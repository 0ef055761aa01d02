"""URLs: patterns, and the parts that may be shown.

What follows the ``?`` may sign a request, as a parameter of a part of the path may
(``;token=...``), and what stands before an ``@`` may be a password: errors, ids, states and
index files hold none of them.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

WEB = ("http://", "https://")

_USER = re.compile(r"(?<=://)[^/?\s'\"<>]*:[^/?\s'\"<>]*@|(?<=http://|ttps://)[^/?\s'\"<>]*@")
_PARAMETER = re.compile(r";[^/;?#=]+=([^/;?#]*)")
_PARTS = re.compile(r"(.*?)((?:;[^/;?#=]+=[^/?#]*)?(?:\?.*)?)", re.DOTALL)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]*", re.IGNORECASE)
_SHORTEST_SECRET = 6  # a shorter one may be part of any word


def is_url(spec: str) -> bool:
    """Return True if a path is an fsspec URL; an existing path is taken literally."""
    # Not Path.exists, which raises where a URL is longer than a name may be.
    return "://" in spec and not os.path.exists(spec)  # noqa: PTH110


def is_pattern(url: str) -> bool:
    """Return True if a URL is a pattern: it holds ``*`` or ``[``."""
    path = url.partition("://")[2]
    if url.startswith(WEB):
        path = _PARAMETER.sub("", path.partition("?")[0]).partition("/")[2]
    return "*" in path or "[" in path


def shown(url: str) -> str:
    """Return a URL without its query, parameters, user and password."""
    return _USER.sub("", _PARAMETER.sub("", url.partition("?")[0]))


def split_end(url: str) -> tuple[str, str]:
    """Return a URL up to the end of its path, and its query and the last part's parameters."""
    found = _PARTS.fullmatch(url)
    assert found is not None
    return found[1], found[2]


def is_signed(url: str) -> bool:
    """Return True if a URL has a query or parameters, and may be good for one object alone."""
    return bool(split_end(url)[1]) or bool(_PARAMETER.search(url))


def without_secrets(text: str, url: str) -> str:
    """Return a client's message on a URL without the secrets of this and any other URL."""
    path, _, query = url.partition("?")
    secrets = {query, *(part.partition("=")[2] for part in query.split("&"))}
    secrets.update(_PARAMETER.findall(path))
    secrets.update(part.rstrip("@").partition(":")[2] for part in _USER.findall(path))
    for secret in sorted(secrets | {unquote(one) for one in secrets}, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "...")
    return _URL.sub(lambda found: shown(found[0]), _USER.sub("", text))


def has_secrets(url: str) -> bool:
    """Return True if there is more in a URL than is shown."""
    return shown(url) != url


def swap_suffix(spec: str, suffix: str, *, known: tuple[str, ...]) -> str:
    """Return a path or URL with another suffix in place of known ones; its end stays."""
    path, end = split_end(spec) if "://" in spec else (spec, "")
    for one in known:
        path = path.removesuffix(one)
    return path + suffix + end
