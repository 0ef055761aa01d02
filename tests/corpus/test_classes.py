"""Strata, balanced classes, and texts as classes."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from fractions import Fraction
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpus.test_split import word_of
from tests.read.format_corpora import corpus_for, jsonl, megatron, parquet, raw_tokens

import sweephand as sh
from sweephand.maps import sequence_classes

TEXTS = ["dog", "cat", "dog", "eel", "dog", "dog"]


def labelled(labels: Any) -> sh.Deserializer:
    return sh.ArrayDeserializer({"x": np.arange(len(labels)), "label": labels})


def ids_and_labels(corpus: Any) -> dict[str, Any]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return {
            name: label
            for one in source.minibatches(64)
            for name, label in zip(one.ids, one["label"].values.tolist(), strict=True)
        }


def lines(folder: Path, count: int = 100) -> Path:
    rows = ({"x": [n], "label": "neg" if n % 5 == 0 else "pos"} for n in range(count))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "a.jsonl"


@given(
    st.lists(st.integers(0, 6), min_size=20, max_size=60),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.integers(0, 2**64 - 1),
)
def test_strata_are_those_of_the_page(labels: list[int], weights: list[int], seed: int) -> None:
    """docs/order.md, section 8, in plain Python."""
    shares = [Fraction(one, sum(weights)) for one in weights]
    of_class: dict[str, list[tuple[int, int]]] = {}
    for n, label in enumerate(labels):
        of_class.setdefault(str(label), []).append((word_of(f"array__{n}", seed), n))
    order = sorted(of_class, key=lambda one: word_of(one, seed))
    names = [f"p{n}" for n in range(len(shares) - 1)] + ["train"]
    wanted: dict[str, set[str]] = {name: set() for name in names}
    left, rest = [len(of_class[one]) for one in order], Fraction(1)
    table = []
    for share in shares[:-1]:
        ends = [(share / rest * end + Fraction(1, 2)).__floor__() for end in accumulate(left)]
        table.append([end - begin for begin, end in pairwise([0, *ends])])
        left = [one - cut for one, cut in zip(left, table[-1], strict=True)]
        rest -= share
    rows = zip(*table, left, strict=True)
    for label, row in zip(order, rows, strict=True):
        sequences = iter(sorted(of_class[label]))
        for name, count in zip(names, row, strict=True):
            wanted[name] |= {f"array__{n}" for _, n in islice(sequences, count)}
    given_shares = dict(zip(names[:-1], shares, strict=False))
    parts = sh.split(labelled(np.array(labels)), seed=seed, by="label", **given_shares)
    for name, part in zip(["train", *names[:-1]], parts, strict=True):
        if wanted[name]:
            assert set(ids_and_labels(part)) == wanted[name]


def test_a_state_of_another_split_is_refused() -> None:
    corpus = labelled(np.arange(40) % 2)
    state = sh.MinibatchSource(sh.split(corpus, validation=0.5, by="label")[1]).state_dict()
    again = sh.MinibatchSource(sh.split(corpus, validation=0.5, by="label")[1])
    again.load_state_dict(state)
    with pytest.raises(sh.StateError, match="names"):
        sh.MinibatchSource(sh.split(corpus, validation=0.5)[1]).load_state_dict(state)


def test_labels_of_files_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path)
    before = [ids_and_labels(part) for part in sh.split(sh.open(path), test=0.2, by="label")]
    assert sorted(Counter(before[1].values()).items()) == [(b"neg", 4), (b"pos", 16)]

    def again(*_: object) -> None:
        raise AssertionError("labels are read again")

    monkeypatch.setattr(sequence_classes, "batches", again)
    after = [ids_and_labels(part) for part in sh.split(sh.open(path), test=0.2, by="label")]
    assert after == before
    assert sh.Mixture.by(sh.open(path), "label").names == ["neg", "pos"]
    monkeypatch.undo()
    lines(tmp_path, 50)
    assert len(ids_and_labels(sh.split(sh.open(path), test=0.2, by="label")[1])) == 10


def test_labels_of_pictures_are_known_without_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        path = tmp_path / ("cat" if n % 4 == 0 else "dog") / f"{n}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no picture")

    def read(*_: object) -> bytes:
        raise AssertionError("a picture is read")

    monkeypatch.setattr(sh.ImageFolder, "_read", read)
    corpus = sh.ImageFolder(
        tmp_path, {"image": sh.StreamDef(), "label": sh.StreamDef()}, index=None
    )
    parts = sh.split(corpus, validation=0.25, by="label")
    opened = [sh.MinibatchSource(part) for part in parts]
    assert [one.num_sequences_per_sweep for one in opened] == [15, 5]
    assert sh.Mixture.by(corpus, "label").names == ["0", "1"]


@pytest.mark.parametrize(
    "make", [megatron, raw_tokens, jsonl, parquet], ids=lambda make: make.__name__
)
def test_parts_by_a_function_of_a_map_unite(make: Any, tmp_path: Path) -> None:
    corpus = make(tmp_path, corpus_for(make)).map(with_label, streams=None)
    parts = [ids_and_labels(part) for part in sh.split(corpus, validation=0.4, by="label")]
    assert ids_and_labels(corpus) == parts[0] | parts[1]


def with_label(sequence: Any) -> Any:
    name = next(iter(sequence))
    return {**sequence, "label": np.array([len(sequence[name]) % 2])}


def test_a_mixture_of_classes_is_balanced_and_complete() -> None:
    labels = (np.arange(1000) >= 990).astype(np.int64)
    mixture = sh.Mixture.by(labelled(labels), "label")
    assert mixture.names == ["0", "1"]
    source = sh.MinibatchSource(mixture, randomization_seed=3)
    minibatch = source.next_minibatch(200)
    assert minibatch.num_samples_by() == {"0": 100, "1": 100}
    found = [name.split("/") for name in minibatch.ids]
    assert all(labels[int(name.partition("__")[2])] == int(label) for label, name in found)
    rare = Counter(name for label, name in found if label == "1")
    assert set(rare) == {f"array__{n}" for n in range(990, 1000)}
    assert set(rare.values()) == {10}  # whole sweeps of the rare class
    again = pickle.loads(pickle.dumps(source))
    again.current_position = 0
    assert again.next_minibatch(200).ids == minibatch.ids


def test_weights_of_classes_are_given_by_number_or_name() -> None:
    for weights in ({0: 3, 1: 1}, {"0": 3, "1": 1}, [(0, {0: 3, 1: 1})]):
        mixture = sh.Mixture.by(labelled(np.arange(40) % 2), "label", weights)  # type: ignore[arg-type]
        counts = sh.MinibatchSource(mixture).next_minibatch(40).num_samples_by()
        assert counts == {"0": 30, "1": 10}
    with pytest.raises(ValueError, match="none for '1'"):
        sh.Mixture.by(labelled(np.arange(40) % 2), "label", {0: 1})
    with pytest.raises(ValueError, match="weights are 'equal'"):
        sh.Mixture.by(labelled(np.arange(40) % 2), "label", "same")  # type: ignore[arg-type]


def test_classes_that_change_after_the_mixture_was_made_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path)
    mixture = sh.Mixture.by(sh.open(path), "label")
    with path.open("a") as file:
        file.write('{"x": [1], "label": "new"}\n')
    again = sh.Mixture.by(sh.open(path), "label")
    assert again.names == ["neg", "new", "pos"]
    with pytest.raises(sh.DataError):
        sh.MinibatchSource(mixture).next_minibatch(4)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.arange(3.0), "is of float64, and a class is"),
        ([np.arange(2), np.arange(1), np.arange(3)], "several a sequence"),
        (["a/b", "c", "d"], "'a/b' cannot name a corpus"),
    ],
)
def test_what_is_no_class_is_refused(labels: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sh.Mixture.by({"x": np.arange(3), "label": labels}, "label")


def test_a_mixture_of_classes_is_of_one_corpus() -> None:
    with pytest.raises(TypeError, match=r"Mixture\.by takes one corpus"):
        sh.Mixture.by([labelled([1]), labelled([2])], "label")


def test_texts_become_classes_whose_names_are_kept() -> None:
    source = sh.MinibatchSource(labelled(TEXTS).map(sh.classes("label")), randomize=False)
    assert source.next_minibatch(6)["label"].values.tolist() == [1, 0, 1, 2, 1, 1]
    info = source.streams.label
    assert info.classes == pickle.loads(pickle.dumps(info)).classes == ("cat", "dog", "eel")
    state = source.state_dict()
    assert "cat, dog, eel" in state["names"]
    other = labelled(["ant", *TEXTS[1:]]).map(sh.classes("label"))
    with pytest.raises(sh.StateError, match="ant"):
        sh.MinibatchSource(other, randomize=False).load_state_dict(state)
    named = labelled(TEXTS).map(sh.classes("label", ["cat", "dog", "eel"]))
    sh.MinibatchSource(named, randomize=False).load_state_dict(state)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["10", "9", "1"], ("1", "10", "9")),
        (["b", "B", "é", "02", "-1", "2"], ("-1", "02", "2", "B", "b", "é")),
        (np.array([10, 9, -1]), ("-1", "9", "10")),
        (np.array([True, False]), ("False", "True")),
    ],
)
def test_texts_sort_as_texts_and_integers_as_numbers(
    labels: Any, names: tuple[str, ...]
) -> None:
    source = sh.MinibatchSource(labelled(labels).map(sh.classes("label")))
    assert source.streams.label.classes == names
    assert tuple(sh.Mixture.by(labelled(labels), "label").names) == names


def test_both_parts_of_a_split_have_the_classes_of_the_whole() -> None:
    corpus = labelled(TEXTS).map(sh.classes("label"))
    parts = [sh.MinibatchSource(part) for part in sh.split(corpus, validation=0.5)]
    assert {one.streams.label.classes for one in parts} == {("cat", "dog", "eel")}


def test_corpora_whose_numbers_are_other_classes_are_not_mixed() -> None:
    one, other = (labelled(texts).map(sh.classes("label")) for texts in (TEXTS, ["ant", "cat"]))
    with pytest.raises(ValueError, match="'label' are other classes in 'a'"):
        sh.MinibatchSource(sh.Mixture({"a": one, "b": other}, {"a": 1, "b": 1}))
    with pytest.raises(ValueError, match="give all corpora the same"):
        sh.MinibatchSource(sh.Mixture.by(labelled(TEXTS), "label").map(sh.classes("label")))
    known = sh.classes("label", ["cat", "dog", "eel"])
    source = sh.MinibatchSource(sh.Mixture.by(labelled(TEXTS), "label").map(known))
    assert source.streams.label.classes == ("cat", "dog", "eel")


def test_a_text_that_is_no_class_is_an_error_with_its_sequence() -> None:
    corpus = labelled(TEXTS).map(sh.classes("label", ["dog", "cat"]))
    with pytest.raises(
        sh.DataError, match=r"array__3.*'eel' is none of the 2 classes dog, cat"
    ):
        sh.MinibatchSource(corpus, randomize=False).next_minibatch(6)
    source = sh.MinibatchSource(corpus, randomize=False, max_errors=1)
    assert source.next_minibatch(6).num_sequences == 5


@pytest.mark.parametrize("names", ["dog", [], ["a", "a"], [1, 2]])
def test_wrong_names_are_refused(names: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="names are"):
        sh.classes("label", names)
