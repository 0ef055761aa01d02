"""Checkpoints: whole or not at all, exact, and never code."""

import errno
import hashlib
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import Line, line_trainer, source_of_lengths, squared_error
from tests.train.test_trainer import torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.checkpoint import Checkpoint, CheckpointStore, find
from sweephand.train.snapshot import Snapshot
from sweephand.train.tensor_file import (
    array_of_tensor,
    read_tensors,
    tensor_of_array,
    write_tensors,
)

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]


def contents(text: str) -> dict[str, Callable[..., object]]:
    """Return two small files, one of which says which it is."""
    state = json.dumps({"text": text}).encode()
    return {
        "state.json": lambda sink: sink.write(state),
        "model.safetensors": lambda sink: (sink.write(b"a" * 100), sink.write(b"b" * 100)),
    }


def text_of(checkpoint: Checkpoint | None) -> str | None:
    return None if checkpoint is None else checkpoint.state()["text"]


def rewrite_manifest(folder: Path) -> None:
    """Make a manifest fit the files, as who wants to do harm can."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with the checksum of its own."""
    manifest.pop("sha256", None)
    text = json.dumps(manifest, sort_keys=True).encode()
    manifest["sha256"] = hashlib.sha256(text).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


class TestStore:
    def test_the_newest_is_found_by_itself(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path / "deep" / "folder", keep_last=None)
        assert store.newest() is None
        assert store.next_number() == 0
        for text in "abc":
            store.write(store.next_number(), contents(text))
        assert store.numbers() == [0, 1, 2]
        assert text_of(store.newest()) == "c"
        assert text_of(find(store.folder)) == "c"
        assert text_of(find(store.path(1))) == "b"
        assert find(tmp_path / "other") is None
        assert find(store.path(7)) is None

    def test_numbers_beyond_eight_digits_are_in_order(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path, keep_last=None)
        for number in (99_999_999, 100_000_000):
            store.write(number, contents(str(number)))
        assert text_of(store.newest()) == "100000000"

    def test_damage_anywhere_is_found_and_an_older_one_taken(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = tmp_path / "good"
        store = CheckpointStore(good, keep_last=None)
        store.write(0, contents("old"))
        store.write(1, contents("new"))

        def damaged(harm: Callable[[Path], object]) -> str | None:
            copy = tmp_path / "copy"
            shutil.copytree(good, copy)
            harm(copy / "checkpoint-00000001")
            caplog.clear()
            found = text_of(CheckpointStore(copy).newest())
            assert "passing over a damaged checkpoint" in caplog.text
            shutil.rmtree(copy)
            return found

        for name in ("manifest.json", "state.json", "model.safetensors"):
            size = (good / "checkpoint-00000001" / name).stat().st_size
            assert damaged(lambda folder, name=name: (folder / name).unlink()) == "old"
            for length in range(0, size, 17):
                assert damaged(lambda f, n=name, s=length: os.truncate(f / n, s)) == "old"
            for offset in range(0, size, 13):
                assert damaged(lambda f, n=name, o=offset: flip(f / n, o)) == "old"
            assert damaged(lambda f, n=name: append(f / n, b"more")) == "old"

    def test_all_damaged_is_an_error(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("only"))
        flip(store.path(0) / "model.safetensors", 150)
        with pytest.raises(sh.StateError, match=r"all checkpoints in .* are damaged.*SHA-256"):
            store.newest()

    @pytest.mark.parametrize(
        "manifest",
        [
            b"",
            b"[]",
            b"{}",
            b'{"format": 1, "format": 1, "files": {}}',
            b"[" * 100_000,
            b"\x80\x04\x95",
        ],
    )
    def test_a_manifest_that_is_none_is_damage(self, tmp_path: Path, manifest: bytes) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("only"))
        (store.path(0) / "manifest.json").write_bytes(manifest)
        with pytest.raises(sh.StateError):
            Checkpoint(store.path(0))

    @pytest.mark.parametrize(
        ("files", "text"),
        [
            (None, "lists no files"),
            ([], "lists no files"),
            ({"state.json": 3}, "state.json is damaged"),
            ({"../checkpoint-00000000/state.json": {}}, "a file of the name"),
            ({"absent": {}}, "absent cannot be read"),
        ],
    )
    def test_a_manifest_that_lies_is_refused(
        self, tmp_path: Path, files: Any, text: str
    ) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("only"))
        write_manifest(store.path(0), {"format": 1, "files": files})
        with pytest.raises(sh.StateError, match=text):
            Checkpoint(store.path(0))

    def test_another_version_is_refused_by_name_and_not_passed_over(
        self, tmp_path: Path
    ) -> None:
        store = CheckpointStore(tmp_path, keep_last=None)
        store.write(0, contents("old"))
        store.write(1, contents("new"))
        manifest = {"format": 9, "sweephand": "7.1", "files": {}}
        write_manifest(store.path(1), manifest)
        with pytest.raises(sh.StateError, match=r"format 9 of sweephand '7\.1'"):
            store.newest()

    def test_what_is_not_ours_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / ".writing-00000003-mine").mkdir()
        (tmp_path / "notes.txt").write_text("keep me")
        (tmp_path / "checkpoint-3").mkdir()
        store = CheckpointStore(tmp_path)
        assert store.newest() is None
        store.write(0, contents("first"))
        store.write(1, contents("second"))
        assert {path.name for path in tmp_path.iterdir()} == {
            ".writing-00000003-mine",
            "checkpoint-00000001",
            "checkpoint-3",
            "notes.txt",
        }

    def test_leftovers_of_a_kill_are_cleared(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)
        store.write(0, contents("old"))
        for kind in ("writing", "removing"):
            leftover = tmp_path / f".{kind}-00000001-{'0' * 32}"
            shutil.copytree(store.path(0), leftover)
        assert text_of(store.newest()) == "old"
        store.write(1, contents("new"))
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]

    def test_pinned_ones_stay(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)
        for number in range(4):
            store.write(number, contents(str(number)), pinned=(1,))
        assert store.numbers() == [1, 3]


