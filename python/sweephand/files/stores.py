"""A store: how it is opened, by fsspec or obstore where that is installed, and asked again."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, TypeVar

from sweephand.files.time_limit import VARIABLE, call_within, time_limit
from sweephand.files.urls import WEB, has_secrets, is_signed, shown, without_secrets

Result = TypeVar("Result")

# Doubled after every attempt, and spread so that many workers do not come back at once.
ATTEMPTS = 6
_FIRST_DELAY = 0.2  # seconds

# Errors that a retry would not mend: names of exceptions, and status codes of web servers.
_FINAL: dict[int, set[object]] = {
    errno.ENOENT: {"FileNotFoundError", "NotFoundError", 404, 410},
    errno.EACCES: {"PermissionError", "PermissionDeniedError", "UnauthenticatedError"}
    | {401, 403},
    errno.EISDIR: {"IsADirectoryError"},
    errno.ENOTDIR: {"NotADirectoryError"},
    errno.EOPNOTSUPP: {"NotSupportedError", "UnsupportedOperation"},
}
_REASONS = {
    errno.EOPNOTSUPP: "the server does not serve parts of a file (ranges of bytes): copy the "
    "file to a local disk, or to a store or server that does"
}

_OBSTORE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "http", "https"}


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    It is made anew for every use, as fsspec keeps it: of its own in every process and thread.
    """
    protocol = url.partition("://")[0]
    is_web = url.startswith(WEB)
    limit = time_limit()
    # obstore asks web servers without the query and the user of a URL.
    if protocol in _OBSTORE and not (is_web and has_secrets(url)) and find_spec("obstore"):
        from obstore.fsspec import FsspecStore

        make: Any = FsspecStore  # its types know certain protocols, and no options of the rest
        options: dict[str, Any] = {"retry_config": {"retry_timeout": timedelta(seconds=limit)}}
        if is_web:  # other stores take it from the environment
            options["client_options"] = {"timeout": f"{limit}s", "allow_http": True}
        store = make(protocol, **options)
        return store, store._strip_protocol(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(
            f"reading {shown(url)} needs fsspec: pip install 'sweephand[remote]'"
        ) from None
    store, path = url_to_fs(url, use_listings_cache=False, **_web_options(url, limit))
    return store, path


def _web_options(url: str, limit: float) -> dict[str, Any]:
    """Return how fsspec asks a web server; a query stays as it was signed."""
    if not url.startswith(WEB) or not find_spec("aiohttp"):
        return {}
    from aiohttp import ClientTimeout

    logging.getLogger("fsspec.http").addFilter(_without_secrets)  # it keeps each filter once
    timeout = ClientTimeout(total=limit)
    return {"encoded": is_signed(url), "client_kwargs": {"timeout": timeout}}


def _without_secrets(record: logging.LogRecord) -> bool:
    """Take secrets of URLs out of a message for a log, and out of its exception."""
    message = record.getMessage()
    if record.exc_info:
        message += f"\n{logging.Formatter().formatException(record.exc_info)}"
    record.msg, record.args, record.exc_info = without_secrets(message, ""), None, None
    return True


def retry(action: Callable[[], Result], url: str, *, attempts: int = ATTEMPTS) -> Result:
    """Do something that a store may fail at for a while."""
    limit = time_limit()
    end = time.monotonic() + limit
    delay = _FIRST_DELAY
    outcome = "nothing came back"
    for attempt in range(1, attempts + 1):
        try:
            return call_within(max(0.0, end - time.monotonic()), action)
        except (TypeError, ImportError):
            raise
        except Exception as error:
            failure = error
        # Not within the handler: the cause of the error may hold secrets of the URL.
        _raise_final(failure, url)
        left = end - time.monotonic()
        if left > 0:
            reason = without_secrets(str(failure), url)
            outcome = f"the last by {type(failure).__name__}: {reason}"
            if attempt == attempts:
                break
            # The order of the data is not at stake.
            from random import uniform  # only here, as it takes its time to import

            time.sleep(min(left, delay * uniform(0.5, 1.5)))
            delay *= 2
        if time.monotonic() >= end:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"no answer within {limit:g} seconds, the limit that {VARIABLE} sets; "
                f"attempt {attempt}, {outcome}",
                shown(url),
            )
    raise OSError(errno.EIO, f"{attempts} attempts failed, {outcome}", shown(url))


def _raise_final(failure: Exception, url: str) -> None:
    """Raise a failure that another attempt would not mend."""
    known: set[object] = {kind.__name__ for kind in type(failure).__mro__}
    known.add(getattr(failure, "status", None))
    for code, final in _FINAL.items():
        if known & final:
            raise OSError(code, _REASONS.get(code, os.strerror(code)), shown(url))


def look_up(store: Any, path: str) -> Mapping[str, Any]:
    """Return a store's information on one object or folder."""
    try:
        info: Mapping[str, Any] = store.info(path)
    except Exception:
        if path.startswith(WEB):
            # obstore takes what is absent for a folder, which web servers cannot list; this is
            # answered in a clear way.
            store.cat_file(path, start=0, end=1)
        raise
    return info
