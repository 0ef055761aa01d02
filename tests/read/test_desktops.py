"""What desktops leave in folders is passed over, in every format."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.read.format_corpora import (
    corpus_for,
    ctf,
    hdf5,
    jsonl,
    megatron,
    mlf,
    tfrecords,
    webdataset,
    zarr,
)
from tests.read.rows import rows

import sweephand as sh


def test_what_desktops_leave_is_passed_over_in_every_folder(tmp_path: Path) -> None:
    for make in (megatron, jsonl, tfrecords, ctf, webdataset, mlf, hdf5, zarr):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder, corpus_for(make))
        wanted = rows(sh.open(folder, index=None))
        for name in ("Thumbs.db", "ehthumbs.db", "desktop.ini", "Desktop.ini", "._part-0"):
            (folder / name).write_bytes(b"\xd0\xcf\x11\xe0 of a desktop")
        (folder / "__MACOSX").mkdir()
        shutil.copy(folder / "Thumbs.db", folder / "__MACOSX" / "._part-0.jsonl")
        assert rows(sh.open(folder, index=None)) == wanted, make.__name__
        assert len(rows(sh.open(f"{folder}/*", index=None))) == len(wanted), make.__name__