class TestFailingSystemCalls:
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
    def test_whichever_call_fails_the_last_one_stays_and_the_next_succeeds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        failures = 0
        for failing in range(1, 100):
            store = CheckpointStore(tmp_path / str(failing))
            store.write(0, contents("old"))
            with monkeypatch.context() as patch:
                count = fail_call(patch, failing, code)
                error = failure_of(lambda store=store: store.write(1, contents("new")))
            if error is None:
                assert text_of(store.newest()) == "new"
            else:
                assert error.errno == code
                assert "those that were there stay" in str(error)
                assert text_of(store.newest()) in ("old", "new")
                failures += 1
            store.write(store.next_number(), contents("next"))
            assert text_of(store.newest()) == "next"
            if count() < failing:
                break
        assert failures >= 10

    def test_a_folder_that_is_removed_meanwhile(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path / "store")
        store.write(0, contents("old"))

        def remove(sink: Any) -> None:
            shutil.rmtree(store.folder)

        with pytest.raises(OSError, match="no checkpoint could be saved in"):
            store.write(1, contents("new") | {"more.json": remove})
        store.write(store.next_number(), contents("next"))
        assert text_of(store.newest()) == "next"

    def test_an_error_while_writing_leaves_nothing_behind(self, tmp_path: Path) -> None:
        store = CheckpointStore(tmp_path)

        def fail(sink: Any) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.write(0, contents("new") | {"more.json": fail})
        assert list(tmp_path.iterdir()) == []

    def test_a_file_in_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "store").write_text("")
        with pytest.raises(OSError, match="no checkpoint could be saved in"):
            CheckpointStore(tmp_path / "store").write(0, contents("new"))


def failure_of(action: Callable[[], object]) -> OSError | None:
    """Return the error that an action raises."""
    try:
        action()
    except OSError as error:
        return error
    return None


