"""Files of foreign formats: a line of advice for each."""

from __future__ import annotations

import zipfile
from codecs import getincrementaldecoder
from pathlib import Path

from sweephand.files.local import open_regular
from sweephand.files.paths import AnyPath, head_of

_PICTURES = (
    "pictures: put those of each class into a folder of its own, or list them in a file of "
    "lines path<TAB>label, and write sh.ImageFolder(path)"
)
_SOUND = (
    "sound: write sh.ArrayDeserializer({'sound': [path.read_bytes() for path in paths]}), and "
    "map it by sh.decode.audio('sound')"
)
_VIDEO = (
    "video: write sh.MapDeserializer([{'video': {'path': str(path)}} for path in paths]), and "
    "map it by sh.decode.video('video', frames=8)"
)
_OBJECTS = "objects of Python: load them, and give a dict of arrays to ArrayDeserializer"
_ZARR = "a Zarr store in an archive: unpack it, and open the folder"
_OF_ZARR = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_ZIPS = (".zip", ".npz", ".zarr")
_TEXT = (
    "text: write sh.TextDeserializer(path), whose sequences are lines, or files with "
    "sample_by='document'"
)
_PACKED = "compressed: unpack it first"

_BY_SUFFIX = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif"), _PICTURES),
    **dict.fromkeys((".ppm", ".tiff", ".jpe"), _PICTURES),
    **dict.fromkeys((".wav", ".flac", ".mp3", ".ogg", ".m4a", ".opus"), _SOUND),
    **dict.fromkeys((".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"), _VIDEO),
    **dict.fromkeys((".pkl", ".pickle", ".pt", ".pth", ".joblib"), _OBJECTS),
    **dict.fromkeys((".gz", ".zst", ".bz2", ".xz", ".tar", ".zip", ".tgz"), _PACKED),
    ".safetensors": "tensors: load them, and give a dict of arrays to ArrayDeserializer",
}
_UTF_16 = "text in UTF-16: convert it to UTF-8, as 'iconv -f UTF-16 -t UTF-8' does"
_BY_HEAD = {
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"[": "one JSON array: write a line for every object, as JSON lines have them",
    b"\x1f\x8b": _PACKED,
    b"\x28\xb5\x2f\xfd": _PACKED,
}
_DOCUMENTS = (".md", ".txt", ".rst", ".html", ".pdf", ".yaml", ".yml", ".toml", ".cff")
_DOCUMENT_NAMES = ("README", "LICENSE", "LICENCE", "NOTICE", "CITATION")


def advice_for_file(path: AnyPath) -> str | None:
    """Return the likely content of a file, with advice; None if there is no sign of it."""
    if path.suffix.lower() in _ZIPS and path.is_file() and holds_zarr(path):
        return _ZARR
    if known := _BY_SUFFIX.get(path.suffix.lower()):
        return known
    head = head_of(path, 64).lstrip() if path.is_file() else b""
    if found := next(
        (name for magic, name in _BY_HEAD.items() if head.startswith(magic)), None
    ):
        return found
    return _TEXT if head and _is_text(head) else None


def _is_text(head: bytes) -> bool:
    """Return True if bytes are the beginning of a text in UTF-8."""
    try:
        getincrementaldecoder("utf-8")().decode(head)  # which may be cut within a letter
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def holds_zarr(path: AnyPath) -> bool:
    """Return True if an archive is a Zarr store, by the names of its members."""
    if not isinstance(path, Path):
        return path.name.endswith(".zarr.zip")
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return any(name.rpartition("/")[2] in _OF_ZARR for name in names)


def is_document(path: AnyPath) -> bool:
    """Return True if a file of no known format describes data, rather than holding them."""
    if path.suffix in (".metadata", ".loss") and path.stem.endswith(".ds"):
        return True  # of datatrove's tokens
    if path.suffix == ".idx":  # of an archive: our own index says more
        return path.stem.endswith(".tar") or path.with_suffix(".tar").exists()
    return path.suffix.lower() in _DOCUMENTS or is_named_as_document(path)


def is_named_as_document(path: AnyPath) -> bool:
    """Return True if the name is that of a file which describes data."""
    return path.stem.upper() in _DOCUMENT_NAMES
