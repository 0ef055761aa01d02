"""Every command knows every format."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Call
from tests.ext.tfds.folders import NUMBERED, numbered, write_folder
from tests.read import format_corpora
from tests.read.format_corpora import corpus_for

import sweephand as sh


def from_corpus(make: format_corpora.Make, name: str = "") -> Callable[[Path], list[object]]:
    def write(folder: Path) -> list[object]:
        make(folder, corpus_for(make))
        return [folder / name]

    return write


def ctf(folder: Path) -> list[object]:
    lines = [f"{n // 2} |words {n}:1 {n + 3}:0.5 |y {n} {n}.5" for n in range(80)]
    (folder / "train.ctf").write_text("\n".join(lines))
    return [folder / "train.ctf"]


def ctf_in_gzip(folder: Path) -> list[object]:
    ctf(folder)
    content = (folder / "train.ctf").read_bytes()
    (folder / "train.ctf").write_bytes(
        gzip.compress(content[:99]) + gzip.compress(content[99:])
    )
    return [folder / "train.ctf"]


def raw(folder: Path) -> list[object]:
    format_corpora.raw_tokens(folder, corpus_for(format_corpora.raw_tokens))
    return [folder, "--dtype", "uint16", "--sequence-length", 5]


def tfds(folder: Path) -> list[object]:
    return [write_folder(folder, {"s": numbered(20, 0, 20)}, NUMBERED)]


def npy(folder: Path) -> list[object]:
    tokens = corpus_for(format_corpora.npy).tokens
    np.save(folder / "tokens.npy", np.concatenate(tokens))
    np.save(folder / "tokens_offsets.npy", np.cumsum([0, *map(len, tokens)]))
    return [folder]


WRITERS = {
    ".npy": npy,
    "CNTK text": ctf,
    "CNTK text in gzip": ctf_in_gzip,
    "TFDS folder": tfds,
    "bare numbers": raw,
    "bare numbers in documents": from_corpus(format_corpora.datatrove),
    "HTK": from_corpus(format_corpora.htk_archives, "train.scp"),
    "MLF": from_corpus(format_corpora.mlf),
    "HDF5": from_corpus(format_corpora.hdf5),
    "HDF5 in place": from_corpus(format_corpora.hdf5_in_place),
    "MDS": from_corpus(format_corpora.mds),
    "ArrayRecord": from_corpus(format_corpora.array_records),
    "Lance": from_corpus(format_corpora.lance_dataset, "train.lance"),
    "Megatron": from_corpus(format_corpora.megatron),
    "JSON lines": from_corpus(format_corpora.jsonl),
    "JSON lines in gzip": from_corpus(format_corpora.jsonl_in_gzip),
    "TFRecord": from_corpus(format_corpora.tfrecords),
    "TFRecord in GZIP": from_corpus(format_corpora.tfrecords_in_gzip),
    "TFRecord in ZLIB": from_corpus(format_corpora.tfrecords_in_zlib),
    "Zarr": from_corpus(format_corpora.zarr),
    "WebDataset": from_corpus(format_corpora.webdataset),
    "Parquet": from_corpus(format_corpora.parquet),
    "Arrow": from_corpus(format_corpora.arrow_files),
    "Hugging Face folder": from_corpus(format_corpora.saved_dataset, "saved"),
}
NEED_NO_INDEX = ("Zarr", ".npy", "bare numbers", "bare numbers in documents", "Megatron")

# Where a folder of folders is not one of files.
LOCAL_ONLY = ("Hugging Face folder", "Zarr", "ArrayRecord", "Lance")


@pytest.fixture(params=WRITERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def corpus(kind: str, tmp_path: Path) -> list[object]:
    """The words that name a corpus of 40 or 20 sequences on the command line."""
    return WRITERS[kind](tmp_path)


def test_every_format_is_told_by_its_bytes(kind: str, corpus: list[object], call: Call) -> None:
    facts = call("info", *corpus, "--json").facts
    assert facts["format"] == kind.partition(" in ")[0]
    assert facts["num_sequences"] in (40, 20)
    names = [stream["name"] for stream in facts["streams"]]
    assert names[0] in ("tokens", "words", "x", "label", "cls", "features", "labels")


def test_info_prints_the_streams_to_paste(corpus: list[object], call: Call) -> None:
    code = call("info", *corpus, "--json").facts["stream_defs"]
    definitions = eval(code, {"sh": sh})  # as a user's program does
    words = [str(word).removeprefix("--").replace("-", "_") for word in corpus[1:]]
    options: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=True))
    if "sequence_length" in options:
        options["sequence_length"] = int(options["sequence_length"])
    told, declared = (
        sh.MinibatchSource(sh.open(Path(str(corpus[0])), streams, **options), randomize=False)
        for streams in (None, definitions)
    )
    assert declared.streams == told.streams
    first, second = (source.next_minibatch(30) for source in (told, declared))
    assert first.ids == second.ids
    for name in definitions:
        assert str(first[name].as_sequences()) == str(second[name].as_sequences())


def test_an_index_is_built_before_it_is_needed(
    kind: str, corpus: list[object], call: Call
) -> None:
    facts = call("index", *corpus, "--json").facts
    assert facts["ok"]
    assert (facts["index"] is None) == (kind in NEED_NO_INDEX)
    if facts["index"]:
        assert facts["index"] in call("index", *corpus).out.replace("\n", "")
        assert Path(facts["index"]).exists()


def test_a_store_is_looked_at_as_a_disk_is(
    kind: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in LOCAL_ONLY:
        pytest.skip("is read from local disks only")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    place, *options = WRITERS[kind](folder)
    store = pytest.importorskip("fsspec").filesystem("memory")
    at = f"/{tmp_path.name}"  # other tests have theirs in the same memory
    for path in folder.iterdir():
        store.pipe(f"{at}/{path.name}", path.read_bytes())
    is_folder = Path(str(place)).is_dir()
    file = "" if is_folder else f"/{Path(str(place)).name}"
    url = f"memory:/{at}{file}"
    try:
        here, there = (call("info", path, *options, "--json").facts for path in (place, url))
        assert there["bytes"] <= here["bytes"]  # where the index lies with them
        assert {**here, "path": None, "bytes": None} == {**there, "path": None, "bytes": None}
        size = sum(one["size"] for one in store.ls(at, detail=True))
        assert there["bytes"] == (size if is_folder else store.size(at + file))
        assert call("index", url, *options).code == 0
        assert call("verify", url, *options, "--json").code == 0
        assert call("bench", url, *options, "--seconds", 0.01, "--json").code == 0
        step = ("--window-chunks", 4, "--step", 1, "--size", 7, "--json")
        traced = [call("trace", path, *options, *step).facts for path in (place, url)]
        assert traced[0]["ids"] == traced[1]["ids"]
        found = call("find", url, *options, traced[1]["ids"][0], "--json")
        assert found.code == 0, found.err
    finally:
        store.rm(at, recursive=True)


def test_damage_is_listed_by_index(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "x.tfrecord"
    sh.tfrecord.write(path, [{"x": n} for n in range(5)])
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    outcome = call("index", path)
    assert outcome.code == 1
    assert "damaged: " in outcome.out
    assert "sequence 4]: the checksum of the record's data is wrong" in outcome.out


def test_what_the_files_do_not_say_is_asked_for(tmp_path: Path, call: Call) -> None:
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "x.bin")
    outcome = call("info", tmp_path / "x.bin")
    assert outcome.code == 1
    assert "--dtype" in outcome.err
    assert "--sequence-length" in outcome.err
    (tmp_path / "y.ctf").write_text("0 |a 1\n")
    assert (
        "a chunk size is for arrays" in call("info", tmp_path / "y.ctf", "--chunk-size", 3).err
    )
