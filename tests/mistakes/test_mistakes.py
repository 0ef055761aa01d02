"""Wrong calls that newcomers make: each is told in one line, with the way out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

LONGEST_MESSAGE = 500
X = np.arange(12.0).reshape(4, 3)
ROWS = [{"x": [1, 2], "y": 0}, {"x": [3], "y": 1}]
LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]
SIZED = "minibatch_size_in_samples"
AS_ARRAY = "sh.ArrayDeserializer({'x': "
AS_DEFINITIONS = "StreamDefs(NAME=StreamDef(...))"


class Packages:
    """The packages that newcomers come from; a row is skipped without those that it names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        modules = {"pd": "pandas", "pa": "pyarrow", "pq": "pyarrow.parquet", "hf": "datasets"}
        return pytest.importorskip(modules.get(name, name))


them: Any = Packages()
serve: Any = sh.MinibatchSource
stream_def: Any = sh.StreamDef
arrays: Any = sh.ArrayDeserializer
items: Any = sh.MapDeserializer


def write(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def at(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return at


ctf = write("train.ctf", "0 |A 1 2 |S 3:1\n1 |A 3 4 |S 9:1\n")
jsonl = write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
numbers = write("a.bin", bytes(8))


def tfrecord(folder: Path) -> Path:
    sh.tfrecord.write(folder / "train.tfrecord", ROWS)
    return folder / "train.tfrecord"


def npz(folder: Path) -> Path:
    np.savez(folder / "train.npz", x=X, y=np.arange(4))
    return folder / "train.npz"


def parquet(folder: Path) -> Path:
    them.pq.write_table(them.pa.table({"x": [[1, 2], [3]], "y": [0, 1]}), folder / "a.parquet")
    return folder / "a.parquet"


def folder_of(*files: Callable[[Path], Path]) -> Callable[[Path], Path]:
    return lambda folder: [file(folder).parent for file in files][-1]


def saved_splits(folder: Path) -> Path:
    them.hf.disable_progress_bars()
    dataset = them.hf.Dataset.from_dict({"x": [1, 2]})
    them.hf.DatasetDict(train=dataset, test=dataset).save_to_disk(folder / "saved")
    return folder / "saved"


def tensors() -> Any:
    return them.torch.utils.data.TensorDataset(them.torch.ones(3, 2), them.torch.arange(3))


def corpus() -> Any:
    tokens = (np.arange(sum(LENGTHS)), np.cumsum([0, *LENGTHS]))
    return sh.ArrayDeserializer({"tokens": tokens, "label": np.arange(len(LENGTHS))})


def source(**options: Any) -> Any:
    return sh.MinibatchSource(corpus(), **options)


def minibatch(**options: Any) -> Any:
    return source(**options).next_minibatch(8)


def use_when_closed() -> None:
    made = source()
    made.close()
    made.next_minibatch(8)


def use_what_follows_the_end() -> None:
    made = source(max_sweeps=1)
    while (one := made.next_minibatch(8)) is not None:
        one["tokens"]


def session(**options: Any) -> object:
    trainer: Any = object()
    return sh.training_session(trainer, source(), 8, **options)


def dataset(made: Any, size: int) -> Any:
    import sweephand.torch

    return sweephand.torch.IterableDataset(made, size)


def loader(*given: Any, **options: Any) -> Any:
    return them.torch.utils.data.DataLoader(*given, **options)


# The call with an empty folder to put files in, its error, and words of the way out.
MISTAKES: list[tuple[str, Callable[[Path], object], type[Exception], str]] = [
    # Data.
    ("an array", lambda f: serve(X), TypeError, AS_ARRAY),
    ("a path", lambda f: serve("a.parquet"), TypeError, "sh.open(path)"),
    ("nothing", lambda f: serve(None), TypeError, "sh.open"),
    ("an empty list", lambda f: serve([]), ValueError, "at least one deserializer"),
    ("corpora in a dict", lambda f: serve({"a": corpus()}), TypeError, "in a list"),
    ("a generator", lambda f: serve(row for row in ROWS), TypeError, "sh.MapDeserializer("),
    ("a Series", lambda f: serve(them.pd.Series([1, 2])), TypeError, AS_ARRAY),
    ("a DataLoader", lambda f: serve(loader(tensors())), TypeError, "sh.MapDeserializer("),
    ("all splits", lambda f: serve(them.hf.DatasetDict()), TypeError, "give one of them"),
    ("a table", lambda f: arrays(them.pa.table({"x": [1]})), TypeError, "Arrow"),
    ("mixed", lambda f: serve(them.pd.DataFrame({"x": [1, "a"]})), ValueError, "column x"),
    ("nulls", lambda f: arrays({"x": them.pa.array([1, None])}), ValueError, "fill or drop"),
    ("many names", lambda f: items([(1, 2)], ["x", "y", "z"]), sh.DataError, "tuple of 2"),
    ("items that are lists", lambda f: items([[1, 2]]), sh.DataError, "must be a dict, or a"),
    ("no such field", lambda f: items(ROWS, ["z"]), sh.DataError, "there are: x, y"),
    ("no such array", lambda f: arrays({"x": X}, ["z"]), ValueError, "there are: x"),
    ("None", lambda f: arrays({"x": [1, None, 3]}), TypeError, "item 1 is None"),
    ("a number as a name", lambda f: arrays({1: X}), TypeError, "is text, got 1"),
    (
        "another shape",
        lambda f: arrays({"x": X}, {"x": stream_def(shape=2)}),
        ValueError,
        "(3,)",
    ),
    # Files.
    ("no such stream", lambda f: sh.open(ctf(f), ["z"]), sh.DataError, "there are: A, S"),
    ("no such column", lambda f: serve(sh.open(parquet(f), ["z"])), sh.DataError, ": x, y"),
    ("no such member", lambda f: serve(sh.open(npz(f), ["z"])), ValueError, "there are: x, y"),
    ("a misspelt path", lambda f: sh.open(ctf(f).parent / "t.ctf"), FileNotFoundError, "t.ctf"),
    ("no folder", lambda f: sh.open(f / "data" / "a"), FileNotFoundError, "no folder"),
    ("a pattern of nothing", lambda f: sh.open(f / "*.csv"), FileNotFoundError, "no file"),
    ("an empty folder", lambda f: sh.open(f), ValueError, "is empty"),
    ("an empty file", lambda f: sh.open(write("a.ctf", "")(f)), sh.DataError, "is empty"),
    ("two formats", lambda f: sh.open(folder_of(parquet, jsonl)(f)), ValueError, "*.parquet"),
    ("two paths", lambda f: sh.open([ctf(f), jsonl(f)]), ValueError, "by a pattern"),
    (
        "data beside what is not read",
        lambda f: sh.open(folder_of(ctf, write("a.pkl", b"\x80\x04"))(f)),
        ValueError,
        "no format that is known here (a.pkl)",
    ),
    ("unknown", lambda f: sh.open(write("a.pkl", b"\x80\x04")(f)), ValueError, "b'\\x80\\x04'"),
    ("splits", lambda f: sh.open(folder_of(write("a/b.csv", ""))(f).parent), ValueError, "a:"),
    ("no row", lambda f: serve(sh.open(write("a.csv", "a,b\n")(f))), sh.DataError, "empty"),
    ("an object", lambda f: sh.open(write("a.json", '{\n"a"')(f)), sh.DataError, "every line"),
    ("no path", lambda f: sh.open(3), TypeError, "sh.open takes paths"),  # type: ignore[arg-type]
    ("bare numbers", lambda f: sh.open(numbers(f)), ValueError, "sequence_length"),
    ("saved splits", lambda f: sh.open(saved_splits(f)), ValueError, "folder of one"),
    ("CTF as Parquet", lambda f: sh.ParquetDeserializer(ctf(f)), sh.DataError, "the footer"),
    # Definitions of streams.
    ("a name alone", lambda f: sh.open(npz(f), "x"), TypeError, "a list of names"),
    ("a definition alone", lambda f: sh.open(npz(f), stream_def()), TypeError, AS_DEFINITIONS),
    ("no streams", lambda f: sh.open(npz(f), []), ValueError, "at least one stream"),
    ("a name twice", lambda f: sh.open(npz(f), ["x", "x"]), ValueError, "'x' is listed twice"),
    ("no names", lambda f: sh.open(npz(f), [stream_def()]), TypeError, AS_DEFINITIONS),  # type: ignore[list-item]
    ("a misspelt dtype", lambda f: stream_def(dtype="flot32"), TypeError, "'float32' or"),
    ("a dtype of text", lambda f: stream_def(dtype=str), TypeError, "leave dtype out"),
    ("a shape in quotes", lambda f: stream_def(shape="784"), TypeError, "such as 784"),
    ("a shape to be found", lambda f: stream_def(shape=(-1, 3)), ValueError, "got -1"),
    ("one transform", lambda f: stream_def(transforms=abs), TypeError, "=[function]"),
    # A loop over the source itself, and what gives minibatches.
    ("for in source", lambda f: list(source()), TypeError, "source.sweep(size)"),
    ("len(source)", lambda f: len(source()), TypeError, "len(source.sweep(size))"),
    (
        "DataLoader(source)",
        lambda f: list(loader(source())),
        TypeError,
        "IterableDataset(source",
    ),
    ("no size", lambda f: source().next_minibatch(), TypeError, SIZED),
    ("dataset of a corpus", lambda f: dataset(corpus(), 8), TypeError, "sh.MinibatchSource("),
    ("dataset size 0", lambda f: dataset(source(), 0), ValueError, SIZED),
    (
        "torch's loader with a batch_size",
        lambda f: next(iter(loader(dataset(source(), 8), batch_size=2))),
        TypeError,
        "batch_size=None",
    ),
    # Arguments by other names.
    ("batch_size", lambda f: source(batch_size=8), TypeError, "source.sweep(size)"),
    ("shuffle", lambda f: source(shuffle=True), TypeError, "randomize=True"),
    ("num_workers", lambda f: source(num_workers=2), TypeError, "num_threads="),
    ("epochs", lambda f: source(epochs=3), TypeError, "max_sweeps=n"),
    ("session batch_size", lambda f: session(batch_size=8), TypeError, "mb_size="),
    # Values.
    ("size 0", lambda f: source().next_minibatch(0), ValueError, SIZED),
    ("size 2.5", lambda f: source().epoch(2.5), TypeError, "got 2.5"),
    (
        "a tensor",
        lambda f: source().next_minibatch(them.torch.tensor(8)),
        TypeError,
        "write int(...)",
    ),
    ("an array", lambda f: source().next_minibatch(X), TypeError, "ndarray of shape (4, 3)"),
    ("no notation", lambda f: source().minibatches("128x2"), ValueError, "'value*epochs'"),
    ("rank", lambda f: source().next_minibatch(8, None, None, 2, 2), ValueError, "in [0, 2)"),
    ("closed", lambda f: use_when_closed(), RuntimeError, "make a new one"),
    ("layout 'padded'", lambda f: source(layout="padded"), TypeError, "sh.Padded()"),
    # Minibatches.
    ("no such stream", lambda f: minibatch()["labels"], KeyError, "'tokens', 'label'"),
    ("an attribute", lambda f: minibatch().tokens, AttributeError, "minibatch['tokens']"),
    ("no rows", lambda f: minibatch().segment_ids, AttributeError, "layout=Packed(...)"),
    ("assignment", lambda f: minibatch().__setitem__("x", 3), TypeError, "minibatch.torch()"),
    ("is not None", lambda f: use_what_follows_the_end(), KeyError, "if not"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_is_told_with_its_way_out(mistake: Any, tmp_path: Path) -> None:
    _, call, error, words = mistake
    with pytest.raises(error) as caught:
        call(tmp_path)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message.strip()
    assert len(message) <= LONGEST_MESSAGE


def test_a_source_is_as_it_was_after_a_mistake() -> None:
    made = source()
    for wrong in (0, 2.5, "x"):
        with pytest.raises((TypeError, ValueError)):
            made.next_minibatch(wrong)
    assert made.current_position == 0
    assert made.next_minibatch(8).ids == minibatch().ids


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "bin", "h5"])
def test_a_pointer_of_git_lfs_is_no_data(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"b.{suffix}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12\n")
    for place in (path, tmp_path):
        with pytest.raises(sh.DataError, match="git lfs pull"):
            sh.open(place)
    (tmp_path / "a.txt").write_text("oid sha256:4d7a21\n1\n")
    with pytest.raises(sh.DataError, match="git lfs pull"):
        serve(sh.TextDeserializer([tmp_path / "a.txt", path]))
