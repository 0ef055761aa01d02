"""Parts of a corpus: who belongs to which depends on the id, the seed and the shares alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.format_corpora import EVERY_FORMAT, Make, corpus_for

import sweephand as sh
from sweephand import _core
from sweephand.corpus.ids import ShardIds, digests_of_names

GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % 2**64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def word_of(name: str, seed: int) -> int:
    """The word of an id as docs/order.md defines it."""
    digest = 0xCBF29CE484222325
    for byte in name.encode("utf-8", "surrogateescape"):
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    key = mix64(mix64((seed + GOLDEN) % 2**64))
    return mix64(key ^ mix64((digest + 2 * GOLDEN) % 2**64))


def rows(count: int = 400, **options: object) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"x": np.arange(count)}, **options)  # type: ignore[arg-type]


def ids_of(corpus: sh.Deserializer) -> list[str]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return [name for minibatch in source.minibatches(64) for name in minibatch.ids]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"])) | st.just("a\udcff"), max_size=9
    ),
    st.integers(0, 2**64 - 1),
)
def test_words_are_those_of_the_definition(names: list[str], seed: int) -> None:
    words = _core.base.digest_words(digests_of_names(names), seed)
    assert words.tolist() == [word_of(name, seed) for name in names]


@given(st.text("aé_", max_size=4), st.integers(0, 1200))
def test_numbered_names_have_the_digests_of_names(name: str, count: int) -> None:
    ids = ShardIds([name], [0, count])
    names = ids.names(np.arange(count))
    assert ids.digests(count).tolist() == digests_of_names(names).tolist()


def test_a_part_is_what_the_definition_says() -> None:
    train, validation = sh.split(rows(), validation=0.1, seed=3)
    drawn = {f"array__{n}" for n in range(400) if word_of(f"array__{n}", 3) < 2**64 // 10}
    assert set(ids_of(validation)) == drawn
    assert set(ids_of(train)) == {f"array__{n}" for n in range(400)} - drawn


@pytest.mark.parametrize("make", EVERY_FORMAT, ids=lambda make: make.__name__)
def test_parts_deliver_the_values_of_their_ids_and_unite_to_the_corpus(
    make: Make, tmp_path: Path
) -> None:
    corpus = make(tmp_path, corpus_for(make))

    def by_id(corpus: sh.Deserializer) -> dict[str, str]:
        found = {}
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            for minibatch in source.minibatches(20):
                stream = next(iter(minibatch))
                for name, values in zip(
                    minibatch.ids, minibatch[stream].as_sequences(), strict=True
                ):
                    found[name] = str(np.asarray(values).tolist())
        return found

    whole = by_id(corpus)
    parts = [by_id(part) for part in sh.split(corpus, validation=0.4)]
    assert all(parts)
    assert parts[0] | parts[1] == whole
    assert not parts[0].keys() & parts[1].keys()


def test_files_that_are_added_move_no_sequence(tmp_path: Path) -> None:
    for number in range(3):
        lines = "".join(f'{{"a": [{number}, {line}]}}\n' for line in range(60))
        (tmp_path / f"{number}.jsonl").write_text(lines)

    def parts(pattern: str) -> list[set[str]]:
        corpus = sh.JSONLDeserializer(
            str(tmp_path / pattern), sh.StreamDefs(a=sh.StreamDef()), index=None
        )
        return [set(ids_of(part)) for part in sh.split(corpus, validation=0.2)]

    few, all_of_them = parts("[01].jsonl"), parts("*.jsonl")
    assert all(one < two for one, two in zip(few, all_of_them, strict=True))


def test_thirds_are_shares() -> None:
    parts = sh.split(rows(), a=Fraction(1, 3), b=Fraction(1, 3), train=Fraction(1, 3))
    assert sum(len(ids_of(part)) for part in parts) == 400
    near = sh.split(rows(), a=1 / 3, b=1 / 3, train=1 / 3)
    assert sum(len(ids_of(part)) for part in near) == 400


def test_groups_stay_together() -> None:
    ids = [f"{speaker}/{take}" for speaker in range(50) for take in range(4)]
    corpus = rows(200, ids=ids)
    parts = [
        {name.split("/")[0] for name in ids_of(part)}
        for part in sh.split(corpus, validation=0.2, by=lambda name: name.split("/")[0])
    ]
    assert not parts[0] & parts[1]
    with pytest.raises(TypeError, match="by must return the name of a group as str, got int"):
        ids_of(sh.split(corpus, validation=0.2, by=len)[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [None, [f"s{n}" for n in range(90)]])
def test_a_part_is_joined_with_the_whole_of_another(ids: list[str] | None) -> None:
    """By ids, or by the numbers that the sequences had before."""
    x = sh.ArrayDeserializer({"x": np.arange(90)}, ids=ids, name="x")
    y = sh.ArrayDeserializer({"y": np.arange(90) * 2}, ids=ids, name="y")
    train, _ = sh.split(x, validation=0.3)
    twice, _ = sh.split(train, validation=0.5)
    for part in (train, twice):
        with sh.MinibatchSource([part, y], max_sweeps=1) as source:
            minibatch = source.next_minibatch(90)
        np.testing.assert_array_equal(minibatch["y"].values, 2 * minibatch["x"].values)
        assert 10 < minibatch.num_samples < 80


def test_an_empty_part_is_an_error_when_it_is_opened() -> None:
    _, validation = sh.split(rows(2), validation=0.0001)
    with pytest.raises(ValueError, match="nothing is left in validation: none of 2 sequences"):
        sh.MinibatchSource(validation)
