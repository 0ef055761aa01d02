"""Law 18: how many labels count in a step, over all workers, is known from its plan."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model import ModelCorpus, ModelSettings
from tests.source.rows import Chunks
from tests.sources import engines, order_options, ragged
from tests.strategies import sequence_corpora, timelines

import sweephand as sh
from sweephand.events.event import Ban, Event, Skip

IGNORED = -100
WORKERS = st.integers(1, 4)


def layouts_of(corpus: ModelCorpus) -> st.SearchStrategy[sh.Layout]:
    lengths = st.integers(1, 30)
    groups = st.sampled_from([None, 1, 3])
    return st.one_of(
        st.just(sh.Ragged()),
        st.builds(sh.Padded, side=st.sampled_from(["left", "right"])),
        st.builds(sh.Packed, lengths, st.just("split"), micro_batch_rows=groups),
        st.just(sh.Packed(max(corpus.sizes))),
        st.builds(lambda count: sh.Bucketed("auto", count), st.integers(1, 5)),
        st.builds(sh.TruncatedBPTT, lengths),
    )


def events_of(corpus: ModelCorpus) -> st.SearchStrategy[list[Event]]:
    """Bans from the start on, and spans that are skipped."""
    numbers = st.sets(st.integers(0, corpus.num_sequences - 1), min_size=1, max_size=5)
    times = st.integers(0, 2 * corpus.num_samples)
    bans = numbers.map(lambda some: Ban(at=0, ids=tuple(f"array__{n}" for n in some)))
    skips = st.builds(lambda at, more: Skip(at=at, stop=at + more), times, st.integers(1, 20))
    return st.lists(st.one_of(bans, skips), max_size=3)


def balances_of(settings: ModelSettings, layout: sh.Layout) -> st.SearchStrategy[Any]:
    may_change = settings.randomize and not layout.rows_go_on
    return st.sampled_from([None, "samples"]) if may_change else st.none()


def made(
    corpus: ModelCorpus, settings: ModelSettings, layout: sh.Layout, **options: Any
) -> sh.MinibatchSource:
    runs = np.split(np.arange(corpus.num_samples), np.cumsum(corpus.sizes)[:-1])
    streams = {"tokens": ragged(list(runs), np.int64)}
    deserializer = sh.ArrayDeserializer(streams, chunk_size=4)
    return sh.MinibatchSource(deserializer, layout=layout, **order_options(settings), **options)


def counted(share: sh.Minibatch, *, shifted: bool = True) -> int:
    return int((share["tokens"].labels(shifted=shifted) != IGNORED).sum())


@given(st.data())
def test_the_labels_of_a_step_are_those_that_its_plan_counts(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines(sequence_corpora()))
    layout = data.draw(layouts_of(corpus))
    events = data.draw(events_of(corpus))
    balance = data.draw(balances_of(settings, layout))
    size = data.draw(st.integers(1, 2 * corpus.num_samples))
    workers = data.draw(st.integers(1, min(4, settings.num_lanes)))
    sources = [
        made(
            corpus,
            settings,
            layout,
            events=events,
            balance=balance,
            max_sweeps=2,
            **data.draw(engines()),
        )
        for _ in range(workers)
    ]
    plans = sources[0].plan(size, num_data_partitions=workers)
    for plan, _ in zip(plans, range(6), strict=False):
        shares = [
            source.next_minibatch(size, num_data_partitions=workers, partition_index=rank)
            for rank, source in enumerate(sources)
        ]
        together = sum(map(counted, shares))
        unshifted = sum(counted(share, shifted=False) for share in shares)
        assert plan.global_num_label_samples == together
        for share in shares:
            assert share.global_num_label_samples == together
            assert share["tokens"].global_num_labels() == together
            assert share["tokens"].global_num_labels(shifted=False) == unshifted
            assert share.num_label_samples == counted(share)
            assert sum(share["tokens"].loss_mask().ravel()) == counted(share)


@given(st.data())
def test_parts_of_a_share_have_its_labels_and_know_those_of_the_step(
    data: st.DataObject,
) -> None:
    """Micro-batches, and the context parts of each."""
    corpus, settings = data.draw(timelines(sequence_corpora()))
    layout = sh.Packed(8 * data.draw(st.integers(1, 4)), "split", micro_batch_rows=2)
    share = made(corpus, settings, layout, max_sweeps=1).next_minibatch(
        data.draw(st.integers(1, 300)), num_data_partitions=data.draw(WORKERS)
    )
    parts = share.micro_batches()
    assert sum(map(counted, parts)) == counted(share)
    assert sum(part.num_label_samples for part in parts) == counted(share)
    for part in parts:
        assert part.global_num_label_samples == share.global_num_label_samples
        labels = part["tokens"].labels()
        split = part.context_parts(data.draw(st.sampled_from([1, 2, 4])))
        assert sum((one.take(labels) != IGNORED).sum() for one in split) == counted(part)


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Packed(16), sh.TruncatedBPTT(5)], ids=str)
def test_labels_are_counted_before_anything_is_read(layout: sh.Layout) -> None:
    chunks = Chunks(ModelCorpus.of([[3, 9, 2], [7, 1], [4, 4, 4, 4]]))
    source = sh.MinibatchSource(chunks, layout=layout, max_sweeps=1)
    chunks.loads.clear()  # the first one tells what streams are
    counts = [plan.global_num_label_samples for plan in source.plan(16)]
    assert sum(counts) == 38 - 9
    assert not chunks.loads


def test_shares_that_come_from_another_process_know_the_labels_of_the_step() -> None:
    tokens = {"tokens": (np.arange(40), np.arange(0, 41, 4))}
    source = sh.MinibatchSource(tokens, layout=sh.Packed(8))
    share = source.next_minibatch(32, num_data_partitions=2, partition_index=1)
    again = pickle.loads(pickle.dumps(share))
    assert again.global_num_label_samples == share.global_num_label_samples == 24
    assert again["tokens"].global_num_labels(shifted=False) == 24


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
