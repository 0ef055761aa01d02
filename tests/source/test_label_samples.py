"""How many label samples all workers have is known from the plan, or an error that says why."""

from typing import Any

import numpy as np
import pytest

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
OFFSETS = np.cumsum([0, *LENGTHS])
TOKENS = (np.arange(int(OFFSETS[-1])), OFFSETS)
SINGLE = np.arange(len(LENGTHS))
SIZED = sh.StreamDefs(x=sh.StreamDef(), labels=sh.StreamDef(defines_mb_size=True))
BROADCAST = sh.StreamDefs(
    x=sh.StreamDef(defines_mb_size=True), labels=sh.StreamDef(broadcast=True)
)
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(12),
    sh.Packed(4, split_long="split"),
    sh.Bucketed([4, 10]),
    sh.TruncatedBPTT(3),
]


def shares_of(
    corpus: sh.ArrayDeserializer, layout: sh.Layout, **options: Any
) -> list[list[sh.Minibatch]]:
    """Return the shares of two workers, step by step."""
    sources = [sh.MinibatchSource(corpus, layout=layout, **options) for _ in range(2)]
    return [
        [source.next_minibatch(12, None, None, 2, rank) for rank, source in enumerate(sources)]
        for _ in range(9)
    ]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    ("streams", "definitions"),
    [
        ({"labels": TOKENS}, None),
        ({"x": TOKENS, "labels": TOKENS}, SIZED),
        ({"x": TOKENS, "labels": SINGLE}, None),
        ({"x": TOKENS, "labels": SINGLE}, BROADCAST),
    ],
    ids=["only labels", "sized", "single", "broadcast"],
)
def test_the_labels_of_all_workers_are_known(
    streams: dict[str, Any], definitions: sh.StreamDefs | None, layout: sh.Layout
) -> None:
    for shares in shares_of(sh.ArrayDeserializer(streams, definitions), layout):
        together = sum(share["labels"].num_samples for share in shares)
        assert [share.global_num_label_samples for share in shares] == [together] * 2
        assert [share["labels"].global_num_samples for share in shares] == [together] * 2


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(), sh.Bucketed([1])], ids=str)
@pytest.mark.parametrize("streams", [{"x": SINGLE}, {"x": SINGLE, "labels": SINGLE}])
def test_every_row_is_a_label_sample(streams: dict[str, Any], layout: sh.Layout) -> None:
    for shares in shares_of(sh.ArrayDeserializer(streams), layout):
        together = sum(share["x"].num_samples for share in shares)
        assert [share.global_num_label_samples for share in shares] == [together] * 2


def test_labels_of_unknown_lengths_are_counted_by_one_worker_and_refused_of_several() -> None:
    corpus = sh.ArrayDeserializer({"x": TOKENS, "labels": TOKENS})
    alone = sh.MinibatchSource(corpus).next_minibatch(12)
    assert alone.global_num_label_samples == alone["labels"].num_samples
    one, other = shares_of(corpus, sh.Ragged())[0]
    assert one.num_sequences
    assert other.num_sequences
    with pytest.raises(ValueError, match=r"stream 'labels' .* StreamDef\(\.\.\., defines_mb_"):
        _ = one.global_num_label_samples


def test_more_workers_than_lanes_are_told_which_numbers_divide_them() -> None:
    source = sh.MinibatchSource({"x": SINGLE}, num_lanes=12)
    with pytest.raises(ValueError, match=r"in \[1, 12\].* got 13; 1, 2, 3, 4, 6, 12 have equa"):
        source.next_minibatch(4, None, None, 13, 0)
