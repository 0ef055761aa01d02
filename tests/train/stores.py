"""Small checkpoints, and ways to harm them, that the tests of checkpoints share."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweephand.train.checkpoint import Checkpoint


def contents(text: str) -> dict[str, Callable[..., object]]:
    """Return two small files, one of which says which it is."""
    state = json.dumps({"text": text}).encode()
    return {
        "state.json": lambda sink: sink.write(state),
        "model.npz": lambda sink: (sink.write(b"a" * 100), sink.write(b"b" * 100)),
    }


def text_of(checkpoint: Checkpoint | None) -> str | None:
    return None if checkpoint is None else checkpoint.state()["text"]


def rewrite_manifest(folder: Path) -> None:
    """Make a manifest fit the files, as who wants to do harm can."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with the checksum of its own."""
    manifest.pop("sha256", None)
    text = json.dumps(manifest, sort_keys=True).encode()
    manifest["sha256"] = hashlib.sha256(text).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)
