"""Spikes in every layout, in mixtures, with PyTorch, and with threads that work ahead."""

from typing import Any

import numpy as np
import pytest
from tests.ext.follow.spike_runs import CLASSES, points

import sweephand as sh

POISON = "array__297"


def corpus(seed: int = 0, poison: tuple[int, ...] = (297,)) -> sh.ArrayDeserializer:
    return points(poison, -200, seed)


def cross_entropy(model: dict[str, Any], minibatch: sh.Minibatch) -> Any:
    """Return the sum of the loss, and the gradient, of all samples."""
    x, labels = minibatch["x"].values, minibatch["labels"].values
    logits = x @ model["w"]
    logits = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(x))
    loss = -(logits[places, labels] - np.log(np.exp(logits).sum(axis=1))).sum()
    p[places, labels] -= 1
    return float(loss), [x.T @ p]


def train(
    data: Any, policy: sh.SpikePolicy | None, events: Any = (), **options: Any
) -> tuple[Any, sh.MinibatchSource, sh.train.SpikeReport]:
    model = {"w": np.zeros((CLASSES, CLASSES), np.float32)}
    learner = sh.numpy.SGD(model, sh.learning_parameter_schedule(0.3))
    source = sh.MinibatchSource(data, events=events, **{"max_sweeps": 4, **options})
    trainer = sh.Trainer(model, cross_entropy, learner)
    activities = [] if policy is None else [policy]
    session = sh.training_session(
        trainer, source, 120, activities=activities, max_samples=14_000
    )
    session.train()
    return model["w"], source, policy.report if policy else sh.train.SpikeReport()


LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(24),
    sh.Packed(24, look_ahead=4),
    sh.Bucketed([4, 8, 12]),
    sh.Frames(),
    sh.TruncatedBPTT(4),
]


@pytest.mark.parametrize("action", ["skip", "bisect"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("threads", [0, 2])
def test_in_every_layout_poison_is_found(layout: Any, action: Any, threads: int) -> None:
    policy = sh.SpikePolicy(action=action, frequency=20)
    weights, source, report = train(corpus(), policy, layout=layout, num_threads=threads)
    assert report.spikes
    for spike in report.spikes:
        assert any(one.startswith(POISON) for one in spike.ids), spike
        assert spike.outcome in ("skipped", "banned")
    if action == "bisect" and not isinstance(layout, sh.Frames | sh.TruncatedBPTT):
        assert report.banned_ids == (POISON,)
    again, _, _ = train(corpus(), None, list(source.events), layout=layout)
    assert bytes(weights) == bytes(again)


def test_in_a_mixture_poison_is_banned_by_its_name() -> None:
    data = sh.Mixture(
        {"web": corpus(), "code": corpus(seed=1, poison=())}, {"web": 3, "code": 1}
    )
    options = {"max_sweeps": sh.INFINITELY_REPEAT}
    weights, _, report = train(data, sh.SpikePolicy(action="bisect"), **options)
    assert report.banned_ids == (f"web/{POISON}",)
    again, _, _ = train(data, None, report.events, **options)
    assert bytes(weights) == bytes(again)


def test_events_in_a_file_are_those_of_the_run_and_no_trial_is_left_there(
    tmp_path: Any,
) -> None:
    file = tmp_path / "events.json"
    policy = sh.SpikePolicy(action="bisect")
    weights, source, report = train(corpus(), policy, str(file))
    assert sh.events.load(file) == list(source.events)
    assert len(source.events) == len(report.spikes) == 1
    again, _, _ = train(corpus(), None, str(file))
    assert bytes(weights) == bytes(again)
