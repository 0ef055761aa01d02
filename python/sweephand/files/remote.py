"""Objects of a store, found and read by ranges."""

from __future__ import annotations

import errno
import io
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from threading import Thread, local
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError, StaleError
from sweephand.files import MOST_REQUESTS
from sweephand.files.local import find_local, stat_file
from sweephand.files.source_file import SourceFile, is_leftover, no_match
from sweephand.files.urls import WEB, has_secrets, is_pattern, is_signed, shown, without_secrets

Result = TypeVar("Result")

VARIABLE = "SWEEPHAND_REMOTE_TIMEOUT"
_DEFAULT = 60.0


def time_limit() -> float:
    """Return the seconds that asking a store may take, all attempts together."""
    given = os.environ.get(VARIABLE)
    if not given:
        return _DEFAULT
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{VARIABLE} must be a positive number of seconds, got {given!r}")
    return seconds


def call_within(seconds: float, action: Callable[[], Result]) -> Result:
    """Do something that may take too long, and wait no longer for it than that.

    It runs on a thread of its own, as no client of a store can be trusted to end in time; one
    that does not is left alone, and neither the process nor anybody else waits for it.
    """
    from concurrent.futures import Future  # only here, as it brings logging

    future: Future[Result] = Future()

    def run() -> None:
        try:
            found = action()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    Thread(target=run, name="sweephand-request", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the client's own
            raise
    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


_LOCAL = ("file", "local")
# Tags of an object, those of its content first.
_CONTENT_TAGS = ("etag", "e_tag", "generation", "blob_id", "content-md5", "md5", "digest")
_TIME_TAGS = (
    *("last-modified", "last_modified", "lastmodified", "updated", "modified", "mtime"),
    "created",
)


@dataclass(frozen=True)
class RemoteFile(SourceFile):
    """An object of a store; its path is its URL, as far as it may be shown."""

    url: str = field(repr=False)  # what the store is asked for, which may hold secrets

    @property
    def spec(self) -> str:
        """The URL."""
        return self.url

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `fetch`, which needs no array."""
        out[:] = self.fetch(offset, out.size)

    def fetch(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        """Return bytes from `offset` on by one request or of a cache; see `SourceFile`."""
        self._check_end(offset, size)
        fetch = current() or RemoteFile.request
        return fetch(self, offset, size, padding)

    def request(self, offset: int, size: int, padding: int = 0) -> NDArray[np.uint8]:
        """Return bytes from `offset` on by one request."""
        end = min(offset + size + padding, self.size)

        def request() -> bytes:
            store, path = open_store(self.url)
            content: bytes = store.cat_file(path, start=offset, end=end)
            if len(content) > end - offset:
                raise io.UnsupportedOperation("all of the file came for a range of it")
            if len(content) != end - offset:
                raise OSError(
                    errno.EIO, f"asked for {end - offset} bytes, got {len(content)}", self.path
                )
            return content

        content = np.frombuffer(retry(request, self.url) if end > offset else b"", np.uint8)
        lacking = size + padding - content.size  # at the end of the object
        return np.append(content, np.zeros(lacking, np.uint8)) if lacking else content

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on, of the object that was listed."""
        content = super().read(offset, size)
        self.check_unchanged()
        return content

    def check_unchanged(self) -> None:
        """Raise StaleError if the object is not the listed object; a cache does so."""
        if current() is None:
            self.look()

    def look(self) -> None:
        """Raise StaleError if the store has replaced the listed object."""

        def request() -> Mapping[str, Any]:
            return look_up(*open_store(self.url))

        now = retry(request, self.url)
        if (now.get("size"), tag_of(now)) != (self.size, self.tag):
            raise StaleError(
                f"the object was replaced: it had {self.size} bytes and {self.tag}, now it has "
                f"{now.get('size')} and {tag_of(now)}",
                self.path,
            )

    @property
    def tells_apart(self) -> bool:
        """True if path, size and tag identify the object; a query might name another."""
        return is_of_content(self.tag) or (bool(self.tag) and not has_secrets(self.url))


Fetch = Callable[[RemoteFile, int, int, int], NDArray[np.uint8]]
"""Returns bytes of an object as its `request` does, and checks that it is unchanged."""

_threads = local()


def current() -> Fetch | None:
    """Return what this thread fetches ranges by: a cache; None: the store alone."""
    return getattr(_threads, "fetch", None)


@contextmanager
def entered(fetch: Fetch | None) -> Iterator[None]:
    """Have this thread fetch ranges by something for a while."""
    before, _threads.fetch = current(), fetch
    try:
        yield
    finally:
        _threads.fetch = before


def find_objects(urls: Sequence[str]) -> list[list[SourceFile]]:
    """Find the objects that each URL names, which may be a glob; see `find_files`."""
    literal = [url for url in urls if not is_pattern(url)]
    described = dict(zip(literal, describe_listed(literal), strict=True))
    return _at_once(lambda url: [described[url]] if url in described else _match(url), urls)


def describe_listed(urls: Sequence[str]) -> list[SourceFile]:
    """Look at objects; several in a folder are found by its list, if it tells their content."""
    listed = [
        url for url in urls if not (_is_local(url) or is_signed(url) or url.startswith(WEB))
    ]
    folders = Counter(url.rpartition("/")[0] for url in listed)
    several = [folder for folder, count in folders.items() if count > 1]
    listing = {url: info for one in _at_once(list_folder, several) for url, info in one.items()}
    return describe_objects(urls, listing)


def _is_local(url: str) -> bool:
    return url.partition("://")[0] in _LOCAL


def _match(url: str) -> list[SourceFile]:
    if _is_local(url):
        return find_local(url.partition("://")[2])
    store, path = open_store(url)
    found: dict[str, Any] = retry(lambda: store.glob(path, detail=True), url)
    objects = {name: info for name, info in sorted(found.items()) if info["type"] == "file"}
    hidden = _base(path).startswith(".")  # if they are asked for
    leftovers = [name for name in objects if is_leftover(_base(name), hidden=hidden)]
    chosen = [name for name in objects if name not in leftovers]
    if not chosen:
        raise no_match(url, leftovers)
    listing = {store.unstrip_protocol(name): objects[name] for name in chosen}
    return describe_objects(list(listing), listing)


def describe_objects(
    urls: Sequence[str],
    listing: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    *,
    trusted: bool = False,
) -> list[SourceFile]:
    """Look at objects."""
    return _at_once(lambda url: _describe(url, listing, trusted=trusted), urls)


def _describe(
    url: str, listing: Mapping[str, Mapping[str, Any]], *, trusted: bool = False
) -> SourceFile:
    if _is_local(url):
        return stat_file(url.partition("://")[2])
    store, path = open_store(url)
    info = listing.get(url, {})
    url = store.unstrip_protocol(path)
    info = info or listing.get(url, {})
    if info.get("size") is None or not (trusted or is_of_content(tag_of(info))):
        info = retry(lambda: look_up(store, path), url)
    if info["type"] != "file":
        raise DataError("this is a folder; name the files in it, such as '*'", shown(url))
    if info.get("size") is None:
        raise DataError("the store does not say how large the object is", shown(url))
    return RemoteFile(shown(url), _base(shown(url)), info["size"], tag_of(info), url)


def _at_once(ask: Callable[[str], Result], urls: Sequence[str]) -> list[Result]:
    """Ask a store about several objects, a few at a time."""
    if not urls:
        return []
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    with ThreadPoolExecutor(min(MOST_REQUESTS, len(urls)), "sweephand-list") as threads:
        return list(threads.map(ask, urls))


def list_folder(url: str) -> dict[str, Mapping[str, Any]]:
    """Return a store's information on the objects and folders in a folder, by URL.

    There is none where a store has no such folder, or makes no lists, as many web servers.
    """
    store, path = open_store(url)

    def request() -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = store.ls(path, detail=True)
        return found

    is_web = url.startswith(WEB)
    try:
        found = retry(request, url, attempts=1 if is_web else ATTEMPTS)
    except TimeoutError:
        raise
    except OSError as error:
        if is_web or isinstance(error, FileNotFoundError):
            return {}
        raise
    # Some write the names of folders with a slash at their end.
    return {store.unstrip_protocol(info["name"].rstrip("/")): info for info in found}


def canonical(url: str) -> str:
    """Return a URL in the spelling of its store's lists, and a local URL as a path."""
    if _is_local(url):
        return url.partition("://")[2]
    store, path = open_store(url)
    return str(store.unstrip_protocol(path))


def read_object(url: str) -> bytes:
    """Return all of a small object."""

    def request() -> bytes:
        store, path = open_store(url)
        content: bytes = store.cat_file(path)
        return content

    return retry(request, url)


def info_of(url: str) -> Mapping[str, Any]:
    """Return a store's information on an object or folder; empty where there is nothing."""
    try:
        return retry(lambda: look_up(*open_store(url)), url)
    except FileNotFoundError:
        return {}


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def tag_of(info: Mapping[str, Any]) -> str:
    """Return the tag of an object that changes with its content."""
    known = {key.lower(): value for key, value in info.items()}
    for name in (*_CONTENT_TAGS, *_TIME_TAGS):
        if known.get(name) is not None:
            return f"{name} {known[name]}"
    return ""


def is_of_content(tag: str) -> bool:
    """Return True if a tag is made of the content, and not of a time."""
    return tag.startswith(_CONTENT_TAGS)


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
_REASONS = {errno.EOPNOTSUPP: "the server does not serve parts of a file: copy it elsewhere"}

_OBSTORE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "http", "https"}


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    It is made anew for every use, as fsspec keeps it: of its own in every process and thread.
    """
    protocol = url.partition("://")[0]
    is_web = url.startswith(WEB)
    limit = time_limit()
    options: dict[str, Any]
    # obstore asks web servers without the query and the user of a URL.
    if protocol in _OBSTORE and not (is_web and has_secrets(url)) and find_spec("obstore"):
        from obstore.fsspec import FsspecStore

        make: Any = FsspecStore  # its types know certain protocols, and no options of the rest
        options = {"retry_config": {"retry_timeout": timedelta(seconds=limit)}}
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
    options = {"use_listings_cache": False}
    if is_web and find_spec("aiohttp"):  # a query stays as it was signed
        from aiohttp import ClientTimeout

        logging.getLogger("fsspec.http").addFilter(_without_secrets)  # it keeps each once
        timeout = ClientTimeout(total=limit)
        options |= {"encoded": is_signed(url), "client_kwargs": {"timeout": timeout}}
    store, path = url_to_fs(url, **options)
    return store, path


def _without_secrets(record: logging.LogRecord) -> bool:
    """Take secrets of URLs out of a message for a log, and out of its exception."""
    message = record.getMessage()
    if record.exc_info:
        message += f"\n{logging.Formatter().formatException(record.exc_info)}"
    record.msg, record.args, record.exc_info = without_secrets(message, ""), None, None
    return True


def retry(action: Callable[[], Result], url: str, *, attempts: int = ATTEMPTS) -> Result:
    """Do something that a store may fail at for a while."""
    from random import uniform  # only here, as it takes its time to import

    limit = time_limit()
    end = time.monotonic() + limit
    outcome = "nothing came back"
    known: set[object]
    for attempt in range(1, attempts + 1):
        try:
            return call_within(max(0.0, end - time.monotonic()), action)
        except (TypeError, ImportError):
            raise
        except Exception as error:
            failure = error
        # Not within the handler: the cause of the error may hold secrets of the URL.
        known = {*(kind.__name__ for kind in type(failure).__mro__)}
        known.add(getattr(failure, "status", None))
        for code, final in _FINAL.items():
            if known & final:
                raise OSError(code, _REASONS.get(code, os.strerror(code)), shown(url))
        left = end - time.monotonic()
        if left > 0:
            reason = without_secrets(str(failure), url)
            outcome = f"the last by {type(failure).__name__}: {reason}"
            if attempt == attempts:
                break
            # The order of the data is not at stake.
            time.sleep(min(left, _FIRST_DELAY * 2 ** (attempt - 1) * uniform(0.5, 1.5)))
        if time.monotonic() >= end:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"no answer within {limit:g} seconds, the limit that {VARIABLE} sets; "
                f"attempt {attempt}, {outcome}",
                shown(url),
            )
    raise OSError(errno.EIO, f"{attempts} attempts failed, {outcome}", shown(url))


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
