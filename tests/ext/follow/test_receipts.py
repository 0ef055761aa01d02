"""A run keeps a receipt of every step, whatever happens to it; an audit derives them all."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.follow import model_receipts
from tests.train.small import (
    LENGTHS,
    Heard,
    line_trainer,
    source_of_lengths,
    trained_back_and_forth,
)

import sweephand as sh


def receipts_in(folder: Path, worker: int = 0) -> list[model_receipts.Receipt]:
    return model_receipts.receipts_of((folder / f"{worker}.receipts").read_bytes())


def arrays(count: int = 40) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 9, count)
    return sh.ArrayDeserializer({"x": [rng.normal(size=(n, 2)) for n in sizes]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "receipts"


@pytest.fixture
def receipts(folder: Path) -> Iterator[sh.train.Receipts]:
    with sh.train.Receipts(folder, content=True) as made:
        yield made


def check(folder: Path, source: sh.MinibatchSource, num_steps: int, **options: Any) -> None:
    found = sh.train.Receipts(folder).audit(source, **options)
    assert found.mismatch is None
    assert found.num_steps == num_steps


def twice(values: dict[str, Any], key: sh.Key) -> dict[str, Any]:
    return {"x": values["x"] * key.uniform()}


def is_long(values: dict[str, Any]) -> bool:
    return len(values["x"]) > 2


LAYOUTS = {
    "ragged": sh.Ragged(),
    "padded": sh.Padded(),
    "frames": sh.Frames(),
    "packed": sh.Packed(9),
    "split": sh.Packed(5, split_long="split"),
    "grouped": sh.Packed(9, micro_batch_rows=2),
    "bucketed": sh.Bucketed([2, 5, 9]),
    "bptt": sh.TruncatedBPTT(3),
}
CORPORA = {
    "mapped": lambda: arrays().map(twice, random=True),
    "mixed": lambda: sh.Mixture({"a": arrays(), "b": arrays(7)}, weights={"a": 2, "b": 1}),
    "filtered": lambda: arrays().filter(is_long),
}


class TestSources:
    @pytest.mark.parametrize("workers", [1, 2, 3])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_workers_have_the_receipts_of_one(
        self, layout: str, workers: int, tmp_path: Path
    ) -> None:
        def record(path: Path, workers: int) -> sh.MinibatchSource:
            for rank in range(workers):
                source = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout], balance=balance)
                with sh.train.Receipts(
                    path, content=True, num_data_partitions=workers, partition_index=rank
                ) as receipts:
                    for size in (30, 9, 30, 12, 200, 5):
                        share = source.next_minibatch(size, None, None, workers, rank)
                        receipts.record(share)
            return source

        balance = "samples" if layout == "grouped" else None
        record(tmp_path / "one", 1)
        source = record(tmp_path / "several", workers)
        check(tmp_path / "several", source, 6, content=True)
        one = receipts_in(tmp_path / "one")
        shares = [receipts_in(tmp_path / "several", rank) for rank in range(workers)]
        for alone, *parts in zip(one, *shares, strict=True):
            assert {(part.step, part.begin, part.ids) for part in parts} == {
                (alone.step, alone.begin, alone.ids)
            }
            total = sum(int.from_bytes(part.content, "little") for part in parts)
            assert total % 2**64 == int.from_bytes(alone.content, "little")

    @pytest.mark.parametrize("kind", CORPORA)
    def test_any_corpus_is_derived_again(
        self, kind: str, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(CORPORA[kind](), randomization_seed=3)
        for _ in range(12):
            receipts.record(source.next_minibatch(30))
        receipts.close()
        check(folder, sh.MinibatchSource(CORPORA[kind](), randomization_seed=3), 12)
        check(folder, source, 12, content=True)
        other = sh.MinibatchSource(CORPORA[kind](), randomization_seed=4)
        found = sh.train.Receipts(folder).audit(other).mismatch
        assert found is not None
        assert "seed is 4 here and 3 in the receipts" in str(found)

    def test_what_is_damaged_and_skipped_is_derived_again(
        self, tmp_path: Path, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        lines = [f'{{"x": [{i}, {i}]}}\n' for i in range(20)]
        lines[7] = '{"x": [7, oh no\n'
        (tmp_path / "a.jsonl").write_text("".join(lines))

        def make() -> sh.MinibatchSource:
            return sh.MinibatchSource(sh.open(tmp_path / "a.jsonl"), max_errors=2)

        source = make()
        for _ in range(6):
            receipts.record(source.next_minibatch(9))
        receipts.close()
        assert source.errors
        check(folder, make(), 6, content=True)

    def test_sizes_and_ends_of_sweeps_are_those_that_were_asked_for(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays(), max_sweeps=5)
        receipts.record(source.next_minibatch(sh.FULL_DATA_SWEEP))
        for size in (50, 1 << 40):  # the other one is a sweep, too
            for minibatch in source.sweep(size):
                receipts.record(minibatch)
        for minibatch in source.minibatches([20, 30, 1 << 40]):
            receipts.record(minibatch)
        receipts.close()
        check(folder, source, len(receipts_in(folder)), content=True)
        check(folder, source, 1, content=True, step=4)

    def test_a_minibatch_of_another_process_needs_the_source(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays())
        minibatches = [pickle.loads(pickle.dumps(source.next_minibatch(20))) for _ in range(3)]
        with pytest.raises(ValueError, match="give Receipts\\(path, source=source\\)"):
            receipts.record(minibatches[0])
        receipts.close()
        with sh.train.Receipts(folder, source=source) as told:
            for minibatch in minibatches:
                told.record(minibatch)
        check(folder, source, 3)

    def test_jumps_and_missing_steps_are_told(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays())
        receipts.record(source.next_minibatch(20))
        stood = source.current_position
        source.current_position = 70
        jumped = source.current_position
        receipts.record(source.next_minibatch(20), step=4)
        receipts.close()
        found = sh.train.Receipts(folder).audit(source).mismatch
        assert found is not None
        assert (found.step, found.part, found.found) == (2, "step", "4")
        audit = sh.train.Receipts(folder).audit(source, allow_jumps=True)
        assert audit.ok
        assert audit.jumps == [(4, stood, jumped)]

    def test_receipts_may_begin_anywhere(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays(), layout=sh.Bucketed([2, 5, 9]))
        for size in (20, 7, 11):
            source.next_minibatch(size)
        for step in range(4, 9):
            receipts.record(source.next_minibatch(20), step=step)
        receipts.close()
        check(folder, source, 5, content=True)
        check(folder, source, 1, step=7)


class TestEvents:
    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("layout", ["ragged", "packed", "bucketed", "bptt"])
    def test_what_happened_on_the_way_is_derived_again(
        self, layout: str, workers: int, folder: Path
    ) -> None:
        events: Any = None
        for rank in range(workers):
            source = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout])
            with sh.train.Receipts(
                folder, content=True, num_data_partitions=workers, partition_index=rank
            ) as receipts:
                for step in range(12):
                    if step == 3:
                        planned = next(source.plan(40)).ids
                        source.events.ban(planned[:2])
                    if step == 5:
                        source.events.ban(planned[2:3], at=source.current_position + 60)
                    if step == 7 and layout == "ragged":
                        start = source.current_position
                        source.events.skip(start + 10, start + 50)
                    receipts.record(source.next_minibatch(20, None, None, workers, rank))
            events = list(source.events)
        check(folder, sh.MinibatchSource(arrays(), layout=LAYOUTS[layout], events=events), 12)
        check(folder, source, 12, content=True)
        without = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout])
        found = sh.train.Receipts(folder).audit(without).mismatch
        assert found is not None
        assert (found.step, found.part) == (4, "events")

    def test_an_event_is_told_by_its_digest(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays())
        receipts.record(source.next_minibatch(20))
        source.events.ban(["array__3"])
        receipts.record(source.next_minibatch(20))
        receipts.close()
        before, behind = receipts_in(folder)
        assert before.events == bytes(4)
        assert behind.events == bytes.fromhex(source.events.digest)[:4]

    def test_weights_that_change_are_derived_again(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        def make(events: Any = None) -> sh.MinibatchSource:
            weights = {"a": 2, "b": 1}
            mixture = sh.Mixture({"a": arrays(), "b": arrays(7)}, weights=weights)
            return sh.MinibatchSource(mixture, events=events)

        source = make()
        for step in range(8):
            if step == 3:
                source.events.weights({"a": 1, "b": 5})
            receipts.record(source.next_minibatch(30))
        receipts.close()
        check(folder, make(list(source.events)), 8, content=True)


class TestTrainer:
    def test_a_restored_run_has_the_receipts_of_one_that_never_stopped(
        self, tmp_path: Path
    ) -> None:
        def train(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(12))

        whole = sh.train.Receipts(tmp_path / "whole", content=True, parameters_every=2)
        source = source_of_lengths(LENGTHS)
        train(line_trainer([whole]), source, 8)
        whole.close()
        torn = sh.train.Receipts(tmp_path / "torn", content=True, parameters_every=2)
        trainer, source = line_trainer([torn]), source_of_lengths(LENGTHS)
        train(trainer, source, 5)
        state = source.get_checkpoint_state()
        trainer.save_checkpoint(tmp_path / "saved")
        train(trainer, source, 2)
        torn.close()
        again = sh.train.Receipts(tmp_path / "torn", content=True, parameters_every=2)
        trainer, source = line_trainer([again]), source_of_lengths(LENGTHS)
        trainer.restore_from_checkpoint(tmp_path / "saved")
        source.restore_from_checkpoint(state)
        train(trainer, source, 3)
        again.close()
        assert receipts_in(tmp_path / "torn") == receipts_in(tmp_path / "whole")
        check(tmp_path / "torn", source, 8, against=tmp_path / "whole")

    def test_a_session_that_goes_back_or_tries_sizes_leaves_those_that_it_keeps(
        self, tmp_path: Path, folder: Path
    ) -> None:
        heard, receipts = Heard(), sh.train.Receipts(folder, content=True, parameters_every=3)
        trainer, source = trained_back_and_forth([heard, receipts], tmp_path / "saved")
        receipts.close()
        assert len(heard.steps) > trainer.consumed.steps, "an epoch was rejected"
        check(folder, source, trainer.consumed.steps, content=True)

    def test_skipped_steps_have_theirs(self, folder: Path) -> None:
        lengths = [4, 4, 4, 4]
        offsets = np.cumsum([0, *lengths])
        labels = [np.ones(0 if i % 2 else 4, np.float32) for i in range(4)]
        corpus = sh.ArrayDeserializer(
            {"x": (np.ones((16, 2), np.float32), offsets), "labels": labels}
        )
        source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=2)
        with sh.train.Receipts(folder) as receipts:
            trainer = line_trainer([receipts], criterion=_no_gradient)
            for minibatch in source.minibatches(4):
                trainer.train_minibatch(minibatch)
        check(folder, source, 8)
        assert len({one.control for one in receipts_in(folder)}) == 2

    def test_parameters_of_a_loop_are_those_of_the_same_file(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        import torch

        source = sh.MinibatchSource(arrays())
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        receipts.record(source.next_minibatch(5), parameters={"w": array})
        receipts.record(source.next_minibatch(5), parameters={"w": torch.from_numpy(array)})
        receipts.record(source.next_minibatch(5), parameters={"w": array + 1})
        receipts.close()
        one, other, third = (receipt.parameters for receipt in receipts_in(folder))
        assert one == other != third

    def test_another_control_is_found_against_a_run_that_did_the_same(
        self, tmp_path: Path
    ) -> None:
        for name, rate in (("one", 0.01), ("other", 0.02)):
            source = source_of_lengths(LENGTHS)
            schedule = sh.learning_parameter_schedule_per_sample([0.01, rate], epoch_size=31)
            with sh.train.Receipts(tmp_path / name, parameters_every=1) as receipts:
                trainer = line_trainer([receipts], schedule)
                for _ in range(6):
                    trainer.train_minibatch(source.next_minibatch(12))
        check(tmp_path / "one", source, 6, against=tmp_path / "one")
        audit = sh.train.Receipts(tmp_path / "one").audit(source, against=tmp_path / "other")
        assert audit.mismatch is not None
        assert audit.mismatch.parts == ("control", "parameters")
        assert audit.num_steps > 1


def _no_gradient(model: Any, minibatch: sh.Minibatch) -> tuple[float, list[Any]]:
    return 0.0, [np.zeros(2, np.float32)]


class TestFiles:
    def record(
        self, receipts: sh.train.Receipts, first: int, last: int, **options: Any
    ) -> None:
        source = sh.MinibatchSource(arrays(), **options)
        for step, minibatch in enumerate(source.minibatches(10), 1):
            if step > last:
                return
            if step >= first:
                receipts.record(minibatch, step=step)

    def test_a_fresh_start_over_receipts_is_refused(self, folder: Path) -> None:
        with sh.train.Receipts(folder) as receipts:
            self.record(receipts, 1, 3)
        with (
            sh.train.Receipts(folder) as receipts,
            pytest.raises(FileExistsError, match="there are receipts up to step 3"),
        ):
            self.record(receipts, 1, 1)
        assert len(receipts_in(folder)) == 3
        with sh.train.Receipts(folder, overwrite=True) as receipts:
            self.record(receipts, 1, 1)
        assert len(receipts_in(folder)) == 1

    @pytest.mark.parametrize("options", [{"randomization_seed": 1}, {"num_lanes": 2}])
    def test_receipts_of_another_run_are_refused(
        self, folder: Path, options: dict[str, Any]
    ) -> None:
        with sh.train.Receipts(folder) as receipts:
            self.record(receipts, 1, 3)
        with sh.train.Receipts(folder) as receipts:
            receipts.rewind(2)
            with pytest.raises(sh.StateError, match="is of another corpus or order"):
                self.record(receipts, 3, 3, **options)
            self.record(receipts, 3, 4)
        check(folder, sh.MinibatchSource(arrays()), 4)

    def test_a_state_knows_its_receipts(self, folder: Path, tmp_path: Path) -> None:
        with sh.train.Receipts(folder) as receipts:
            self.record(receipts, 1, 3)
            state = receipts.state_dict()
            self.record(receipts, 4, 5)
            receipts.load_state_dict(state)
            self.record(receipts, 4, 6)
        check(folder, sh.MinibatchSource(arrays()), 6)
        with sh.train.Receipts(tmp_path / "other", overwrite=True) as receipts:
            self.record(receipts, 1, 1, randomization_seed=3)
            with pytest.raises(sh.StateError, match="they are of another run"):
                receipts.load_state_dict(state)

    def test_a_file_of_something_else_is_refused(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "0.receipts").write_text('{"format": "other"}\n')
        with pytest.raises(sh.DataError, match="no file of receipts"):
            self.record(sh.train.Receipts(folder, overwrite=True), 1, 1)
        with pytest.raises(FileNotFoundError, match=r"no file 0.receipts in this folder"):
            sh.train.Receipts(folder.parent).audit(sh.MinibatchSource(arrays()))

    def test_workers_that_are_no_more_go_back_too(self, folder: Path) -> None:
        for rank in range(3):
            source = sh.MinibatchSource(arrays())
            with sh.train.Receipts(
                folder, content=True, num_data_partitions=3, partition_index=rank
            ) as receipts:
                for _ in range(4):
                    receipts.record(source.next_minibatch(20, None, None, 3, rank))
        with sh.train.Receipts(folder, content=True) as receipts:
            receipts.rewind(2)
            [*_, (_, plan)] = zip(range(2), source.plan(20, start=0), strict=False)
            source.current_position = plan.nominal_time + plan.global_num_samples
            receipts.record(source.next_minibatch(20))
        check(folder, source, 3, content=True)

    def test_a_step_takes_64_bytes_and_one_has_one(
        self, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        self.record(receipts, 1, 1)
        receipts.flush()
        before = (folder / "0.receipts").stat().st_size
        self.record(receipts, 2, 100)
        receipts.flush()
        assert (folder / "0.receipts").stat().st_size - before == 99 * 64
        with pytest.raises(ValueError, match="step must be at least 101"):
            self.record(receipts, 100, 100)
        with pytest.raises(TypeError, match="must be one of a source"):
            receipts.record({"x": 1})  # type: ignore[arg-type]
