"""Streams that are carried beside rows: all of them, with their sequences, in every layout."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.minibatch.content_digest import digest_of, sum_of_digests

LAYOUTS = [
    sh.Ragged(),
    sh.Padded(side="left", multiple_of=4),
    sh.Packed(30),
    sh.Packed(16, split_long="split"),
    sh.Packed(30, micro_batch_rows=2),
    sh.Bucketed([8, 16, 32]),
    sh.TruncatedBPTT(7),
]
DEFINITIONS = sh.StreamDefs(
    tokens=sh.StreamDef(),
    patches=sh.StreamDef(carried=True),
    grid=sh.StreamDef(carried=True),
    names=sh.StreamDef(carried=True),
)
counts = st.lists(st.integers(0, 4), min_size=1, max_size=40).filter(lambda one: len(one) > 1)


def data_of(numbers: list[int]) -> dict[str, list[Any]]:
    """Return tokens of 1 to 23 samples, and pictures: patches, a grid and a name for each."""
    return {
        "tokens": [np.arange(2 + (7 * i) % 22) for i in range(len(numbers))],
        "patches": [
            (i + np.arange(3 * n * 2).reshape(-1, 2) / 100).astype(np.float32)
            for i, n in enumerate(numbers)
        ],
        "grid": [np.full((n, 3), i, np.int64) for i, n in enumerate(numbers)],
        "names": [[f"{i}-{k}".encode() for k in range(n)] for i, n in enumerate(numbers)],
    }


def corpus_of(numbers: list[int]) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer(data_of(numbers), DEFINITIONS)


def numbers_of(minibatch: sh.Minibatch) -> list[int]:
    return [int(name.rpartition("__")[2]) for name in minibatch.ids]


def check_items(minibatch: sh.Minibatch, data: dict[str, list[Any]], seen: set[int]) -> None:
    """Compare what a minibatch carries with the corpus; add the sequences that it came with."""
    numbers = numbers_of(minibatch)
    firsts = np.zeros(len(numbers), int)
    rows = np.arange(len(numbers))
    if minibatch.layout.has_rows:
        cells = minibatch.planned.cells().reshape(-1, 4)
        rows, firsts = cells[:, 0], cells[:, 2]
    for name in ("patches", "grid", "names"):
        stream = minibatch[name]
        wanted = [
            np.array(data[name][i], stream.values.dtype)[: None if first == 0 else 0]
            for i, first in zip(numbers, firsts, strict=True)
        ]
        lengths = [len(one) for one in wanted]
        assert stream.lengths.tolist() == lengths
        assert stream.num_samples == len(stream.values) == stream.offsets[-1] == sum(lengths)
        assert stream.rows.tolist() == np.repeat(rows, lengths).tolist()
        assert stream.sequences.tolist() == np.repeat(np.arange(len(numbers)), lengths).tolist()
        for found, one in zip(stream.as_sequences(), wanted, strict=True):
            assert found.tolist() == one.tolist()
    seen |= {i for i, first in zip(numbers, firsts, strict=True) if first == 0}


@given(counts, st.sampled_from([one for one in LAYOUTS if not one.rows_go_on]))
def test_parts_of_a_share_and_pickles_keep_them(numbers: list[int], layout: sh.Layout) -> None:
    data = data_of(numbers)
    source = sh.MinibatchSource(corpus_of(numbers), layout=layout)
    minibatch = source.next_minibatch(90)
    middle = minibatch.num_rows // 2
    parts = [minibatch.rows(0, middle), minibatch.rows(middle, minibatch.num_rows)]
    parts += minibatch.micro_batches() if layout.micro_batch_rows else []
    for part in parts:
        check_items(part, data, set())
    assert sum(part["patches"].num_samples for part in parts[:2]) == (
        minibatch["patches"].num_samples
    )
    again = pickle.loads(pickle.dumps(minibatch))
    check_items(again, data, set())
    assert digest_of(again) == digest_of(minibatch)
    names = ["tokens", "patches", "grid"]
    total = sum(sum_of_digests(part, names) for part in parts[:2]) % 2**64
    assert total == sum_of_digests(minibatch, names)
    alone = pickle.loads(pickle.dumps(minibatch["patches"]))
    assert alone.rows.tolist() == minibatch["patches"].rows.tolist()


@pytest.mark.parametrize("size", ["same", "measured"])
def test_a_map_may_give_them(size: Any) -> None:
    def patched(sequence: dict[str, Any], **_: Any) -> dict[str, Any]:
        tokens = sequence["tokens"]
        count = len(tokens) % 3
        return {"tokens": tokens, "patches": np.full((count, 2), len(tokens), np.float32)}

    tokens = [np.arange(2 + i % 9) for i in range(30)]
    corpus = sh.ArrayDeserializer({"tokens": tokens}).map(
        patched,
        name="patched",
        size=size,
        streams=sh.StreamDefs(tokens=sh.StreamDef(), patches=sh.StreamDef(carried=True)),
    )
    source = sh.MinibatchSource(corpus, layout=sh.Packed(20), max_sweeps=1)
    num_items = 0
    while minibatch := source.next_minibatch(60):
        for number, patches in zip(
            numbers_of(minibatch), minibatch["patches"].as_sequences(), strict=True
        ):
            size = len(tokens[number])
            assert patches.tolist() == [[size, size]] * (size % 3)
            num_items += len(patches)
    assert num_items == sum(len(one) % 3 for one in tokens)


def test_lines_of_json_and_joined_corpora_have_them(tmp_path: Path) -> None:
    numbers = [i % 3 for i in range(20)]
    data = data_of(numbers)
    path = tmp_path / "lines.jsonl"
    lines = [
        {"tokens": data["tokens"][i].tolist(), "boxes": [[i, k] for k in range(n * 9)]}
        for i, n in enumerate(numbers)
    ]
    lines[0]["boxes"] = [[0, 0]]
    path.write_text("\n".join(map(json.dumps, lines)))
    definitions = sh.StreamDefs(
        tokens=sh.StreamDef(), boxes=sh.StreamDef(carried=True, shape=2, dtype="int64")
    )
    by_lines = sh.JSONLDeserializer(path, definitions)
    beside = sh.ArrayDeserializer(
        {"patches": data["patches"]}, sh.StreamDefs(patches=sh.StreamDef(carried=True))
    )
    tokens = sh.ArrayDeserializer({"tokens": data["tokens"]})
    for corpora in ([by_lines], [tokens, beside]):
        source = sh.MinibatchSource(corpora, layout=sh.Packed(30), max_sweeps=1)
        seen: list[int] = []
        while minibatch := source.next_minibatch(90):
            name = "boxes" if "boxes" in minibatch else "patches"
            for i, items in zip(
                numbers_of(minibatch), minibatch[name].as_sequences(), strict=True
            ):
                wanted = lines[i]["boxes"] if name == "boxes" else data["patches"][i].tolist()
                assert items.tolist() == wanted
                seen.append(i)
        assert sorted(seen) == list(range(20))


def test_what_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'patches' is carried beside whole sequences"):
        sh.MinibatchSource(corpus_of([1, 2]), layout=sh.Frames())
    for wrong in ({"defines_mb_size": True}, {"broadcast": True}, {"loss_mask": "mask"}):
        with pytest.raises(ValueError, match=f"leave out {next(iter(wrong))}"):
            sh.StreamDef(carried=True, **wrong)
    source = sh.MinibatchSource(corpus_of([1, 2]), layout=sh.Packed(30))
    minibatch = source.next_minibatch(30)
    with pytest.raises(TypeError, match="'grid' is carried"):
        minibatch["grid"].labels()
    assert "patches" in minibatch.show()._repr_html_()


def limited(over_limit: Any = "error", most: int = 12, **options: Any) -> sh.Packed:
    return sh.Packed(30, limits={"patches": most}, over_limit=over_limit, **options)


def test_a_sequence_over_a_limit_is_refused_dropped_or_alone() -> None:
    numbers = [0, 1, 4, 2, 4, 1]  # three patches each
    with pytest.raises(ValueError, match=r"2 of 6 .* limit of 9 .*'patches'.*array__2.* 12"):
        sh.MinibatchSource(corpus_of(numbers), layout=limited(most=9))
    with pytest.raises(ValueError, match="nothing is left"):
        sh.MinibatchSource(corpus_of([4, 4]), layout=limited("drop", 9))
    dropping = sh.MinibatchSource(corpus_of(numbers), layout=limited("drop", 9), max_sweeps=1)
    minibatch = dropping.next_minibatch(sh.FULL_DATA_SWEEP)
    assert sorted(numbers_of(minibatch)) == [0, 1, 3, 5]
    assert dropping.stats()["dropped_sequences"] == 2
    alone = sh.MinibatchSource(corpus_of(numbers), layout=limited("alone", 9), max_sweeps=1)
    minibatch = alone.next_minibatch(sh.FULL_DATA_SWEEP)
    assert sorted(numbers_of(minibatch)) == list(range(6))
    patches = minibatch["patches"]
    rows = minibatch.planned.cells().reshape(-1, 4)[:, 0]
    for row in range(minibatch.num_rows):
        own = patches.lengths[rows == row]
        assert own.sum() <= 9 or np.count_nonzero(own) == 1


def test_limits_and_costs_are_of_carried_streams() -> None:
    for wrong in ("nothing", "tokens"):
        for options in (
            {"layout": sh.Packed(30, limits={wrong: 3})},
            {"layout": sh.Packed(30), "balance": sh.Attention(cost={wrong: 3.5})},
        ):
            with pytest.raises(ValueError, match=f"'{wrong}' is none, there are: patches"):
                sh.MinibatchSource(corpus_of([1, 2]), **options)
    mixture = sh.Mixture(
        {"a": corpus_of([1, 2, 3]), "b": corpus_of([3, 2])}, weights={"a": 2, "b": 1}
    )
    minibatch = sh.MinibatchSource(mixture, layout=sh.Packed(30)).next_minibatch(90)
    for name, items in zip(minibatch.ids, minibatch["patches"].as_sequences(), strict=True):
        corpus, _, number = name.partition("/array__")
        assert (
            len(items) == 3 * {"a": [1, 2, 3], "b": [3, 2]}[corpus[0]][int(number or name[-1])]
        )


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(
    "layout", [sh.Packed(64), sh.Packed(64, micro_batch_rows=4), sh.Ragged()]
)
def test_shares_cost_the_same_with_what_they_carry(workers: int, layout: sh.Layout) -> None:
    numbers = [(i * 7 % 13) % 5 for i in range(800)]
    balance = sh.Attention(1000, cost={"patches": 5})
    sources = [
        sh.MinibatchSource(corpus_of(numbers), layout=layout, balance=balance)
        for _ in range(workers)
    ]
    for _ in range(3):
        shares = [
            source.next_minibatch(
                64 * 16 * workers, num_data_partitions=workers, partition_index=rank
            )
            for rank, source in enumerate(sources)
        ]
        costs = [
            balance.cost(one["tokens"].lengths.astype(float)).sum()
            + 5 * one["patches"].num_samples
            for one in shares
        ]
        assert max(costs) / np.mean(costs) < 1.05
