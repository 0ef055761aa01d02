"""Plans of lengths in hand: laws 18 and 19, against brute force."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

ROW = 16


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `plan_lengths`, for rows of 16 or micro-batches of 48 cells."""
    lengths = draw(st.lists(st.integers(1, 24), max_size=60))
    count = len(lengths)
    items = draw(st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=count, max_size=count))
    limits = draw(st.sampled_from([None, {"patches": 6}, {"patches": 4}]))
    rows = sh.Packed(
        ROW,
        split_long=draw(st.sampled_from(["split", "drop"])),
        micro_batch_rows=draw(st.sampled_from([None, 1, 2, 3])),
        look_ahead=draw(st.sampled_from([1, 3, 64])),
        limits=limits,
        over_limit=draw(st.sampled_from(["drop", "alone"])),
    )
    side = draw(st.sampled_from(["left", "right"]))
    padded = sh.Padded(
        multiple_of=draw(st.sampled_from([1, 8])), side=side, micro_batch_cells=48
    )
    bucketed = sh.Bucketed([4, 20], drop_long=True, side=side, micro_batch_cells=48)
    auto = sh.Bucketed("auto", num_buckets=3, micro_batch_cells=48)
    layout = draw(st.sampled_from([rows, rows, padded, bucketed, auto]))
    request: dict[str, Any] = {
        "lengths": {"tokens": lengths, "patches": items},
        "layout": layout,
        "num_data_partitions": draw(st.integers(1, 5)),
        "balance": draw(st.sampled_from([None, "samples", "attention"])),
        "num_steps": draw(st.integers(1, 3)),
        "micro_batch_multiple": draw(st.integers(1, 3)),
        "order": draw(st.sampled_from(["longest", "given"])),
        "aligned": draw(st.sampled_from([(), ("patches",)])),
    }
    if layout is rows:
        request["multiple_of"] = draw(st.sampled_from([1, 4]))
        request["max_sequences"] = draw(st.sampled_from([None, None, 2]))
    if draw(st.booleans()):
        request["groups"] = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    elif not request["aligned"] and (layout is not rows or layout.split_long == "drop"):
        request["leftovers"] = draw(st.sampled_from(["fill", "carry"]))
    return request


@given(requests())
def test_every_sequence_is_placed_once_or_named(request: dict[str, Any]) -> None:
    plan = sh.plan_lengths(**request)
    lengths = request["lengths"]["tokens"]
    covered = Counter[tuple[int, int]]()
    for index, start, length in zip(plan.sequence, plan.start, plan.length, strict=True):
        covered.update({(int(index), cell): 1 for cell in range(start, start + length)})
    whole = set(range(len(lengths))) - plan.left_out.keys() - set(plan.rest.tolist())
    assert covered == Counter({(i, cell): 1 for i in whole for cell in range(lengths[i])})
    assert not plan.left_out.keys() & set(plan.rest.tolist())
    if request.get("leftovers") != "carry":
        assert not len(plan.rest)
    again = sh.plan_lengths(**request)
    for name in ("sequence", "start", "worker", "micro_batch", "row", "column", "loads"):
        np.testing.assert_array_equal(getattr(plan, name), getattr(again, name))


@given(requests())
def test_all_workers_have_as_many_micro_batches_and_fillers_come_last(
    request: dict[str, Any],
) -> None:
    plan = sh.plan_lengths(**request)
    layout, workers = request["layout"], request["num_data_partitions"]
    assert plan.num_micro_batches % request["micro_batch_multiple"] == 0
    cells = Counter[tuple[int, ...]]()
    keys = np.stack([plan.step, plan.worker, plan.micro_batch, plan.row, plan.column], axis=1)
    assert keys.tolist() == sorted(keys.tolist())
    for (*place, column), length in zip(keys.tolist(), plan.length.tolist(), strict=True):
        assert column % request.get("multiple_of", 1) == 0 or layout.side == "left"
        cells.update({(*place, column + i): 1 for i in range(length)})
    assert not cells or max(cells.values()) == 1, "no two segments share a cell"
    bounds = [plan.num_steps, workers, plan.num_micro_batches]
    assert (keys[:, :3] < bounds).all()
    if isinstance(layout, sh.Packed):
        assert (plan.column + plan.length <= ROW).all()
        assert (plan.row < (layout.micro_batch_rows or 1)).all()
        segments = Counter(map(tuple, keys[:, :4].tolist()))
        if request["max_sequences"]:
            assert max(segments.values(), default=0) <= request["max_sequences"]
    units = request.get("groups") or np.arange(len(request["lengths"]["tokens"]))
    for step in range(plan.num_steps):
        here = plan.step == step
        many = len({units[i] for i in plan.sequence[here]}) >= workers
        for worker in range(workers):
            numbers = set(plan.micro_batch[here & (plan.worker == worker)].tolist())
            assert numbers == set(range(len(numbers))), "fillers come last"
            assert numbers or not many or request.get("leftovers") == "carry"
            own = slice(step * plan.num_micro_batches, (step + 1) * plan.num_micro_batches)
            filled = plan.loads[worker, own] > 0
            assert filled.tolist() == [i in numbers for i in range(plan.num_micro_batches)]


