"""What callers pass that cannot be: an error that says so, and the source stays usable."""

from typing import Any

import numpy as np
import pytest

import sweephand as sh


def rows(count: int = 10) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"x": np.arange(count)})


SIZES = [0, -1, 1.0, float("nan"), float("inf"), True, None, "4", np.float32(4), 2**63, [4]]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", [1, 4])
def test_a_size_that_is_no_positive_int_leaves_the_source_unchanged(
    size: Any, before: int
) -> None:
    with sh.MinibatchSource(rows()) as source:
        source.next_minibatch(before)
        with pytest.raises(ValueError, match="minibatch_size_in_samples must be"):
            source.next_minibatch(size)
        if not isinstance(size, str | list):
            with pytest.raises(ValueError, match="minibatch_size_in_samples must be"):
                next(source.minibatches(size))
        assert source.current_position == before
        assert source.next_minibatch(4).nominal_time == before


@pytest.mark.parametrize(
    ("workers", "rank", "message"),
    [
        (0, 0, r"num_data_partitions must be in \[1, "),
        (-1, 0, r"num_data_partitions must be in \[1, "),
        (1.0, 0, "num_data_partitions must be an int, got 1.0"),
        (True, 0, "num_data_partitions must be an int, got True"),
        (4, 4, r"partition_index must be in \[0, 4\), got 4"),
        (4, 5, r"partition_index must be in \[0, 4\), got 5"),
        (4, -1, r"partition_index must be in \[0, 4\), got -1"),
        (4, 0.0, "partition_index must be an int, got 0.0"),
        (4, False, "partition_index must be an int, got False"),
        (4, None, "partition_index must be an int, got None"),
        (49, 0, r"num_data_partitions must be in \[1, 48\], the number of lanes, got 49"),
    ],
)
def test_a_rank_outside_the_workers_leaves_the_source_unchanged(
    workers: Any, rank: Any, message: str
) -> None:
    with sh.MinibatchSource(rows()) as source:
        source.next_minibatch(2)
        source.next_minibatch(2, num_data_partitions=4, partition_index=0)
        with pytest.raises(ValueError, match=message):
            source.next_minibatch(2, num_data_partitions=workers, partition_index=rank)
        assert source.next_minibatch(2).nominal_time == 4


@pytest.mark.parametrize("position", [-1, 0.0, 1.5, float("nan"), True, None, "1", 2**63])
def test_a_position_that_is_none_leaves_the_source_unchanged(position: Any) -> None:
    with sh.MinibatchSource(rows()) as source:
        source.next_minibatch(3)
        with pytest.raises(ValueError, match="current_position must be"):
            source.current_position = position
        assert source.current_position == 3
        assert source.next_minibatch(1).nominal_time == 3


