"""A store of checkpoints: each whole or not there at all."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.stores import append, contents, flip, text_of, write_manifest

import sweephand as sh
from sweephand.train.checkpoint import CheckpointStore, find


class TestStore:
    def test_the_newest_is_found_by_itself(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path / "deep" / "folder", keep_last=None)
        assert store.newest() is None
        assert store.next_number() == 0
        for text in "abc":
            store.write(store.next_number(), contents(text))
        assert store.numbers() == [0, 1, 2]
        assert text_of(store.newest()) == "c"
        assert text_of(find(store.folder)) == "c"
        assert text_of(find(store.path(1))) == "b"
        assert find(tmp_path / "other") is None
        assert find(store.path(7)) is None

    def test_damage_anywhere_is_found_and_an_older_one_taken(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = tmp_path / "good"
        store = CheckpointStore(good, keep_last=None)
        store.write(0, contents("old"))
        store.write(1, contents("new"))

        def damaged(harm: Callable[[Path], object]) -> str | None:
            copy = tmp_path / "copy"
            shutil.copytree(good, copy)
            harm(copy / "checkpoint-00000001")
            caplog.clear()
            found = text_of(CheckpointStore(copy).newest())
            assert "passing over a damaged checkpoint" in caplog.text
            shutil.rmtree(copy)
            return found

        for name in ("manifest.json", "state.json", "model.npz"):
            size = (good / "checkpoint-00000001" / name).stat().st_size
            assert damaged(lambda folder, name=name: (folder / name).unlink()) == "old"
            for length in range(0, size, 17):
                assert damaged(lambda f, n=name, s=length: os.truncate(f / n, s)) == "old"
            for offset in range(0, size, 13):
                assert damaged(lambda f, n=name, o=offset: flip(f / n, o)) == "old"
            assert damaged(lambda f, n=name: append(f / n, b"more")) == "old"

    def test_all_damaged_is_an_error(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("only"))
        flip(store.path(0) / "model.npz", 150)
        with pytest.raises(sh.StateError, match=r"all checkpoints in .* are damaged.*SHA-256"):
            store.newest()

    def test_another_version_is_refused_by_name_and_not_passed_over(
        self, tmp_path: Path
    ) -> None:
        store = CheckpointStore(tmp_path, keep_last=None)
        store.write(0, contents("old"))
        store.write(1, contents("new"))
        manifest = {"format": 9, "sweephand": "7.1", "files": {}}
        write_manifest(store.path(1), manifest)
        with pytest.raises(sh.StateError, match=r"format 9 of sweephand '7\.1'"):
            store.newest()

    def test_what_is_not_ours_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / ".writing-00000003-mine").mkdir()
        (tmp_path / "notes.txt").write_text("keep me")
        (tmp_path / "checkpoint-3").mkdir()
        store = CheckpointStore(tmp_path)
        assert store.newest() is None
        store.write(0, contents("first"))
        store.write(1, contents("second"))
        assert {path.name for path in tmp_path.iterdir()} == {
            ".writing-00000003-mine",
            "checkpoint-00000001",
            "checkpoint-3",
            "notes.txt",
        }

    def test_leftovers_of_a_kill_are_cleared(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("old"))
        for kind in ("writing", "removing"):
            leftover = tmp_path / f".{kind}-00000001-{'0' * 32}"
            shutil.copytree(store.path(0), leftover)
        assert text_of(store.newest()) == "old"
        store.write(1, contents("new"))
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]
