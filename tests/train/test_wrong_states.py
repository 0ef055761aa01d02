"""States with anything at any place: taken, or refused by a typed error; never half taken."""

import copy
import json
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.train.small import in_order, line_trainer
from tests.train.stores import rewrite_manifest

import sweephand as sh
from sweephand.train.states import decode, reading

torch = pytest.importorskip("torch")
import sweephand.torch  # noqa: E402


@dataclass
class Inner:
    count: int
    ratio: float | None


@dataclass
class Outer:
    kind: Literal["a", "b"]
    name: str | None
    is_on: bool
    pairs: tuple[tuple[int, float], ...]
    inner: Inner
    by_name: dict[str, float]


def test_a_dataclass_comes_back_from_json_and_a_wrong_field_is_named() -> None:
    one = Outer("a", None, True, ((3, 0.5), (0, -1.0)), Inner(2**40, None), {"x": 2.0})
    state = json.loads(json.dumps(asdict(one)))
    assert decode(Outer, state) == one
    for name, wrong in [
        *(("kind", bad) for bad in ("c", 1, None)),
        *(("name", bad) for bad in (1, [])),
        *(("is_on", bad) for bad in (1, None)),
        *(("pairs", bad) for bad in (None, 3, [[1]], [[1, 2, 3]], [[-1, 2.0]], [["1", 2.0]])),
        *(("inner", bad) for bad in (None, {}, {"count": 1.5, "ratio": 1.0})),
        *(("by_name", bad) for bad in (None, [], {"x": "2"})),
    ]:
        with pytest.raises(sh.StateError, match=r"no state of it|of it lacks"), reading("it"):
            decode(Outer, state | {name: wrong})


WHOLES = ["scale", "", b"scale", 5, 0, None, True, [], ["scale"], (1, 2), 1.5, object()]
PARTS = [None, "x", "", True, -1, 0, 1.5, 2**70, math.inf, -math.inf, math.nan, [], {}, [[]]]


def numpy_learner(kind: Any, *options: Any) -> Any:
    rate = sh.learning_parameter_schedule([0.1, 0.01], 4, epoch_size=10)
    return kind({"w": np.ones(3, np.float16)}, rate, *options)


def torch_learner() -> Any:
    pair = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    groups = [{"params": pair[:1]}, {"params": pair[1:], "lr": 0.05}]
    return sh.torch.Learner(torch.optim.SGD(groups, 0.1), 0.1)


MAKERS = {
    "loss scale": lambda: sh.LossScaleOptimizer(numpy_learner(sh.numpy.SGD)),
    "SGD": lambda: numpy_learner(sh.numpy.SGD),
    "MomentumSGD": lambda: numpy_learner(
        sh.numpy.MomentumSGD, sh.momentum_schedule([0.9, 0.8], 10)
    ),
    "Adam": lambda: numpy_learner(sh.numpy.Adam),
    "AdamW": lambda: numpy_learner(sh.numpy.AdamW),
    "torch": torch_learner,
}


def places(state: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything inside of a state."""
    keys = state.keys() if isinstance(state, dict) else range(len(state))
    for key in keys:
        yield (*at, key)
        if isinstance(state[key], dict) or (isinstance(state[key], list) and len(at) < 5):
            yield from places(state[key], (*at, key))


def changed(state: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value at a place; none at all for Ellipsis."""
    made = copy.deepcopy(state)
    inside = made
    for key in place[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return made


def plain(state: Any) -> str:
    return json.dumps(state, default=lambda array: array.tolist())


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("whole", WHOLES, ids=lambda one: repr(one).partition(" at ")[0])
def test_what_is_no_dict_is_refused_and_said(name: str, whole: Any) -> None:
    one = MAKERS[name]()
    before = plain(one.state_dict())
    with pytest.raises(sh.StateError, match=r"must be a dict, as its state_dict returns"):
        one.load_state_dict(whole)
    assert plain(one.state_dict()) == before


@pytest.mark.parametrize("name", MAKERS)
def test_anything_at_any_place_is_taken_or_refused_as_a_whole(name: str) -> None:
    state = MAKERS[name]().state_dict()
    refused = 0
    for place in places(state):
        for value in [*PARTS, ...]:
            one = MAKERS[name]()
            before = plain(one.state_dict())
            try:
                one.load_state_dict(changed(state, place, value))
                MAKERS[name]().load_state_dict(one.state_dict())  # it is still a state
                continue
            except sh.StateError:
                refused += 1
            assert plain(one.state_dict()) == before, (place, value)
    assert refused > 90


class TestCheckpoints:
    def session(self, folder: Path) -> sh.train.TrainingSession:
        return sh.training_session(
            line_trainer(
                [sh.JSONLProgressWriter(folder.parent / "log")],
                stateful={"rng": np.random.default_rng(1)},
            ),
            in_order(),
            4,
            max_samples=30,
            checkpoint_config=sh.CheckpointConfig(folder),
            lr_control=sh.LearningRateControl(),
            cv_config=sh.CrossValidationConfig(in_order(max_sweeps=1), 10),
        )

    @pytest.fixture
    def saved(self, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path / "run"
        self.session(folder).train()
        newest = sorted(folder.iterdir())[-1]
        return newest, json.loads((newest / "state.json").read_bytes())

    def put(self, folder: Path, text: bytes) -> None:
        (folder / "state.json").write_bytes(text)
        rewrite_manifest(folder)

    def test_a_forged_state_is_taken_or_refused_by_a_typed_error(
        self, saved: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("os.fsync", lambda descriptor: None)
        folder, state = saved
        state["random"][0]["python"][1] = state["random"][0]["python"][1][:3]
        state["random"][0]["numpy"]["state"]["key"] = [1]
        state["random"] = state["random"][:1]
        refused = 0
        session = self.session(folder.parent)
        values = (None, "x", -1, math.inf, [], {}, ...)
        for i, place in enumerate(places(state)):
            self.put(folder, json.dumps(changed(state, place, values[i % 7])).encode())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    session._saving.restore_first()
                except sh.StateError:
                    refused += 1
                finally:
                    session._saving.close()
        assert refused > 60

    @pytest.mark.parametrize(
        ("harm", "text"),
        [
            (lambda text: b"\xef\xbb\xbf" + text, "no JSON"),
            (lambda text: re.sub(rb'"samples": \d+', b'"samples": Infinity', text), "no state"),
            (lambda text: re.sub(rb'"steps": \d+', b'"steps": -1', text), "no state"),
            (lambda text: b"[" * 10**5, "no JSON"),
            (lambda text: b"", "no JSON"),
        ],
    )
    def test_a_state_that_is_no_strict_json_is_refused(
        self, saved: tuple[Path, dict[str, Any]], harm: Any, text: str
    ) -> None:
        folder, _ = saved
        before = (folder / "state.json").read_bytes()
        harmed = harm(before)
        assert harmed != before
        self.put(folder, harmed)
        with pytest.raises(sh.StateError, match=text):
            self.session(folder.parent).train()