@given(requests())
def test_aligned_items_are_in_a_micro_batch_of_all_workers_or_of_none(
    request: dict[str, Any],
) -> None:
    request = {**request, "aligned": ("patches",), "leftovers": "fill"}
    plan = sh.plan_lengths(**request)
    carriers = (np.array(request["lengths"]["patches"], int)[plan.sequence] > 0) & (
        plan.start == 0
    )
    having = {
        (step, micro_batch): set(plan.worker[carriers & here].tolist())
        for step in range(plan.num_steps)
        for micro_batch in range(plan.num_micro_batches)
        for here in [(plan.step == step) & (plan.micro_batch == micro_batch)]
    }
    workers = plan.num_data_partitions
    some = {place: ("patches",) for place, who in having.items() if 0 < len(who) < workers}
    assert plan.unaligned == some
    if "groups" in request:
        return  # a worker may have no group with items
    for step in range(plan.num_steps):
        rows = {
            (*place,)
            for place in zip(
                plan.worker[carriers & (plan.step == step)].tolist(),
                plan.micro_batch[carriers & (plan.step == step)].tolist(),
                plan.row[carriers & (plan.step == step)].tolist(),
                strict=True,
            )
        }
        alone = len(rows) == np.count_nonzero(carriers & (plan.step == step))
        assert alone or not any(at == step for at, _ in some), "all that can be is aligned"


@given(requests())
def test_groups_stay_at_one_worker_and_in_one_step(request: dict[str, Any]) -> None:
    request = {**request, "leftovers": "fill"}
    groups = request.setdefault(
        "groups", [i // 3 for i in range(len(request["lengths"]["tokens"]))]
    )
    plan = sh.plan_lengths(**request)
    places = zip(plan.sequence.tolist(), plan.step.tolist(), plan.worker.tolist(), strict=True)
    homes = {(groups[index], step, worker) for index, step, worker in places}
    assert len(homes) == len({group for group, *_ in homes})
    assert plan.global_num_label_samples.sum() == sum(
        request["lengths"]["tokens"][i] - 1 for i in set(plan.sequence.tolist())
    )


def test_groups_in_one_row_stay_there_and_those_too_large_are_named() -> None:
    lengths, groups = [6, 6, 3, 9, 9, 2, 1], [0, 0, 1, 2, 2, 1, 3]
    with pytest.raises(ValueError, match="group of sequence 3 does not fit"):
        sh.plan_lengths(lengths, sh.Packed(ROW), groups=groups, groups_together="row")
    layout = sh.Packed(ROW, split_long="drop")
    plan = sh.plan_lengths(
        lengths, layout, groups=groups, groups_together="row", num_data_partitions=2
    )
    assert plan.left_out.keys() == {3, 4}
    rows = zip(plan.sequence.tolist(), plan.worker.tolist(), plan.row.tolist(), strict=True)
    assert len({(groups[index], *place) for index, *place in rows}) == 3


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=60).filter(lambda sizes: max(sizes) > 1),
    st.integers(1, 5),
    st.sampled_from([None, "samples", "attention"]),
    st.sampled_from([1, 2]),
)
def test_it_equals_what_a_source_plans_for_the_same_lengths(
    sizes: list[int], workers: int, balance: Any, rows: int
) -> None:
    layout = sh.Packed(ROW, split_long="split", micro_batch_rows=rows)
    data = {"tokens": [np.arange(size) for size in sizes]}
    whole = sh.plan_lengths(sizes, layout, order="given", balance=balance)
    if len({*zip(whole.micro_batch.tolist(), whole.row.tolist(), strict=True)}) < workers:
        return  # a source may leave a worker without rows
    plan = sh.plan_lengths(
        sizes, layout, order="given", num_data_partitions=workers, balance=balance
    )
    for worker in range(workers):
        source = sh.MinibatchSource(
            sh.ArrayDeserializer(data),
            layout=layout,
            randomize=False,
            max_sweeps=1,
            balance=balance,
        )
        expected = source.next_minibatch(
            10**6, num_data_partitions=workers, partition_index=worker
        )
        parts = expected.micro_batches()
        made = list(plan.minibatches(data, partition_index=worker))
        assert len(made) == len(parts)
        for own, part in zip(made, parts, strict=True):
            np.testing.assert_array_equal(own["tokens"].asarray(), part["tokens"].asarray())
            np.testing.assert_array_equal(own["tokens"].labels(), part["tokens"].labels())
            np.testing.assert_array_equal(own.segment_ids, part.segment_ids)
            np.testing.assert_array_equal(own.position_ids, part.position_ids)
            assert own.global_num_label_samples == part.global_num_label_samples
            assert [f"array__{i}" for i in own.indices] == part.ids


