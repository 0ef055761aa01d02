"""Several paths, patterns, prefixes and folders of folders are a corpus, here and in Python."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.ext.tfds.folders import NUMBERED, numbered, write_folder
from tests.read import format_corpora
from tests.read.format_corpora import corpus_for

import sweephand as sh


def sizes(corpus: sh.Deserializer) -> list[int]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return [size for plan in source.plan(100) for size in plan.sizes.tolist()]


def lines(folder: Path, name: str, count: int) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"x": n}) + "\n" for n in range(count)))
    return path


def test_several_files_are_one_corpus(tmp_path: Path, call: Call) -> None:
    paths = [lines(tmp_path, f"{n}.jsonl", n + 1) for n in range(3)]
    assert len(sizes(sh.open(paths))) == 6
    assert len(sizes(sh.open(tmp_path / "*.jsonl"))) == 6
    facts = call("info", *paths, "--json").facts
    assert (facts["num_sequences"], facts["format"]) == (6, "JSON lines")
    assert facts["bytes"] == sum(path.stat().st_size for path in paths)
    assert call("info", *paths).code == 0
    found = call("find", *paths, "1.jsonl__1", "--no-shuffle", "--json")
    assert found.facts["nominal_time"] == 2


def test_several_folders_are_one_corpus(tmp_path: Path) -> None:
    lines(tmp_path, "a/x.jsonl", 2)
    lines(tmp_path, "b/x.jsonl", 3)
    corpus = sh.open([tmp_path / "a", tmp_path / "b"])
    assert len(sizes(corpus)) == 5
    ids = sh.MinibatchSource(corpus, randomize=False).sequence_ids(0, 5)
    assert ids[0] == "a/x.jsonl__0"


def test_megatron_is_named_by_its_prefix(tmp_path: Path, call: Call) -> None:
    format_corpora.megatron(tmp_path, corpus_for(format_corpora.megatron))
    for path in tmp_path.iterdir():
        path.rename(path.with_name(path.name.replace("part-0", "v1.2_text_document")))
    prefix = tmp_path / "v1.2_text_document"
    assert len(sizes(sh.open(prefix))) == 13
    assert len(sizes(sh.open([prefix, tmp_path / "part-1"]))) > 13
    facts = call("info", prefix, "--json").facts
    assert (facts["format"], facts["num_sequences"]) == ("Megatron", 13)


def test_the_newest_version_of_a_tfds_dataset_is_read_and_said(
    tmp_path: Path, call: Call
) -> None:
    for version, count in (("2.0.0", 3), ("10.0.0", 5), ("9.9.9", 4)):
        folder = tmp_path / "digits" / version
        folder.mkdir(parents=True)
        write_folder(folder, {"s": numbered(count)}, NUMBERED)
    with pytest.warns(UserWarning, match=r"2\.0\.0, 9\.9\.9, 10\.0\.0: 10\.0\.0 is read"):
        assert len(sizes(sh.open(tmp_path / "digits"))) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        answer = call("info", tmp_path / "digits", "--json")
    assert answer.facts["num_sequences"] == 5
    assert answer.err.startswith("warning: ")
    assert "10.0.0 is read" in answer.err
    assert len(sizes(sh.open(tmp_path / "digits" / "2.0.0"))) == 3


def test_a_tfds_dataset_has_a_default_configuration(tmp_path: Path) -> None:
    for config, count in (("de", 3), ("en", 5)):
        folder = tmp_path / config / "1.0.0"
        folder.mkdir(parents=True)
        write_folder(folder, {"s": numbered(count)}, NUMBERED)
    (tmp_path / ".config").mkdir()
    metadata = tmp_path / ".config" / "metadata.json"
    metadata.write_text(json.dumps({"default_config_name": "en"}))
    assert len(sizes(sh.open(tmp_path))) == 5
    metadata.write_text("{}")
    with pytest.raises(ValueError, match=r"configurations de, en: name the folder of one"):
        sh.open(tmp_path)
    assert len(sizes(sh.open(tmp_path / "de"))) == 3


def test_a_home_folder_is_found(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    lines(tmp_path, "x.jsonl", 2)
    assert call("info", "~/x.jsonl", "--json").facts["num_sequences"] == 2
    assert os.environ["HOME"] == str(tmp_path)


def test_folders_of_a_store_are_found_as_those_of_a_disk(tmp_path: Path) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    lines(tmp_path, "year=1/part.jsonl", 2)
    lines(tmp_path, "year=2/part.jsonl", 3)
    write_folder(tmp_path / "digits" / "1.0.0", {"s": numbered(4)}, NUMBERED)
    try:
        store.put(f"{tmp_path}/", "/many", recursive=True)
        urls = ["memory://many/year=1/part.jsonl", "memory://many/year=2"]
        assert len(sizes(sh.open(urls, index=None))) == 5
        assert len(sizes(sh.open("memory://many/digits", index=None))) == 4
        with pytest.raises(ValueError, match=r"the folders digits, year=1, year=2: open one"):
            sh.open("memory://many")
        with pytest.raises(FileNotFoundError, match="there is no object or folder"):
            sh.open("memory://many/digit")
        store.rm("/many/digits", recursive=True)
        assert len(sizes(sh.open("memory://many", index=None))) == 5
    finally:
        store.rm("/many", recursive=True)
