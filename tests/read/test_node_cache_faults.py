"""Kills, stops, damage and full disks: a node's cache is never wrong, and never in the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.read.cached_store import patient, tokens
from tests.read.http_store import HttpStore
from tests.read.node_cache import CHUNK_BYTES, make_source, read_all, run

import sweephand as sh
from sweephand.files.node_cache import HEAD_BYTES, MARK, NodeTable

__all__ = ["patient", "tokens"]  # fixtures

KILLS = int(os.environ.get("SWEEPHAND_CACHE_KILLS", "20" if extent.exhaustive else "8"))
NUM_CHUNKS = 48
ENTRY_BYTES = CHUNK_BYTES + HEAD_BYTES


def job(web: HttpStore, tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "url": web.url,
        "folder": str(tmp_path / "node"),
        "max_bytes": NUM_CHUNKS // 2 * ENTRY_BYTES,
        "sweeps": 2,
        "ranks": [(2, 0), (2, 1)],
        "longest": 0.25,
    } | more


def contents(web: HttpStore) -> list[int]:
    """Return what two workers get without a cache."""
    found = []
    for index in range(2):
        with make_source(web.url, None, max_sweeps=2) as source:
            found.append(read_all(source, 2, index))
    return found


@pytest.mark.parametrize("seed", range(-(-KILLS // 20)))
def test_what_is_killed_leaves_nothing_that_is_wrong_or_stays(
    seed: int, web: HttpStore, tmp_path: Path
) -> None:
    kills = min(KILLS, 20)
    found = run(job(web, tmp_path, kills=kills, seed=seed))
    assert [one["content"] for one in found] == contents(web)
    assert not any(one["warnings"] for one in found)
    kept = list((tmp_path / "node" / "entries").iterdir())
    assert not [path.name for path in kept if path.name.startswith("unfinished")]
    assert sum(path.stat().st_size for path in kept) <= NUM_CHUNKS // 2 * ENTRY_BYTES
    # All of it is known, good, and used again.
    keys = {path.name.encode() for path in kept}
    assert keys <= set(NodeTable(tmp_path / "node" / MARK).rows()["key"].tolist())
    assert len(keys) > NUM_CHUNKS // 4
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS // 2 * ENTRY_BYTES)
    with make_source(web.url, cache, max_sweeps=1) as source:
        read_all(source)
        assert source.stats()["cache_damaged"] == 0
        assert source.stats()["cache_hits"] >= len(keys)


def test_ranks_that_are_stopped_hold_up_nobody_for_long(web: HttpStore, tmp_path: Path) -> None:
    found = run(job(web, tmp_path, stops=4, patience=0.1))
    assert [one["content"] for one in found] == contents(web)


def test_a_damaged_entry_is_fetched_again(web: HttpStore, tmp_path: Path) -> None:
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS * ENTRY_BYTES)
    with make_source(web.url, cache, max_sweeps=1) as source:
        content = read_all(source)
    draw = np.random.default_rng(3)
    paths = sorted((tmp_path / "node" / "entries").iterdir())
    assert len(paths) == NUM_CHUNKS
    for number, path in enumerate(paths):
        damaged = bytearray(path.read_bytes())
        if number % 4 == 0:  # the disk lost the end
            del damaged[draw.integers(len(damaged)) :]
        elif number % 4 == 1:
            damaged += b"more"
        else:
            damaged[draw.integers(len(damaged))] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
    for damaged_entries in (NUM_CHUNKS, 0):
        web.fetched.clear()
        with make_source(web.url, cache, max_sweeps=1) as source:
            assert read_all(source) == content
            assert source.stats()["cache_damaged"] == damaged_entries
        assert len(web.fetched) == damaged_entries


def test_a_table_that_is_lost_or_torn_costs_what_was_kept(
    web: HttpStore, tmp_path: Path
) -> None:
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS * ENTRY_BYTES)
    for damage in (0, 100, 66_000):
        with make_source(web.url, cache, max_sweeps=1) as source:
            content = read_all(source)
        os.truncate(tmp_path / "node" / MARK, damage)
        with make_source(web.url, cache, max_sweeps=1) as source:
            assert read_all(source) == content
        assert len(list((tmp_path / "node" / "entries").iterdir())) == NUM_CHUNKS


def test_a_disk_that_is_full_is_told_once(web: HttpStore, tmp_path: Path) -> None:
    make_source(web.url, sh.NodeCache(tmp_path / "node", NUM_CHUNKS * ENTRY_BYTES)).close()
    found = run(job(web, tmp_path, most_file_bytes=ENTRY_BYTES - 1))
    assert [one["content"] for one in found] == contents(web)
    for one in found:
        (told,) = one["warnings"]
        assert "node cache" in told
        assert "takes no more: File too large" in told
    assert list((tmp_path / "node" / "entries").iterdir()) == []


def test_a_folder_that_is_removed_stops_no_run(web: HttpStore, tmp_path: Path) -> None:
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS * ENTRY_BYTES)
    with make_source(web.url, None, max_sweeps=1) as source:
        content = read_all(source)
    with make_source(web.url, cache, max_sweeps=1) as source:
        shutil.rmtree(tmp_path / "node")
        with pytest.warns(RuntimeWarning, match="takes no more: No such file"):
            assert read_all(source) == content


def test_a_folder_with_other_things_is_left_alone(web: HttpStore, tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds other things, such as 'thesis\.tex'"):
        make_source(web.url, sh.NodeCache(tmp_path / "node", 1 << 20))
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["thesis.tex"]


def test_what_others_put_into_the_folder_stays(web: HttpStore, tmp_path: Path) -> None:
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS // 4 * ENTRY_BYTES)
    make_source(web.url, cache).close()
    mine = [tmp_path / "node" / "notes", tmp_path / "node" / "entries" / "README"]
    for path in mine:
        path.write_text("mine")
    with make_source(web.url, cache, max_sweeps=2) as source:
        read_all(source)
    assert [path.read_text() for path in mine] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("name", "max_bytes", "kind", "match"),
    [
        ("of-another-version", 1 << 20, ValueError, "of another version; delete it"),
        ("file/node", 1 << 20, NotADirectoryError, "the node cache cannot be kept here"),
        ("node", 1000, ValueError, r"1000, less than the largest chunk, about 1\d\d\d"),
        ("node", 0, ValueError, "max_bytes must be"),
    ],
)
def test_what_cannot_be_is_told_at_once(
    name: str, max_bytes: int, kind: type, match: str, web: HttpStore, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "of-another-version").mkdir()
    (tmp_path / "of-another-version" / MARK).write_text("sweephand node cache 7\n")
    with pytest.raises(kind, match=match):
        make_source(web.url, sh.NodeCache(tmp_path / name, max_bytes))


def test_a_smaller_cache_makes_room_when_it_is_opened(web: HttpStore, tmp_path: Path) -> None:
    for part in (1, 4):
        max_bytes = NUM_CHUNKS // part * ENTRY_BYTES
        with make_source(web.url, sh.NodeCache(tmp_path / "node", max_bytes)) as source:
            source.next_minibatch(sh.FULL_DATA_SWEEP)
        kept = list((tmp_path / "node" / "entries").iterdir())
        assert sum(path.stat().st_size for path in kept) <= max_bytes
