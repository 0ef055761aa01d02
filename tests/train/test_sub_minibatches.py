"""Minibatches in parts: their gradients are those of the whole."""

import math

import numpy as np
import pytest
import torch
from tests.train.small import (
    line_trainer,
    source_of_lengths,
)
from tests.train.small_torch import LENGTHS, minibatch, parameters, torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.trainer.trainer import split


class TestSubMinibatches:
    @pytest.mark.parametrize("parts", [1, 2, 3, 8, 11])
    @pytest.mark.parametrize(
        "layout",
        [sh.Ragged(), sh.Padded(side="left", multiple_of=4), sh.Bucketed([4, 10])],
    )
    def test_parts_add_up_to_the_whole(self, parts: int, layout: sh.Layout) -> None:
        whole = minibatch(layout=layout)
        pieces = split(whole, parts)
        assert len(pieces) == min(parts, whole.num_sequences)
        assert [name for piece in pieces for name in piece.ids] == whole.ids
        assert [piece.num_sequences for piece in pieces] == [len(piece.ids) for piece in pieces]
        assert sum(piece.num_samples for piece in pieces) == whole.num_samples
        assert pieces[-1].num_sequences > 0
        for name, data in whole.items():
            values = np.concatenate([piece[name].values for piece in pieces])
            assert np.array_equal(values, data.values)
            assert sum(piece[name].num_samples for piece in pieces) == data.num_samples
            rows = [row for piece in pieces for row in piece[name].asarray()]
            assert len(rows) == whole.num_sequences
            for row, wanted in zip(rows, data.asarray(), strict=True):
                assert np.array_equal(row[row != 0], wanted[wanted != 0])
            for piece in pieces:
                part = piece[name]
                assert part.asarray().shape[:2] == part.mask.shape
                assert (part.mask != 0).sum() == part.num_samples
                assert part.lengths.tolist() == [len(one) for one in part.as_sequences()]

    @pytest.mark.parametrize("parts", [2, 3, 7])
    def test_packed_rows_stay_whole(self, parts: int) -> None:
        rng = np.random.default_rng(0)
        tokens = [rng.integers(1, 50, n) for n in rng.integers(1, 9, 40)]
        corpus = sh.ArrayDeserializer({"tokens": tokens})
        source = sh.MinibatchSource(corpus, layout=sh.Packed(12))
        whole = source.next_minibatch(60)
        pieces = split(whole, parts)
        assert [name for piece in pieces for name in piece.ids] == whole.ids
        assert sum(piece.num_samples for piece in pieces) == whole.num_samples
        for get in (
            lambda one: one.segment_ids,
            lambda one: one.position_ids,
            lambda one: one.row_costs,
            lambda one: one["tokens"].asarray(),
            lambda one: one["tokens"].mask,
            lambda one: one["tokens"].labels(),
            lambda one: one["tokens"].loss_mask(),
            lambda one: one["tokens"].values,
            lambda one: one["tokens"].lengths,
            lambda one: one["tokens"].starts,
        ):
            assert np.array_equal(np.concatenate([get(one) for one in pieces]), get(whole))
        for piece in pieces:
            data = piece["tokens"]
            assert data.asarray().shape == data.dense_shape == piece.segment_ids.shape
            counts = [len(set(row) - {0}) for row in piece.segment_ids]
            for bounds, segments, count in zip(
                data.row_cu_seqlens, piece.segment_ids, counts, strict=True
            ):
                assert bounds[count] == (segments > 0).sum()

    def test_gradients_of_packed_parts_are_those_of_the_whole(self) -> None:
        def train(parts: int) -> torch.Tensor:
            model = nn.Embedding(50, 50)
            nn.init.zeros_(model.weight)

            def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
                data = one["labels"]
                logits = model(torch.from_numpy(data.asarray()))
                truth = torch.from_numpy(data.labels())
                return nn.functional.cross_entropy(
                    logits.flatten(0, 1), truth.flatten(), reduction="sum"
                )

            learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 1.0), 1.0)
            trainer = sh.Trainer(model, criterion, learner, sub_minibatches=parts)
            tokens = [np.arange(1, n + 2) for n in range(40)]
            source = sh.MinibatchSource(
                sh.ArrayDeserializer({"labels": tokens}), layout=sh.Packed(45)
            )
            for _ in range(3):
                trainer.train_minibatch(source.next_minibatch(200))
            return model.weight.detach()

        assert torch.allclose(train(1), train(3), atol=1e-5)

    def test_rows_that_go_on_are_not_cut(self) -> None:
        with pytest.raises(TypeError, match="TruncatedBPTT"):
            split(minibatch(layout=sh.TruncatedBPTT(4)), 2)

    def test_sparse_parts_are_rows_of_the_whole(self) -> None:
        scipy_sparse = pytest.importorskip("scipy.sparse")
        matrix = scipy_sparse.csr_matrix(np.eye(6, dtype=np.float32))
        corpus = sh.ArrayDeserializer({"s": matrix})
        whole = sh.MinibatchSource(corpus).next_minibatch(6)
        first, second = split(whole, 2)
        stacked = np.vstack([part["s"].values.toarray() for part in (first, second)])
        assert np.array_equal(stacked, whole["s"].values.toarray())

    def test_only_minibatches_of_a_source_are_cut(self) -> None:
        with pytest.raises(TypeError, match="only minibatches of a source"):
            split({"x": 1}, 2)

    @pytest.mark.parametrize("parts", [2, 3, 5, 20])
    def test_gradients_of_parts_are_those_of_the_whole(self, parts: int) -> None:
        model, trainer = torch_trainer()
        other, in_parts = torch_trainer(sub_minibatches=parts)
        line, line_in_parts = line_trainer(), line_trainer(sub_minibatches=parts)
        for one in source_of_lengths(LENGTHS, max_sweeps=3).minibatches(20):
            for each in (trainer, in_parts, line, line_in_parts):
                each.train_minibatch(one)
            assert in_parts.previous_minibatch_loss_average == pytest.approx(
                trainer.previous_minibatch_loss_average, rel=1e-5
            )
        for mine, wanted in zip(parameters(other), parameters(model), strict=True):
            assert torch.allclose(mine, wanted, rtol=1e-4)
        assert np.allclose(
            line_in_parts.model.learners[0].parameters["0"],
            line.model.learners[0].parameters["0"],
        )

    def test_no_criterion_is_given_an_empty_part(self) -> None:
        calls = []

        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            calls.append(one.num_sequences)
            return torch_error(model, one)

        _, trainer = torch_trainer(criterion=criterion, sub_minibatches=8)
        trainer.train_minibatch(source_of_lengths([3, 1]).next_minibatch(4))
        assert calls == [1, 1]

    def test_one_bad_part_voids_the_step(self) -> None:
        calls = []

        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            calls.append(one.num_sequences)
            return torch_error(model, one) * (math.inf if len(calls) == 2 else 1)

        model, trainer = torch_trainer(criterion=criterion, loss_scale={}, sub_minibatches=3)
        before = parameters(model)
        trainer.train_minibatch(minibatch())
        assert calls == [3, 3, 4]
        assert all(map(torch.equal, before, parameters(model)))
        assert (trainer.consumed.steps, trainer.applied.steps) == (1, 0)
        trainer.train_minibatch(minibatch())
        assert trainer.applied.steps == 1