@pytest.mark.parametrize("time", [2**62, 2**62 // 7 * 7, 2**63 - 2**33])
@pytest.mark.parametrize("randomize", [True, False])
def test_positions_far_ahead_are_places_too(time: int, randomize: bool) -> None:
    lengths = [3, 1, 2, 1]
    corpus = sh.ArrayDeserializer({"x": (np.arange(7), np.cumsum([0, *lengths]))})
    with sh.MinibatchSource(corpus, randomize=randomize) as source:
        source.current_position = time
        assert time <= source.current_position <= time + 2
        state = source.get_checkpoint_state()
        ids = source.next_minibatch(7).ids
        source.restore_from_checkpoint(state)
        assert source.next_minibatch(7).ids == ids
        assert all(source.find(name, state["position"] // 7) < 2**63 for name in ids)


def test_the_timeline_ends_before_its_numbers_do() -> None:
    with sh.MinibatchSource(rows(), randomize=False) as source:
        source.current_position = 2**63 - 2**32 - 10
        delivered = 0
        while minibatch := source.next_minibatch(4):
            delivered += minibatch.num_samples
            source.restore_from_checkpoint(source.get_checkpoint_state())
        assert 5 < delivered < 15
        assert source.is_infinite


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"max_samples": 5, "max_sweeps": 1}, "give max_samples or max_sweeps, not both"),
    ({"max_samples": sh.FULL_DATA_SWEEP, "max_sweeps": 1}, "not both"),
    *[
        ({name: value}, f"{name} must be")
        for name in ("max_samples", "max_sweeps")
        for value in (0, -1, 1.0, True, None, float("nan"), 2**63, 2**64)
    ],
    ({"max_sweeps": 2**62}, "sweeps of 10 samples pass 2"),
    (
        {"randomization_window_in_chunks": 4, "randomization_window_in_samples": 4},
        "in chunks or in samples, not both",
    ),
    *[
        ({name: value}, f"{name} must be")
        for name in ("randomization_window_in_chunks", "randomization_window_in_samples")
        for value in (-1, 1.5, True, None, 2**63)
    ],
    *[
        ({"randomization_seed": value}, "randomization_seed must be")
        for value in (-1, 2**64, 0.0, True, None, "seed")
    ],
    *[({"num_lanes": value}, "num_lanes must be") for value in (0, -1, 1.0, True, 2**16)],
    *[({"num_threads": value}, "num_threads must be") for value in (-1, 1.0, True, 2**10)],
    *[({"prefetch": value}, "prefetch must be") for value in (-1, 1.0, True, None, 2**16)],
    *[({"max_errors": value}, "max_errors must be") for value in (-1, 1.0, True, None)],
    *[({"memory_limit": value}, "memory_limit must be") for value in (0, -1, 1.0, True)],
    *[
        ({"balance": value}, "balance must be None, 'samples', 'attention' or an")
        for value in ("", "size", True, 24_576)
    ],
    ({"balance": "samples", "randomize": False}, "balance needs randomize=True"),
    ({"balance": "attention", "truncation_length": 8}, "rows of TruncatedBPTT go on"),
    *[({"missing": value}, "missing must be 'error' or 'drop'") for value in ("", None, True)],
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sh.MinibatchSource(rows(), **options)


def test_a_window_of_the_default_size_is_not_one_that_is_given() -> None:
    default = {"randomization_window_in_chunks": sh.DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS}
    with (
        sh.MinibatchSource(rows()) as one,
        sh.MinibatchSource(rows(), **default) as other,
        sh.MinibatchSource(rows(), **default, randomization_window_in_samples=5),
    ):
        assert one.sequence_ids(0, 10) == other.sequence_ids(0, 10)


class Chunks(sh.UserDeserializer):
    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 1000

    def chunk_infos(self) -> object:
        return [(2, 2)] * 1000

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        return {"x": np.zeros(2)}


@pytest.mark.parametrize("corpus", [rows(), Chunks()])
def test_a_window_of_zero_chunks_alone_is_refused_with_both_readings(
    corpus: sh.Deserializer,
) -> None:
    """In CNTK it shuffles nothing; a window that is not given shuffles."""
    with pytest.raises(ValueError, match=r"say randomize=False; .* leave it out"):
        sh.MinibatchSource(corpus, randomization_window_in_chunks=0)
    zeros = {"randomization_window_in_chunks": 0, "randomization_window_in_samples": 0}
    with pytest.raises(ValueError, match="two things"):
        sh.MinibatchSource(corpus, **zeros)
    with sh.MinibatchSource(corpus, **zeros, randomize=False) as source:
        assert source.sequence_ids(0, 10) == [f"{corpus_name(corpus)}__{i}" for i in range(10)]


def test_a_window_of_zero_beside_the_other_one_is_not_given() -> None:
    samples = {"randomization_window_in_samples": 200}
    with (
        sh.MinibatchSource(Chunks(), **samples) as one,
        sh.MinibatchSource(Chunks(), **samples, randomization_window_in_chunks=0) as other,
        sh.MinibatchSource(Chunks(), randomization_window_in_samples=0) as default,
    ):
        assert one.sequence_ids(0, 50) == other.sequence_ids(0, 50)
        assert one.get_checkpoint_state() == other.get_checkpoint_state()
        assert default.timeline.block_chunks == 128 // 48


def corpus_name(corpus: sh.Deserializer) -> str:
    return "Chunks" if isinstance(corpus, Chunks) else "array"


@pytest.mark.parametrize("name", ["DataLoader", "StreamDfe"])
def test_names_of_other_libraries_say_what_is_here_in_their_place(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute {name!r}; "):
        getattr(sh, name)
    assert not hasattr(sh.learners, name)


def test_a_closed_source_says_so() -> None:
    source = sh.MinibatchSource(rows())
    values = source.next_minibatch(4)["x"].values
    copy = values.copy()
    source.close()
    source.close()
    for use in (
        lambda: source.next_minibatch(4),
        lambda: setattr(source, "current_position", 0),
        lambda: source.stats(),
        lambda: source.restore_from_checkpoint(source.get_checkpoint_state()),
    ):
        with pytest.raises(RuntimeError, match="the source is closed"):
            use()
    assert np.array_equal(values, copy)
