"""Law 18: how many labels count in a step, over all workers, is known from its plan."""

import itertools
from typing import Any

import numpy as np
import pytest
from tests.model import ModelCorpus
from tests.source.rows import Chunks

import sweephand as sh

IGNORED = -100


def counted(share: sh.Minibatch) -> int:
    return int((share["tokens"].labels() != IGNORED).sum())


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Packed(16), sh.TruncatedBPTT(5)], ids=str)
def test_labels_are_counted_before_anything_is_read(layout: sh.Layout) -> None:
    chunks = Chunks(ModelCorpus.of([[3, 9, 2], [7, 1], [4, 4, 4, 4]]))
    source = sh.MinibatchSource(chunks, layout=layout, max_sweeps=1)
    chunks.loads.clear()  # the first one tells what streams are
    counts = [plan.global_num_label_samples for plan in source.plan(16)]
    assert sum(counts) == 38 - 9
    assert not chunks.loads


def test_what_is_skipped_as_damaged_is_counted_as_planned() -> None:
    """Nobody knows of it before it is read: the plan keeps its place, as it does in time."""

    def item(n: int) -> dict[str, Any]:
        if n == 2:
            raise ValueError("damaged")
        return {"tokens": np.arange(5)}

    class Items:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, n: int) -> dict[str, Any]:
            return item(n)

    corpus = sh.MapDeserializer(Items(), {"tokens": sh.StreamDef()}, lengths=[5] * 6)
    source = sh.MinibatchSource(corpus, max_errors=1, randomize=False)
    share = source.next_minibatch(30)
    assert share.num_samples == 25
    assert share.num_label_samples == counted(share) == 20
    assert share.global_num_label_samples == 24


ROWS = np.arange(6)
LONG = (np.arange(12), [0, 2, 4, 6, 8, 10, 12])


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ({"labels": LONG}, 12),  # a stream of labels has one in every sample
        ({"tokens": LONG, "labels": ROWS}, 6),
        ({"tokens": LONG}, 6),  # next tokens
        ({"tokens": LONG, "number": ROWS}, 6),
        ({"number": ROWS, "tokens": LONG}, 6),
        ({"x": (np.zeros(12, np.float32), LONG[1])}, 12),  # no tokens
        ({"x": (np.zeros((12, 2), np.int64), LONG[1])}, 12),
        ({"x": ROWS}, 6),  # rows have no next one
    ],
    ids=itertools.count(),
)
def test_which_labels_count_follows_from_the_streams(
    streams: dict[str, Any], expected: int
) -> None:
    source = sh.MinibatchSource(sh.ArrayDeserializer(streams))
    plan = next(source.plan(sh.FULL_DATA_SWEEP))
    assert plan.global_num_label_samples == expected
    assert source.next_minibatch(sh.FULL_DATA_SWEEP).global_num_label_samples == expected


def test_the_stream_that_defines_the_size_holds_the_tokens() -> None:
    longer = (np.arange(24), np.arange(0, 25, 4))
    definitions = sh.StreamDefs(other=sh.StreamDef(), tokens=sh.StreamDef(defines_mb_size=True))
    corpus = sh.ArrayDeserializer({"other": longer, "tokens": LONG}, definitions)
    share = sh.MinibatchSource(corpus).next_minibatch(12, num_data_partitions=2)
    assert share.global_num_label_samples == 6
    assert share["tokens"].global_num_labels() == 6
    with pytest.raises(ValueError, match="stream 'other' is not known before it is read"):
        share["other"].global_num_labels()


def test_a_stream_of_labels_is_counted_without_what_is_banned() -> None:
    streams = {"tokens": LONG, "labels": ROWS}
    sources = [sh.MinibatchSource(sh.ArrayDeserializer(streams)) for _ in range(2)]
    for source in sources:
        source.events.ban(["array__1", "array__4"])
    shares = [source.next_minibatch(12, None, None, 2, k) for k, source in enumerate(sources)]
    assert sum(share["labels"].num_samples for share in shares) == 4
    assert [share.global_num_label_samples for share in shares] == [4, 4]
    assert [share["labels"].global_num_samples for share in shares] == [6, 6]


RAGGED = (np.arange(39), np.cumsum([0, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3]))


def test_labels_of_unknown_lengths_are_counted_by_one_worker_and_refused_of_several() -> None:
    corpus = sh.ArrayDeserializer({"x": RAGGED, "labels": RAGGED})
    alone = sh.MinibatchSource(corpus).next_minibatch(12)
    assert alone.global_num_label_samples == alone["labels"].num_samples
    one = sh.MinibatchSource(corpus).next_minibatch(12, num_data_partitions=2)
    assert one.num_sequences
    with pytest.raises(ValueError, match=r"stream 'labels' .* StreamDef\(\.\.\., defines_mb_"):
        _ = one.global_num_label_samples