@given(st.lists(st.integers(1, ROW), min_size=1, max_size=200), st.integers(1, 8))
def test_the_fullest_worker_has_little_more_than_longest_first_gives(
    sizes: list[int], workers: int
) -> None:
    plan = sh.plan_lengths(
        sizes, sh.Packed(ROW), num_data_partitions=workers, balance="samples"
    )
    most = plan.num_micro_batches
    loads, taken = [0.0] * workers, [0] * workers
    for row in sorted(plan.loads.reshape(-1).tolist(), reverse=True):
        least = min((k for k in range(workers) if taken[k] < most), key=loads.__getitem__)
        loads[least] += row
        taken[least] += 1
    assert plan.loads.sum(axis=1).max() <= 1.01 * max(loads)


@given(requests(), st.integers(0, 2**32 - 1))
def test_results_go_back_in_the_order_of_arrival(request: dict[str, Any], seed: int) -> None:
    plan = sh.plan_lengths(**request)
    step = seed % plan.num_steps
    tokens = [np.arange(n) + 100 * i for i, n in enumerate(request["lengths"]["tokens"])]
    if not tokens:
        return
    scores = np.arange(len(tokens)) / 4
    for worker in range(plan.num_data_partitions):
        mine = set(plan.sequence[(plan.step == step) & (plan.worker == worker)].tolist())
        own = [one if i in mine or i == 0 else None for i, one in enumerate(tokens)]
        made = list(
            plan.minibatches(
                {"tokens": own, "score": scores}, partition_index=worker, step=step
            )
        )
        cells = {i: one["tokens"].asarray() for i, one in enumerate(made)}
        flat = {i: one["tokens"].values for i, one in enumerate(made)}
        for given_back in (cells, flat):
            back = plan.put_back(given_back, worker, step)
            assert {i for i, one in enumerate(back) if one is not None} == mine
            for index in mine:
                home = (plan.step == step) & (plan.worker == worker) & (plan.sequence == index)
                if plan.length[home].sum() == len(tokens[index]):
                    np.testing.assert_array_equal(back[index], tokens[index])
        for one in made:
            assert one["score"].asarray().tolist() == scores[one.indices].tolist()
            assert one.is_filler == (not len(one.indices))
            filled = one["tokens"].asarray()
            assert filled.size, "fillers have a shape"
            assert one["tokens"].labels().shape == filled.shape
            assert not one.is_filler or (one["tokens"].labels() == -100).all()
            if isinstance(plan.layout, sh.Packed):
                assert filled.shape == ((plan.layout.micro_batch_rows or 1), ROW)
                assert one.cu_seqlens_padded[-1] >= one.num_samples
            else:
                assert filled.size <= 48
            again = pickle.loads(pickle.dumps(one))
            assert again.indices.tolist() == one.indices.tolist()


