"""Objects of a store, read by ranges through fsspec, or obstore where it is installed."""

from __future__ import annotations

import errno
import glob
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError, StaleError
from sweephand.files import FileList, SourceFile, find_files, is_leftover, no_match

Result = TypeVar("Result")

# Doubled after every attempt, and spread so that many workers do not come back at once.
_ATTEMPTS = 6
_FIRST_DELAY = 0.2  # seconds

_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_FINAL_STATUS = (401, 403, 404, 410)

# What stores call the thing that changes with the content.
_CONTENT_TAGS = ("etag", "e_tag", "generation", "blob_id", "content-md5", "md5", "digest")
_TIME_TAGS = (
    *("last-modified", "last_modified", "lastmodified", "updated", "modified", "mtime"),
    "created",
)

_OBSTORE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "http", "https"}


@dataclass(frozen=True)
class RemoteFile(SourceFile):
    """An object of a store; its path is its URL."""

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on, by one request.

        Whether the object is still the same is another request: `check_unchanged`.
        """
        if out.size > self.size - offset:
            raise DataError(
                f"the object ends at byte {self.size}, before {out.size} bytes could be read",
                self.path,
                offset,
            )

        def request() -> bytes:
            store, path = open_store(self.path)
            content: bytes = store.cat_file(path, start=offset, end=offset + out.size)
            if len(content) != out.size:
                raise OSError(
                    errno.EIO, f"asked for {out.size} bytes, got {len(content)}", self.path
                )
            return content

        if out.size:
            out[:] = np.frombuffer(retry(request, self.path), np.uint8)

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes from `offset` on, of the object that was listed."""
        content = super().read(offset, size)
        self.check_unchanged()
        return content

    def check_unchanged(self) -> None:
        """Raise StaleError if the object is not the one that was listed."""

        def request() -> Mapping[str, Any]:
            store, path = open_store(self.path)
            info: Mapping[str, Any] = store.info(path)
            return info

        now = retry(request, self.path)
        if (now.get("size"), tag_of(now)) != (self.size, self.tag):
            raise StaleError(
                f"the object was replaced: it had {self.size} bytes and {self.tag}, now it has "
                f"{now.get('size')} and {tag_of(now)}",
                self.path,
            )


def find_objects(url: str) -> FileList:
    """Find the objects that a URL names, which may be a glob; see `find_files`."""
    protocol, _, path = url.partition("://")
    if protocol in ("file", "local"):
        return find_files(path)
    store, path = open_store(url)
    if not glob.has_magic(path):
        return FileList([_describe(store, path, retry(lambda: store.info(path), url))], [])
    found: dict[str, Any] = retry(lambda: store.glob(path, detail=True), url)
    objects = {name: info for name, info in sorted(found.items()) if info["type"] == "file"}
    leftovers = [name for name in objects if is_leftover(_base(name))]
    chosen = [name for name in objects if name not in leftovers]
    if not chosen:
        raise no_match(url, leftovers)
    for name in chosen:
        # A listing may write times in another way than the object itself.
        if not tag_of(objects[name]).startswith(_CONTENT_TAGS):
            objects[name] = retry(partial(store.info, name), url)
    return FileList([_describe(store, name, objects[name]) for name in chosen], leftovers)


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    It is made anew for every use, as fsspec keeps it: of its own in every process and thread.
    """
    protocol = url.partition("://")[0]
    if protocol in _OBSTORE and find_spec("obstore"):
        from obstore.fsspec import FsspecStore

        options = {"client_options": {"allow_http": True}} if protocol == "http" else {}
        store = FsspecStore(protocol, **options)
        return store, store._strip_protocol(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(
            f"reading {url} needs fsspec: pip install 'sweephand[remote]'"
        ) from None
    store, path = url_to_fs(url, use_listings_cache=False)
    return store, path


def retry(action: Callable[[], Result], url: str) -> Result:
    """Do something that a store may fail at for a while.

    Raises
    ------
    OSError
        At once if the object is absent or access is denied, else after the last attempt.
    """
    delay = _FIRST_DELAY
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return action()
        except Exception as error:
            status = getattr(error, "status", None)
            if isinstance(error, (*_FINAL, TypeError, ImportError)):
                raise
            if status in _FINAL_STATUS:
                raise OSError(
                    errno.EACCES, f"the store answers {status}: {error}", url
                ) from error
            if attempt == _ATTEMPTS:
                reason = (
                    f"{attempt} attempts failed, the last by {type(error).__name__}: {error}"
                )
                raise OSError(errno.EIO, reason, url) from error
        time.sleep(delay * random.uniform(0.5, 1.5))  # the order of the data is not at stake
        delay *= 2
    raise AssertionError("not reached")


def tag_of(info: Mapping[str, Any]) -> str:
    """Return what a store says that changes with the content of an object."""
    known = {key.lower(): value for key, value in info.items()}
    for name in (*_CONTENT_TAGS, *_TIME_TAGS):
        if known.get(name) is not None:
            return f"{name} {known[name]}"
    return ""


def _describe(store: Any, path: str, info: Mapping[str, Any]) -> RemoteFile:
    url = store.unstrip_protocol(path)
    if info["type"] != "file":
        raise DataError("this is a folder; name the files in it, such as '*'", url)
    if info.get("size") is None:
        raise DataError("the store does not say how large the object is", url)
    return RemoteFile(url, _base(path), info["size"], tag_of(info))


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