def fail_call(patch: pytest.MonkeyPatch, failing: int, code: int) -> Callable[[], int]:
    """Let one system call of a save fail, and return what counts them."""
    count = 0

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == failing:
                raise OSError(code, os.strerror(code))
            return call(*args, **options)

        return wrapper

    module = "sweephand.train.checkpoint"
    patch.setattr(f"{module}.os.fsync", guarded(os.fsync))
    patch.setattr(f"{module}.Path.mkdir", guarded(Path.mkdir))
    patch.setattr(f"{module}.Path.rename", guarded(Path.rename))
    opened = Path.open

    def open_guarded(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode != "xb":
            return opened(path, mode, *args, **options)
        file = guarded(opened)(path, mode, 0)  # unbuffered: each write is a system call
        return WriteGuard(file, guarded(file.write))

    patch.setattr(f"{module}.Path.open", open_guarded)
    return lambda: count


class WriteGuard:
    """A file whose writes are counted and may fail."""

    def __init__(self, file: Any, write: Callable[..., Any]) -> None:
        self._file = file
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "WriteGuard":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


class TestExactResume:
    def test_numpy_training_goes_on_as_if_it_had_not_stopped(self, tmp_path: Path) -> None:
        def run(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(7))

        def jittery(model: Line, one: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, one)
            noise = np.random.normal() + random.random() + generator.normal()  # noqa: NPY002
            return loss, [gradient * np.float32(1 + noise / 100)]

        def make() -> tuple[sh.Trainer, sh.MinibatchSource]:
            options = {"criterion": jittery, "stateful": {"generator": generator}}
            return line_trainer(rate=0.05, **options), source_of_lengths(LENGTHS)

        generator = np.random.default_rng(1)
        trainer, source = make()
        run(trainer, source, 9)
        trainer.save_checkpoint(tmp_path, {"source": source.get_checkpoint_state()})
        run(trainer, source, 9)
        generator = np.random.default_rng(2)
        again, its_source = make()
        its_source.restore_from_checkpoint(again.restore_from_checkpoint(tmp_path)["source"])
        run(again, its_source, 9)
        assert again.consumed == trainer.consumed
        for mine, wanted in zip(state_bytes(again), state_bytes(trainer), strict=True):
            assert mine == wanted

    @pytest.mark.parametrize("loss_scale", [None, {"dynamic_growth_steps": 3}])
    def test_torch_training_goes_on_as_if_it_had_not_stopped(
        self, tmp_path: Path, loss_scale: dict[str, Any] | None
    ) -> None:
        def make() -> tuple[nn.Module, sh.Trainer, sh.MinibatchSource, torch.Generator]:
            generator = torch.Generator().manual_seed(5)

            def jittery(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
                weight = 1 + torch.rand((), generator=generator)
                return torch_error(model, one) * weight

            model = nn.Sequential(
                nn.Linear(2, 8), nn.Dropout(), nn.BatchNorm1d(8), nn.Linear(8, 1)
            )
            _, trainer = torch_trainer(
                model=model,
                criterion=jittery,
                loss_scale=loss_scale,
                rate=0.01,
                stateful={"generator": generator},
            )
            return model, trainer, source_of_lengths(LENGTHS), generator

        def run(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(7))

        torch.set_num_threads(1)
        model, trainer, source, _ = make()
        run(trainer, source, 9)
        trainer.save_checkpoint(tmp_path, {"source": source.get_checkpoint_state()})
        run(trainer, source, 9)
        torch.rand(100)
        other, again, its_source, generator = make()
        generator.manual_seed(77)
        its_source.restore_from_checkpoint(again.restore_from_checkpoint(tmp_path)["source"])
        run(again, its_source, 9)
        for name, wanted in model.state_dict().items():
            assert torch.equal(other.state_dict()[name], wanted), name
        assert again.previous_minibatch_loss_average == trainer.previous_minibatch_loss_average
        assert [s.state_dict() for s in again.model.loss_scales] == [
            s.state_dict() for s in trainer.model.loss_scales
        ]

    def test_float16_parameters_keep_their_float32_weights(self, tmp_path: Path) -> None:
        def make() -> sh.Trainer:
            model = Line(np.float16)
            return sh.Trainer(model, squared_error, sh.numpy.Adam([model.w], 1e-4))

        trainer, source = make(), source_of_lengths(LENGTHS)
        for _ in range(3):
            trainer.train_minibatch(source.next_minibatch(7))
        trainer.save_checkpoint(tmp_path)
        again = make()
        again.restore_from_checkpoint(tmp_path)
        one = source.next_minibatch(7)
        for each in (trainer, again):
            each.train_minibatch(one)
        assert state_bytes(again) == state_bytes(trainer)

    def test_a_checkpoint_before_the_first_step_loads(self, tmp_path: Path) -> None:
        model, trainer = torch_trainer(loss_scale={})
        trainer.save_checkpoint(tmp_path)
        other, again = torch_trainer(model=nn.Linear(2, 1), loss_scale={})
        again.restore_from_checkpoint(tmp_path)
        one = source_of_lengths(LENGTHS).next_minibatch(9)
        for each in (trainer, again):
            each.train_minibatch(one)
        assert all(map(torch.equal, model.parameters(), other.parameters()))

    def test_a_snapshot_can_be_restored_again_and_again(self) -> None:
        model, trainer = torch_trainer()
        source = source_of_lengths(LENGTHS)
        trainer.train_minibatch(source.next_minibatch(7))
        snapshot = trainer.capture()
        one = source.next_minibatch(7)
        ends = []
        for _ in range(3):
            trainer.restore(snapshot)
            trainer.train_minibatch(one)
            trainer.train_minibatch(one)
            ends.append([p.detach().clone() for p in model.parameters()])
        assert all(map(torch.equal, ends[0], ends[1]))
        assert all(map(torch.equal, ends[0], ends[2]))

    def test_tied_parameters_are_saved_and_stay_tied(self, tmp_path: Path) -> None:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(2, 2)
                self.second = nn.Linear(2, 2)
                self.second.weight = self.first.weight

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.second(self.first(x)).sum(-1)

        model, trainer = torch_trainer(model=Tied())
        trainer.train_minibatch(source_of_lengths(LENGTHS).next_minibatch(9))
        trainer.save_checkpoint(tmp_path)
        other, again = torch_trainer(model=Tied())
        again.restore_from_checkpoint(tmp_path)
        assert other.second.weight is other.first.weight
        assert torch.equal(other.first.weight, model.first.weight)

    def test_external_state_comes_back_as_it_was(self, tmp_path: Path) -> None:
        state = {"list": [1, 2.5, None, "x"], "dict": {"deep": True}}
        line_trainer().save_checkpoint(tmp_path, state)
        assert line_trainer().restore_from_checkpoint(tmp_path) == state

    @pytest.mark.parametrize("state", [{1: 2}, {"a": (1, 2)}, {"a": np.float32(1)}, {"a": {3}}])
    def test_external_state_that_would_change_is_refused(
        self, tmp_path: Path, state: dict[Any, Any]
    ) -> None:
        with pytest.raises(TypeError, match="external_state"):
            line_trainer().save_checkpoint(tmp_path, state)

    def test_an_lr_scheduler_of_torch_is_saved_beside(self, tmp_path: Path) -> None:
        def make() -> tuple[sh.Trainer, Any, Any]:
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            trainer = sh.Trainer(
                model,
                torch_error,
                sh.torch.Learner(optimizer, None),
                stateful={"scheduler": scheduler},
            )
            return trainer, scheduler, optimizer

        trainer, scheduler, optimizer = make()
        one = source_of_lengths(LENGTHS).next_minibatch(9)
        for _ in range(3):
            trainer.train_minibatch(one)
            scheduler.step()
        trainer.save_checkpoint(tmp_path)
        again, its_scheduler, its_optimizer = make()
        again.restore_from_checkpoint(tmp_path)
        for each, its in ((trainer, scheduler), (again, its_scheduler)):
            each.train_minibatch(one)
            its.step()
        assert its_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] < 0.002


class TestRefusal:
    def test_another_model_is_refused_with_what_differs(self, tmp_path: Path) -> None:
        _, trainer = torch_trainer(model=nn.Linear(2, 1))
        trainer.save_checkpoint(tmp_path)
        for other, text in (
            (nn.Linear(2, 1, bias=False), "bias is absent here and F32 \\[1\\] there"),
            (nn.Linear(2, 3), "weight is F32 \\[3, 2\\] here and F32 \\[1, 2\\] there"),
            (nn.Linear(2, 1).double(), "weight is F64 \\[1, 2\\] here and F32"),
        ):
            _, again = torch_trainer(model=other)
            before = [p.detach().clone() for p in other.parameters()]
            with pytest.raises(sh.StateError, match=text):
                again.restore_from_checkpoint(tmp_path)
            assert all(map(torch.equal, before, other.parameters()))

    def test_another_optimizer_is_refused(self, tmp_path: Path) -> None:
        model, trainer = torch_trainer()
        trainer.save_checkpoint(tmp_path)
        learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.1), 0.1)
        with pytest.raises(sh.StateError, match=r"of the optimizers .*Adam.*here are .*SGD"):
            sh.Trainer(model, torch_error, learner).restore_from_checkpoint(tmp_path)

    def test_another_numpy_learner_or_loss_scale_is_refused(self, tmp_path: Path) -> None:
        line_trainer().save_checkpoint(tmp_path)
        model = Line()
        adam = sh.Trainer(model, squared_error, sh.numpy.Adam([model.w], 0.1))
        with pytest.raises(sh.StateError, match=r"MomentumSGD.*here are .*Adam"):
            adam.restore_from_checkpoint(tmp_path)
        inner = sh.numpy.MomentumSGD([model.w], 0.1)
        scaled = sh.Trainer(model, squared_error, sh.LossScaleOptimizer(inner))
        with pytest.raises(sh.StateError, match=r"0 loss scales, here are .* and 1"):
            scaled.restore_from_checkpoint(tmp_path)

    def test_torch_and_numpy_do_not_mix(self, tmp_path: Path) -> None:
        line_trainer().save_checkpoint(tmp_path / "numpy")
        torch_trainer()[1].save_checkpoint(tmp_path / "torch")
        with pytest.raises(sh.StateError, match="another kind of model"):
            line_trainer().restore_from_checkpoint(tmp_path / "torch")
        with pytest.raises(sh.StateError, match="another kind of model"):
            torch_trainer()[1].restore_from_checkpoint(tmp_path / "numpy")

    def test_no_checkpoint_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no checkpoint in"):
            line_trainer().restore_from_checkpoint(tmp_path)

    def test_other_stateful_objects_are_refused(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        line_trainer(stateful={"rng": rng}).save_checkpoint(tmp_path)
        with pytest.raises(sh.StateError, match=r"\['rng'\], here are \[\]"):
            line_trainer().restore_from_checkpoint(tmp_path)

    def test_a_state_that_is_none_is_refused(self, tmp_path: Path) -> None:
        line_trainer().save_checkpoint(tmp_path)
        folder = CheckpointStore(tmp_path).path(0)
        for text in ("{}", '{"trainer": 3}', '{"trainer": {"consumed": {}, "applied": {}}}'):
            (folder / "state.json").write_text(text)
            rewrite_manifest(folder)
            with pytest.raises(sh.StateError):
                line_trainer().restore_from_checkpoint(tmp_path)


class Malice:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


class TestNoCode:
    @pytest.mark.parametrize("name", ["optimizer_0.pt", "state.json", "model.safetensors"])
    def test_a_pickle_in_the_place_of_any_file_is_never_executed(
        self, tmp_path: Path, name: str
    ) -> None:
        _, trainer = torch_trainer()
        trainer.save_checkpoint(tmp_path)
        folder = CheckpointStore(tmp_path).path(0)
        made = tmp_path / "made"
        for write in (
            lambda path: path.write_bytes(pickle.dumps(Malice(made), 2)),
            lambda path: torch.save({"state": Malice(made)}, path),
        ):
            write(folder / name)
            rewrite_manifest(folder)
            with pytest.raises(sh.StateError, match=name.replace(".", r"\.")):
                torch_trainer()[1].restore_from_checkpoint(tmp_path)
            assert not made.exists()


class TestTensorFile:
    def write(self, path: Path, arrays: dict[str, Any]) -> None:
        with path.open("wb") as file:
            write_tensors({name: tensor_of_array(a) for name, a in arrays.items()}, file)

    def arrays(self) -> dict[str, Any]:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        rng = np.random.default_rng(0)
        dtypes = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
        arrays = {dtype: (rng.normal(size=(3, 2)) * 9).astype(dtype) for dtype in dtypes}
        return arrays | {
            "bfloat16": np.arange(3).astype(ml_dtypes.bfloat16),
            "scalar": np.float32(3).reshape(()),
            "empty": np.zeros((0, 4), np.float64),
            "transposed": np.arange(6.0).reshape(2, 3).T,
            "ünïcode.name": np.ones(1, np.complex64),
        }

    def test_arrays_come_back_as_they_were(self, tmp_path: Path) -> None:
        arrays = self.arrays()
        self.write(tmp_path / "file", arrays)
        found = read_tensors(tmp_path / "file")
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            back = array_of_tensor(found[name])
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert back.tobytes() == array.tobytes()

    def test_the_reference_implementation_agrees(self, tmp_path: Path) -> None:
        reference = pytest.importorskip("safetensors.numpy")
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays().items()}
        self.write(tmp_path / "ours", arrays)
        theirs = reference.load_file(tmp_path / "ours")
        reference.save_file(arrays, tmp_path / "theirs", {"a": "b"})
        ours = read_tensors(tmp_path / "theirs")
        for name, array in arrays.items():
            assert theirs[name].tobytes() == array.tobytes()
            assert theirs[name].shape == array_of_tensor(ours[name]).shape == array.shape
            assert array_of_tensor(ours[name]).tobytes() == array.tobytes()

    def test_every_truncation_and_many_lies_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        self.write(path, {"a": np.arange(3.0), "b": np.arange(4, dtype=np.int16)})
        good = path.read_bytes()
        for length in range(len(good)):
            path.write_bytes(good[:length])
            with pytest.raises(sh.StateError, match="no safetensors file"):
                read_tensors(path)
        for lie in (
            good + b"x",
            good.replace(b'"a"', b'"b"'),
            good.replace(b"F64", b"F65"),
            good.replace(b"[3]", b"[4]"),
            good.replace(b"[3]", b"3.0"),
            good.replace(b"[0, 24]", b"[8, 24]"),
            good.replace(b"[0, 24]", b"[0, 99]"),
            good.replace(b"[3]", b"-3 "),
            (2**63).to_bytes(8, "little") + good[8:],
        ):
            path.write_bytes(lie)
            with pytest.raises(sh.StateError, match="no safetensors file"):
                read_tensors(path)

    def test_a_dtype_without_a_name_is_refused(self) -> None:
        for array in (np.array(["a"]), np.ones(1, ">f4"), np.array([None])):
            with pytest.raises(TypeError, match="cannot be saved"):
                tensor_of_array(array)


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def state_bytes(trainer: sh.Trainer) -> list[bytes]:
    """Return everything that a checkpoint would hold."""
    snapshot: Snapshot = trainer.capture()
    arrays = [
        tensor.data.tobytes()
        for file in snapshot.files.values()
        for tensor in file.tensors.values()
    ]
    return [*arrays, json.dumps(snapshot.state).encode()]
