"""An index is built once, of what changed, and is never trusted when it is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.read.format_corpora import ALL, varied, write_jsonl

import sweephand as sh
from sweephand.deserializers import jsonl
from sweephand.files import index_file
from sweephand.files.source_file import SourceFile


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were scanned."""
    names: list[str] = []
    scan = jsonl.JSONLDeserializer.scan_units

    def watched(self: Any, file: SourceFile, advance: Any) -> Any:
        names.append(file.name)
        return scan(self, file, advance)

    monkeypatch.setattr(jsonl.JSONLDeserializer, "scan_units", watched)
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, part in enumerate(varied().parts(3)):
        write_jsonl(tmp_path / f"part-{number}.jsonl", part)
    return tmp_path


def tokens(files: Path | list[Path]) -> list[list[int]]:
    deserializer = sh.JSONLDeserializer(files, ALL)
    source = sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1, num_threads=0)
    return [
        one.tolist()
        for batch in source.minibatches(100)
        for one in batch["tokens"].as_sequences()
    ]


def every(folder: Path) -> Path:
    return folder / "*.jsonl"


def index_in(folder: Path) -> Path:
    (found,) = folder.glob(".sweephand/*.sweephand-index")
    return found


def test_an_index_is_built_once(folder: Path, scanned: list[str]) -> None:
    first = tokens(every(folder))
    assert sorted(scanned) == ["part-0.jsonl", "part-1.jsonl", "part-2.jsonl"]
    scanned.clear()
    assert tokens(every(folder)) == first
    assert scanned == []


def test_only_files_that_are_new_or_changed_are_scanned(
    folder: Path, scanned: list[str]
) -> None:
    first = tokens(every(folder))
    scanned.clear()
    write_jsonl(folder / "a-new-one.jsonl", varied(2))
    write_jsonl(folder / "part-1.jsonl", varied(1))
    second = tokens(every(folder))
    assert sorted(scanned) == ["a-new-one.jsonl", "part-1.jsonl"]  # by several threads
    wanted = [one.tolist() for one in [*varied(2).tokens, *varied(1).tokens]]
    assert second == [*wanted[:2], *first[:13], wanted[2], *first[26:]]
    scanned.clear()
    (folder / "a-new-one.jsonl").unlink()
    assert tokens(every(folder)) == second[2:]
    assert scanned == []


def test_corpora_of_one_folder_share_an_index(folder: Path, scanned: list[str]) -> None:
    parts = [folder / f"part-{number}.jsonl" for number in range(3)]
    alone = [tokens(part) for part in parts]
    scanned.clear()
    assert [tokens(part) for part in parts] == alone
    assert tokens(parts[::2]) == alone[0] + alone[2]
    assert scanned == []
    index_in(folder)


def test_files_elsewhere_are_not_taken_for_those_of_the_same_name(
    tmp_path: Path, scanned: list[str]
) -> None:
    paths = [tmp_path / folder / f"{folder}.jsonl" for folder in ("a", "b", "c")]
    for path in paths:
        path.parent.mkdir()
        write_jsonl(path, varied(2))
    twin = paths[2].rename(paths[2].with_name("b.jsonl"))
    status = paths[1].stat()
    twin.write_bytes(paths[1].read_bytes().replace(b"1", b"2"))
    os.utime(twin, ns=(status.st_atime_ns, status.st_mtime_ns))
    first = tokens([paths[0], paths[1]])
    scanned.clear()
    assert tokens([paths[0], twin]) != first
    assert scanned == ["b.jsonl"]


def test_what_is_asked_for_is_part_of_an_index(folder: Path, scanned: list[str]) -> None:
    tokens(every(folder))
    scanned.clear()
    sh.MinibatchSource(
        sh.JSONLDeserializer(every(folder), sh.StreamDefs(tokens=sh.StreamDef()))
    ).close()
    assert len(scanned) == 3
    assert len(list(folder.glob(".sweephand/*.sweephand-index"))) == 2


def test_a_damaged_index_is_built_again(folder: Path, scanned: list[str]) -> None:
    path = folder / "part-0.jsonl"
    first = tokens(path)
    index = index_in(folder)
    content = index.read_bytes()
    index.write_bytes(content[:-1])
    scanned.clear()
    assert tokens(path) == first
    assert scanned
    assert index.read_bytes() == content


def test_start_up_with_an_index_reads_no_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens(every(folder))

    def refuse(*_: object) -> None:
        pytest.fail("the data were read")

    for name in ("read", "read_into"):
        monkeypatch.setattr(SourceFile, name, refuse)
        monkeypatch.setattr("sweephand.files.local.LocalFile." + name, refuse, raising=False)
    source = sh.MinibatchSource(
        sh.JSONLDeserializer(every(folder), ALL), num_threads=0, max_sweeps=1
    )
    assert source.num_sequences_per_sweep == 40
    assert source.sequence_ids(0, 1)
    source.current_position = source.num_samples_per_sweep // 2


def test_the_errors_of_an_index_are_told_again(tmp_path: Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("0 |A 1\n1 |A x\n2 |A 2\n3 |A y\n4 |A 3\n")
    corpus = sh.CTFDeserializer(path, sh.StreamDefs(A=sh.StreamDef(field="A", shape=1)))
    with pytest.raises(sh.DataError, match="column 6"):
        sh.MinibatchSource(corpus, max_errors=1)
    assert not list(tmp_path.glob(".sweephand/*.sweephand-index"))
    first = [str(error) for error in sh.MinibatchSource(corpus, max_errors=2).errors]
    index_in(tmp_path)
    source = sh.MinibatchSource(corpus, max_errors=2)
    assert [str(error) for error in source.errors] == first
    assert [error.line for error in source.errors] == [2, 2, 2, 4, 4, 4]
    with pytest.raises(sh.DataError, match="column 6") as caught:
        sh.MinibatchSource(corpus, max_errors=1)
    assert (caught.value.line, caught.value.sequence) == (4, 3)
    values = [
        one["A"].values.tolist()
        for one in sh.MinibatchSource(
            corpus, max_errors=2, randomize=False, max_sweeps=1
        ).minibatches(5)
    ]
    assert values == [[[1.0], [2.0], [3.0]]]


def test_a_folder_that_cannot_be_written_has_its_index_in_the_cache(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    scanned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(cache))
    first = tokens(every(folder))
    index = index_in(folder)
    index.unlink()
    index.mkdir()  # nothing can be renamed to it
    (index / "x").touch()
    tokens(every(folder))
    scanned.clear()
    assert tokens(every(folder)) == first
    assert scanned == []
    assert len(list(cache.iterdir())) == 1
    assert not list(folder.glob("*.tmp"))
    monkeypatch.setenv("SWEEPHAND_CACHE", str(folder / "part-0.jsonl" / "no-folder"))
    with pytest.warns(RuntimeWarning, match="cannot be kept, so it will be built again"):
        assert tokens(every(folder)) == first
    assert not list(folder.glob("*.tmp"))


def test_the_bar_moves_to_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    totals: list[int] = []

    @contextmanager
    def watch(what: str, total: int) -> Iterator[Any]:
        totals.append(total)
        yield moved.append

    monkeypatch.setattr(index_file, "show_progress", watch)
    tokens(every(folder))
    sizes = [path.stat().st_size for path in folder.glob("*.jsonl")]
    assert sum(moved) == sum(sizes) == totals[0]
