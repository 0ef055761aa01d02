"""The trainer: what a step sees, counts, and refuses."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import (
    Heard,
    Line,
    line_trainer,
    source_of_lengths,
    squared_error,
    squared_error_and_misses,
)
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.sub_minibatches import split

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]


def minibatch(size: int = 40, **options: Any) -> sh.Minibatch:
    return source_of_lengths(LENGTHS, **options).next_minibatch(size)


def torch_error(model: nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
    x = torch.from_numpy(minibatch["x"].values)
    y = torch.from_numpy(minibatch["labels"].values)
    return 0.5 * (model(x).squeeze(-1) - y).square().sum()


def torch_trainer(
    writers: Sequence[sh.ProgressWriter] = (),
    *,
    model: nn.Module | None = None,
    loss_scale: dict[str, Any] | None = None,
    rate: float = 0.1,
    criterion: Any = torch_error,
    **options: Any,
) -> tuple[nn.Module, sh.Trainer]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1) if model is None else model
    optimizer: Any = torch.optim.Adam(model.parameters(), rate)
    if loss_scale is not None:
        optimizer = sh.LossScaleOptimizer(optimizer, **loss_scale)
    learner = sh.torch.Learner(optimizer, rate)
    return model, sh.Trainer(model, criterion, learner, writers, **options)


def parameters(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


class TestStep:
    def test_a_numpy_step_is_that_of_the_loop_by_hand(self) -> None:
        trainer = line_trainer(rate=0.1)
        by_hand = Line()
        learner = sh.numpy.MomentumSGD([by_hand.w], 0.1, 0.9)
        for one in source_of_lengths(LENGTHS, max_sweeps=2).minibatches(8):
            assert trainer.train_minibatch(one)
            learner.update(squared_error(by_hand, one)[1], one.num_samples, one.sweeps_ended)
        assert np.array_equal(trainer.model.learners[0].parameters["0"], by_hand.w)

    def test_a_torch_step_is_that_of_the_loop_by_hand(self) -> None:
        model, trainer = torch_trainer()
        torch.manual_seed(0)
        by_hand = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(by_hand.parameters(), 0.1)
        for one in source_of_lengths(LENGTHS, max_sweeps=2).minibatches(8):
            assert trainer.train_minibatch(one)
            optimizer.zero_grad()
            (torch_error(by_hand, one) * (1 / one.num_samples)).backward()
            optimizer.step()
        assert all(map(torch.equal, parameters(model), parameters(by_hand)))

    def test_the_end_of_data_is_false_and_changes_nothing(self) -> None:
        trainer = line_trainer()
        assert trainer.train_minibatch({}) is False
        source = source_of_lengths([1], max_sweeps=1)
        source.next_minibatch(1)
        assert trainer.train_minibatch(source.next_minibatch(1)) is False
        assert trainer.consumed.steps == 0

    def test_counters_and_averages(self) -> None:
        trainer = line_trainer(criterion=squared_error_and_misses, rate=0.1)
        with pytest.raises(RuntimeError, match="no minibatch"):
            _ = trainer.previous_minibatch_loss_average
        first = minibatch(12, max_sweeps=1)
        loss, misses, _ = squared_error_and_misses(Line(), first)
        trainer.train_minibatch(first)
        samples = first.num_samples
        assert trainer.previous_minibatch_loss_average == loss / samples
        assert trainer.previous_minibatch_evaluation_average == misses / samples
        assert trainer.previous_minibatch_sample_count == samples
        assert trainer.total_number_of_samples_seen == samples
        assert (trainer.consumed.steps, trainer.applied.samples) == (1, samples)

    def test_there_is_no_evaluation_average_without_a_metric(self) -> None:
        trainer = line_trainer()
        trainer.train_minibatch(minibatch())
        with pytest.raises(ValueError, match="no metric"):
            _ = trainer.previous_minibatch_evaluation_average

    def test_plain_mappings_are_minibatches_too(self) -> None:
        def criterion(model: nn.Module, one: dict[str, torch.Tensor]) -> Any:
            loss = (model(one["x"]).squeeze(-1) - one["labels"]).square().sum()
            return loss, len(one["labels"])

        _, trainer = torch_trainer(criterion=criterion)
        trainer.train_minibatch({"x": torch.ones(5, 2), "labels": torch.zeros(5)})
        assert trainer.previous_minibatch_sample_count == 5
        assert trainer.previous_minibatch_evaluation_average == 1.0

    def test_a_compiled_model_trains_and_its_checkpoint_fits_the_plain_one(
        self, tmp_path: Any
    ) -> None:
        compiled = torch.compile(nn.Linear(2, 1), backend="eager")
        _, trainer = torch_trainer(model=compiled)
        trainer.train_minibatch(minibatch())
        trainer.save_checkpoint(tmp_path)
        plain, again = torch_trainer()
        again.restore_from_checkpoint(tmp_path)
        assert all(map(torch.equal, parameters(plain), parameters(compiled)))

    def test_autocast_belongs_into_the_criterion(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return torch_error(model, one)

        model, trainer = torch_trainer(criterion=criterion, loss_scale={})
        before = parameters(model)
        trainer.train_minibatch(minibatch())
        assert not any(map(torch.equal, before, parameters(model)))


class TestLabels:
    def source(self) -> sh.MinibatchSource:
        """Make sequences of 2 samples with one label each."""
        x = np.ones((20, 2), np.float32)
        offsets = np.arange(0, 21, 2)
        streams = {
            "x": (x, offsets),
            "labels": (np.zeros(10, np.float32), np.arange(11)),
            "none": (np.zeros(0, np.float32), np.zeros(11, np.int64)),
        }
        return sh.MinibatchSource(sh.ArrayDeserializer(streams))

    def trainer(self, **options: Any) -> sh.Trainer:
        return line_trainer(criterion=lambda m, b: (1.0, [np.ones(2, np.float32)]), **options)

    @pytest.mark.parametrize(("stream", "counted"), [("labels", 4), ("x", 8)])
    def test_samples_of_the_label_stream_are_counted(self, stream: str, counted: int) -> None:
        trainer = self.trainer(label_stream=stream)
        trainer.train_minibatch(self.source().next_minibatch(8))
        assert trainer.total_number_of_samples_seen == counted

    def test_without_labels_those_of_the_size_defining_stream_are(self) -> None:
        trainer = self.trainer()
        inputs = {"input": "x"}
        trainer.train_minibatch(self.source().next_minibatch(8, inputs))
        assert trainer.total_number_of_samples_seen == 8

    def test_a_named_stream_must_be_there(self) -> None:
        with pytest.raises(ValueError, match="no label stream 'targets', there are: x, labels"):
            self.trainer(label_stream="targets").train_minibatch(
                self.source().next_minibatch(8)
            )
        with pytest.raises(ValueError, match="no label stream 'labels', there are: x"):
            self.trainer().train_minibatch({"x": [1, 2]})

    def test_no_label_samples_are_no_step_but_counted(self) -> None:
        heard = Heard()
        trainer = self.trainer(label_stream="none", writers=[heard])
        source = self.source()
        for _ in range(3):
            assert trainer.train_minibatch(source.next_minibatch(8)) is True
        assert not trainer.model.learners[0].parameters["0"].any()
        assert (trainer.consumed.steps, trainer.consumed.samples) == (3, 0)
        assert trainer.consumed.sweeps == trainer.model.learners[0].pace.consumed.sweeps == 1
        assert trainer.applied.steps == 0


class TestSubMinibatches:
    @pytest.mark.parametrize("parts", [1, 2, 3, 8, 11])
    @pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(side="left", multiple_of=4)])
    def test_parts_add_up_to_the_whole(self, parts: int, layout: sh.Layout) -> None:
        whole = minibatch(layout=layout)
        pieces = split(whole, parts)
        assert len(pieces) == parts
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


class TestEvaluation:
    def model(self) -> nn.Sequential:
        model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(), nn.BatchNorm1d(4), nn.Linear(4, 1))
        model[2].eval()  # as someone who fine-tunes may want it
        return model

    def test_modes_gradients_and_parameters_stay(self) -> None:
        model = self.model()
        _, trainer = torch_trainer(model=model)
        modes = [module.training for module in model.modules()]
        state = {name: value.clone() for name, value in model.state_dict().items()}
        average = trainer.test_minibatch(minibatch())
        assert average == trainer.test_minibatch(minibatch())
        assert [module.training for module in model.modules()] == modes
        assert all(torch.equal(value, state[n]) for n, value in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert trainer.consumed.steps == 0

    def test_modes_are_restored_after_an_error(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            assert not any(module.training for module in model.modules())
            raise KeyError("broken")

        model = self.model()
        _, trainer = torch_trainer(model=model, criterion=criterion)
        modes = [module.training for module in model.modules()]
        with pytest.raises(KeyError):
            trainer.test_minibatch(minibatch())
        assert [module.training for module in model.modules()] == modes

    def test_it_returns_the_metric_or_else_the_loss(self) -> None:
        one = minibatch()
        loss, misses, _ = squared_error_and_misses(Line(), one)
        assert line_trainer().test_minibatch(one) == loss / one.num_samples
        with_metric = line_trainer(criterion=squared_error_and_misses)
        assert with_metric.test_minibatch(one) == misses / one.num_samples

    def test_a_loss_scale_is_as_before(self) -> None:
        model = Line(np.float16)
        learner = sh.LossScaleOptimizer(sh.numpy.SGD([model.w], 0.1), initial_scale=8.0)

        def criterion(model: Line, one: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, one)
            return loss, [gradient * np.float32(learner.get_scaled_loss(1.0))]

        trainer = sh.Trainer(model, criterion, learner)
        trainer.test_minibatch(minibatch())
        trainer.train_minibatch(minibatch())
        assert model.w.any()

    def test_a_minibatch_without_labels_has_no_average(self) -> None:
        with pytest.raises(ValueError, match="no label samples"):
            line_trainer().test_minibatch({"labels": []})


class TestBadInput:
    def test_a_loss_that_is_not_finite_changes_nothing_and_tells_where(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            return torch_error(model, one) * math.nan

        model, trainer = torch_trainer(criterion=criterion)
        line = line_trainer(criterion=lambda m, b: (math.inf, [np.ones(2)]))
        before = parameters(model)
        for one in (trainer, line):
            with pytest.raises(FloatingPointError, match=r"step 1, .* time 0 of array__\d"):
                one.train_minibatch(minibatch(6))
        assert all(map(torch.equal, before, parameters(model)))
        assert not line.model.learners[0].parameters["0"].any()

    def test_a_run_of_skips_ends_with_the_ids_of_the_minibatch(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            return torch_error(model, one) * math.inf

        _, trainer = torch_trainer(criterion=criterion, loss_scale={"max_consecutive_skips": 2})
        one = minibatch(6)
        trainer.train_minibatch(one)
        with pytest.raises(sh.LossScaleError, match="nominal time 0") as caught:
            trainer.train_minibatch(one)
        assert caught.value.minibatch_ids == tuple(one.ids)
        assert (trainer.consumed.steps, trainer.applied.steps) == (2, 0)

    def test_a_mean_is_noticed_once_and_a_sum_is_not(self) -> None:
        source = source_of_lengths([1, 2, 3, 5, 8] * 20)

        def total(model: Line, one: sh.Minibatch) -> Any:
            loss, gradients = squared_error(model, one)
            return loss + one.num_samples, gradients

        def mean(model: Line, one: sh.Minibatch) -> Any:
            loss, gradients = total(model, one)
            return loss / one.num_samples, gradients

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            summing = line_trainer(criterion=total)
            for size in range(300):
                summing.train_minibatch(source.next_minibatch(10 + size % 7))
        averaging = line_trainer(criterion=mean)

        def train_long() -> None:
            for size in range(300):
                averaging.train_minibatch(source.next_minibatch(10 + size % 7))

        with pytest.warns(UserWarning, match="must return their sum") as caught:
            train_long()
        assert len(caught) == 1
        assert caught[0].filename == __file__

    def test_a_parameter_without_a_learner_is_named(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        learner = sh.torch.Learner(torch.optim.SGD(model[0].parameters(), 0.1), 0.1)
        with pytest.raises(
            ValueError, match=r"no learner has the parameters 1\.weight, 1\.bias"
        ):
            sh.Trainer(model, torch_error, learner)
        arrays = {"w": np.zeros(2), "b": np.zeros(1)}
        with pytest.raises(ValueError, match="no learner has the parameters b"):
            sh.Trainer(arrays, squared_error, sh.numpy.SGD([arrays["w"]], 0.1))

    def test_a_parameter_with_two_learners_is_named(self) -> None:
        model = nn.Linear(2, 1)
        learners = [
            sh.torch.Learner(torch.optim.SGD(some, 0.1), 0.1)
            for some in (list(model.parameters()), [model.bias])
        ]
        with pytest.raises(ValueError, match="more than one learner has the parameters bias"):
            sh.Trainer(model, torch_error, learners)

    def test_a_learner_with_foreign_parameters_is_refused(self) -> None:
        model = nn.Linear(2, 1)
        everything = [*model.parameters(), *nn.Linear(2, 1).parameters()]
        learner = sh.torch.Learner(torch.optim.SGD(everything, 0.1), 0.1)
        with pytest.raises(ValueError, match="2 parameters that are not the model's"):
            sh.Trainer(model, torch_error, learner)

    def test_a_frozen_parameter_needs_no_learner_and_may_have_one(self) -> None:
        model = nn.Linear(2, 1)
        model.bias.requires_grad = False
        for learned in ([model.weight], list(model.parameters())):
            learner = sh.torch.Learner(torch.optim.SGD(learned, 0.1), 0.1)
            sh.Trainer(model, torch_error, learner).train_minibatch(minibatch())

    def test_parameters_without_gradient_are_told_once(self) -> None:
        model = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
        _, trainer = torch_trainer(
            model=model, criterion=lambda m, one: torch_error(m["used"], one)
        )
        with pytest.warns(UserWarning, match=r"2 parameters no gradient.*unused\.") as caught:
            trainer.train_minibatch(minibatch())
        assert caught[0].filename == __file__
        trainer.train_minibatch(minibatch())

    def test_no_gradient_at_all_is_an_error(self) -> None:
        free = torch.zeros((), requires_grad=True)
        _, trainer = torch_trainer(criterion=lambda m, one: free * 2)
        with pytest.raises(ValueError, match="no parameter has a gradient: weight, bias"):
            trainer.train_minibatch(minibatch())
        with pytest.raises(ValueError, match="no parameter has a gradient"):
            line_trainer(criterion=lambda m, b: (1.0, [None])).train_minibatch(minibatch())

    @pytest.mark.parametrize(
        "returned", [None, 1.0, torch.ones(2, requires_grad=True), (torch.ones(()),) * 3]
    )
    def test_a_criterion_must_return_a_sum(self, returned: Any) -> None:
        _, trainer = torch_trainer(criterion=lambda m, one: returned)
        with pytest.raises(ValueError, match="must return the sum of the loss as a tensor"):
            trainer.train_minibatch(minibatch())

    @pytest.mark.parametrize(
        ("returned", "text"),
        [
            (1.0, "must return"),
            ((1.0,), "must return"),
            ((1.0, 2.0, 3.0, [None]), "must return"),
            ((1.0, []), "each of the 1 parameters"),
        ],
    )
    def test_a_numpy_criterion_must_return_gradients(self, returned: Any, text: str) -> None:
        with pytest.raises(ValueError, match=text):
            line_trainer(criterion=lambda m, one: returned).train_minibatch(minibatch())

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"criterion": 3}, "criterion must be callable"),
            ({"writers": ["print"]}, "methods update and write"),
            ({"sub_minibatches": 0}, "sub_minibatches"),
            ({"stateful": {"it": 3}}, "stateful"),
        ],
    )
    def test_wrong_arguments_are_refused(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(ValueError, match=text):
            line_trainer(**options)

    def test_learners_must_fit_the_model(self) -> None:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with pytest.raises(ValueError, match="at least one learner"):
            sh.Trainer(model, torch_error, [])
        with pytest.raises(TypeError, match=r"must be sweephand\.torch\.Learner"):
            sh.Trainer(model, torch_error, optimizer)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be learners of sweephand"):
            sh.Trainer(Line(), squared_error, optimizer)  # type: ignore[arg-type]

    def test_a_loss_scale_must_hold_for_all_learners(self) -> None:
        model = nn.Linear(2, 1)
        learners = [
            sh.torch.Learner(sh.LossScaleOptimizer(torch.optim.SGD([one], 0.1)), 0.1)
            for one in model.parameters()
        ]
        with pytest.raises(ValueError, match="must hold for all parameters"):
            sh.Trainer(model, torch_error, learners)


class TestLossScale:
    def test_a_skipped_step_is_consumed_and_not_applied(self) -> None:
        heard = Heard()
        scales = []

        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            scales.append(1)
            return torch_error(model, one) * (math.inf if len(scales) == 2 else 1)

        model, trainer = torch_trainer(
            [heard], criterion=criterion, loss_scale={"initial_scale": 8.0}
        )
        one = minibatch(8)
        trainer.train_minibatch(one)
        before = parameters(model)
        trainer.train_minibatch(one)
        assert all(map(torch.equal, before, parameters(model)))
        trainer.train_minibatch(one)
        samples = one.num_samples
        assert (trainer.consumed.steps, trainer.consumed.samples) == (3, 3 * samples)
        assert (trainer.applied.steps, trainer.applied.samples) == (2, 2 * samples)
        assert [step.applied for step in heard.steps] == [True, False, True]
        told = [
            r.figures["loss_scale"] for r in heard.of("change") if "loss_scale" in r.figures
        ]
        assert told == [8.0, 4.0]

    def test_numpy_in_float16_learns(self) -> None:
        model = Line(np.float16)
        inner = sh.numpy.Adam([model.w], 0.05)
        learner = sh.LossScaleOptimizer(inner, dynamic_growth_steps=20)

        def criterion(model: Line, one: sh.Minibatch) -> Any:
            x, y = one["x"].values.astype(np.float16), one["labels"].values
            error = (x @ model.w).astype(np.float32) - y
            seed = np.float32(learner.get_scaled_loss(1.0))
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = (error * seed).astype(np.float16)
                return 0.5 * float(error @ error), [x.T @ scaled]

        heard = Heard()
        trainer = sh.Trainer(model, criterion, learner, heard, sub_minibatches=2)
        for one in source_of_lengths(LENGTHS, max_sweeps=100).minibatches(16):
            trainer.train_minibatch(one)
        assert np.allclose(model.w, [1, -2], atol=0.02)
        assert trainer.applied.steps < trainer.consumed.steps
        assert any(not step.applied for step in heard.steps)
