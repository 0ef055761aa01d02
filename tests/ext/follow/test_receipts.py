"""A run keeps a receipt of every step, whatever happens to it; an audit derives them all."""

import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.follow import model_receipts
from tests.train.small import (
    LENGTHS,
    line_trainer,
    source_of_lengths,
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
    @pytest.mark.parametrize("workers", [2, 3])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_workers_have_the_receipts_of_one(
        self, layout: str, workers: int, tmp_path: Path
    ) -> None:
        def record(path: Path, workers: int) -> sh.MinibatchSource:
            for rank in range(workers):
                source = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout], balance=balance)
                with sh.train.Receipts(
                    path, num_data_partitions=workers, partition_index=rank
                ) as receipts:
                    for size in (30, 9, 30, 12, 200, 5):
                        share = source.next_minibatch(size, None, None, workers, rank)
                        receipts.record(share)
            return source

        balance = "samples" if layout == "grouped" else None
        record(tmp_path / "one", 1)
        source = record(tmp_path / "several", workers)
        check(tmp_path / "several", source, 6)
        one, several = (tmp_path / name / "0.receipts" for name in ("one", "several"))
        assert one.read_bytes() == several.read_bytes()
        assert [path.name for path in several.parent.iterdir()] == ["0.receipts"]

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


class TestEvents:
    @pytest.mark.parametrize("layout", ["ragged", "packed", "bucketed", "bptt"])
    def test_what_happened_on_the_way_is_derived_again(
        self, layout: str, folder: Path, receipts: sh.train.Receipts
    ) -> None:
        source = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout])
        for step in range(12):
            if step == 3:
                planned = next(source.plan(40)).ids
                source.events.ban(planned[:2])
            if step == 5:
                source.events.ban(planned[2:3], at=source.current_position + 60)
            if step == 7 and layout == "ragged":
                start = source.current_position
                source.events.skip(start + 10, start + 50)
            receipts.record(source.next_minibatch(20))
        receipts.close()
        events = list(source.events)
        check(folder, sh.MinibatchSource(arrays(), layout=LAYOUTS[layout], events=events), 12)
        check(folder, source, 12, content=True)
        without = sh.MinibatchSource(arrays(), layout=LAYOUTS[layout])
        found = sh.train.Receipts(folder).audit(without).mismatch
        assert found is not None
        assert found.step == 4


class TestTrainer:
    @pytest.mark.parametrize("behind", [0, 1, 70])
    def test_a_killed_run_goes_on_as_if_it_had_not_been(
        self, behind: int, tmp_path: Path
    ) -> None:
        folder, saved = tmp_path / "receipts", tmp_path / "saved"

        def run(receipts: sh.train.Receipts) -> tuple[sh.Trainer, sh.MinibatchSource]:
            return line_trainer([receipts]), source_of_lengths(LENGTHS)

        def train(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(12))

        if (child := os.fork()) == 0:  # which is killed, and closes nothing
            receipts = sh.train.Receipts(folder, content=True)
            trainer, source = run(receipts)
            train(trainer, source, 5)
            trainer.save_checkpoint(saved, source.get_checkpoint_state())
            train(trainer, source, behind)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        check(folder, source_of_lengths(LENGTHS), len(receipts_in(folder)), content=True)
        for path in (folder, tmp_path / "whole"):
            with sh.train.Receipts(path, content=True) as receipts:
                trainer, source = run(receipts)
                if path == folder:
                    source.restore_from_checkpoint(trainer.restore_from_checkpoint(saved))
                train(trainer, source, 8 - trainer.consumed.steps)
        check(folder, source, 8, content=True)
        assert receipts_in(folder) == receipts_in(tmp_path / "whole")

    def test_a_damaged_receipt_before_the_restored_step_is_an_error(self, folder: Path) -> None:
        source = sh.MinibatchSource(arrays())
        with sh.train.Receipts(folder) as receipts:
            for _ in range(4):
                receipts.record(source.next_minibatch(9))
        file = folder / "0.receipts"
        content = bytearray(file.read_bytes())
        content[-100] ^= 1  # in the third
        file.write_bytes(content)
        with sh.train.Receipts(folder) as receipts:
            receipts.rewind(2)
        file.write_bytes(content)
        with sh.train.Receipts(folder) as receipts, pytest.raises(sh.DataError) as caught:
            receipts.rewind(3)
        assert caught.value.file == str(file)
        assert caught.value.offset == len(content) - 128


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

    def test_a_file_of_something_else_is_refused(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "0.receipts").write_text('{"format": "other"}\n')
        with pytest.raises(sh.DataError, match="no file of receipts"):
            self.record(sh.train.Receipts(folder, overwrite=True), 1, 1)
        with pytest.raises(FileNotFoundError, match="receipts"):
            sh.train.Receipts(folder.parent).audit(sh.MinibatchSource(arrays()))

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