def test_labels_and_their_weights_are_those_of_all_workers() -> None:
    tokens = [np.arange(n) for n in (5, 3, 4, 2)]
    mask = [np.array(one) for one in ([0, 0, 1, 1, 1], [1, 1, 1], [0, 1, 0, 1], [0, 0])]
    plan = sh.plan_lengths([5, 3, 4, 2], sh.Packed(8), num_data_partitions=2)
    assert plan.global_num_label_samples.tolist() == [10]
    assert plan.global_label_weight.tolist() == [10.0]
    streams = {
        "tokens": sh.StreamDef(loss_mask="mask", defines_mb_size=True),
        "mask": sh.StreamDef(),
    }
    data = {"tokens": tokens, "mask": mask}
    counted = []
    for worker in range(2):
        for minibatch in plan.minibatches(data, streams, partition_index=worker):
            assert minibatch.global_num_label_samples == 7
            counted.append(int((minibatch["tokens"].labels() != -100).sum()))
    assert sum(counted) == 7
    known = sh.plan_lengths(
        [5, 3, 4, 2],
        sh.Packed(8),
        num_data_partitions=2,
        num_labels=[3, 2, 2, 0],
        label_weight=[1.5, 2.0, 0.25, 0.0],
    )
    mine = set(known.sequence[known.worker == 1].tolist())
    own = {name: [one if i in mine else None for i, one in enumerate(stream)]
           for name, stream in data.items()}  # fmt: skip
    (minibatch,) = known.minibatches(own, streams, partition_index=1)
    assert minibatch.global_num_label_samples == 7
    assert minibatch.global_label_weight == 3.75


def test_weights_of_labels_have_the_same_bits_for_any_number_of_workers() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, 60)
    weights = [rng.random(n) / 3 for n in sizes]
    data = {"tokens": [np.arange(n) for n in sizes], "w": weights}
    streams = {
        "tokens": sh.StreamDef(label_weights="w", defines_mb_size=True),
        "w": sh.StreamDef(),
    }
    found = set()
    for workers in (1, 2, 5):
        plan = sh.plan_lengths(
            sizes, sh.Packed(ROW, split_long="split"), num_data_partitions=workers
        )
        for worker in range(workers):
            made = plan.minibatches(data, streams, partition_index=worker)
            found |= {minibatch.global_label_weight for minibatch in made}
    assert len(found) == 1
    assert found.pop() == pytest.approx(sum(one[1:].sum() for one in weights))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": [3, 0, 2]}, "lengths of sequence 1 is 0"),
        ({"lengths": [3, 99]}, "the longest is sequence 1 with 99"),
        ({"label_weight": [1, 2, np.nan]}, "label_weight of sequence 2 is nan"),
        ({"groups": [1, 2]}, r"groups must have shape \(3,\)"),
        ({"multiple_of": 3}, "does not divide rows of 16"),
        ({"leftovers": "carry", "groups": [0, 0, 1]}, "part of a group"),
        ({"size": "images"}, "is none of the lengths"),
        ({"layout": sh.Ragged()}, "plan_lengths plans"),
        ({"layout": sh.Padded()}, "with micro_batch_cells="),
        ({"layout": sh.Bucketed([4], micro_batch_cells=8)}, "than the last boundary, 4"),
        ({"layout": sh.Bucketed([9], micro_batch_cells=8)}, "no room for the boundary 9"),
        ({"layout": sh.Padded(micro_batch_cells=8), "multiple_of": 2}, "one sequence"),
        ({"aligned": ("images",)}, "'images' is none of the lengths"),
        ({"aligned": ("lengths",), "leftovers": "carry"}, "leaves rows over"),
    ],
)
def test_what_is_wrong_is_refused_by_its_index(arguments: dict[str, Any], message: str) -> None:
    given = {"lengths": [3, 4, 5], "layout": sh.Packed(ROW), **arguments}
    with pytest.raises(ValueError, match=message):
        sh.plan_lengths(**given)


def test_data_that_are_not_as_planned_are_refused_by_their_index() -> None:
    plan = sh.plan_lengths([3, 4], sh.Packed(ROW))
    with pytest.raises(ValueError, match="sequence 1 has 5 samples, planned are 4"):
        list(plan.minibatches({"tokens": [np.arange(3), np.arange(5)]}))
    with pytest.raises(ValueError, match="lacks sequence 1"):
        list(plan.minibatches({"tokens": [np.arange(3), None]}))
    with pytest.raises(ValueError, match="has 1 sequences, the plan 2"):
        list(plan.minibatches({"tokens": [np.arange(3)]}))
