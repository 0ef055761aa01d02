"""How a file of receipts begins and ends, whoever was killed or has damaged it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ext.follow.test_receipts import arrays, receipts_in
from tests.extent import sample
from tests.train.small import LENGTHS, line_trainer, source_of_lengths

import sweephand as sh


def forked(work: Callable[[], object]) -> None:
    """Do something in a child that is killed behind it: what it returns is never closed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kept = work()
            code = 7 if kept else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def is_sealed(folder: Path, source: sh.MinibatchSource) -> bool:
    audit = sh.train.Receipts(folder).audit(source, allow_unsealed=True)
    assert audit.ok, audit.mismatch
    return audit.is_sealed


class TestKilled:
    @pytest.mark.parametrize("content", [False, True])
    @pytest.mark.parametrize("behind", [0, 1, 70])
    def test_a_run_with_no_step_left_after_its_last_checkpoint_is_sealed(
        self, behind: int, content: bool, tmp_path: Path
    ) -> None:
        folder, saved = tmp_path / "receipts", tmp_path / "saved"

        def work() -> sh.train.Receipts:
            receipts = sh.train.Receipts(folder, content=content)
            trainer, source = line_trainer([receipts]), source_of_lengths(LENGTHS)
            for step in range(5 + behind):
                if step == 5:
                    trainer.save_checkpoint(saved)
                trainer.train_minibatch(source.next_minibatch(12))
            if not behind:
                trainer.save_checkpoint(saved)
            return receipts

        def restore() -> sh.train.Receipts:
            receipts = sh.train.Receipts(folder, content=content)
            line_trainer([receipts]).restore_from_checkpoint(saved)
            return receipts

        forked(work)
        source = source_of_lengths(LENGTHS)
        assert not is_sealed(folder, source)
        for _ in range(2):  # killed again before it has done anything
            forked(restore)
            assert not is_sealed(folder, source)
        restore().close()
        audit = sh.train.Receipts(folder).audit(source, content=content)
        assert (audit.ok, audit.num_steps, audit.is_sealed) == (True, 5, True)

    def test_a_mark_holds_all_that_a_seal_does_and_is_written_over(
        self, tmp_path: Path
    ) -> None:
        source = sh.MinibatchSource(arrays())
        file = tmp_path / "0.receipts"
        with sh.train.Receipts(tmp_path) as receipts:
            receipts.record(source.next_minibatch(20))
            receipts.state_dict()
            marked = file.read_bytes()
            receipts.record(source.next_minibatch(20))
        assert len(receipts_in(tmp_path)) == 2
        assert len(file.read_bytes()) == len(marked) + 64
        for at in range(len(marked) - 64, len(marked)):
            file.write_bytes(marked[:at] + bytes([marked[at] ^ 1]) + marked[at + 1 :])
            audit = sh.train.Receipts(tmp_path).audit(source, allow_unsealed=True)
            assert not audit.ok
        file.write_bytes(marked + marked[-64:])
        mismatch = sh.train.Receipts(tmp_path).audit(source, allow_unsealed=True).mismatch
        assert mismatch is not None
        assert mismatch.part == "seal"


class TestHeader:
    def test_any_flipped_bit_of_it_is_an_error_with_the_file_or_is_found(
        self, tmp_path: Path
    ) -> None:
        folder, source = tmp_path / "receipts", sh.MinibatchSource(arrays(), num_threads=0)
        with sh.train.Receipts(folder) as receipts:
            for _ in range(3):
                receipts.record(source.next_minibatch(20))
        file = folder / "0.receipts"
        content = file.read_bytes()
        start, end = 8 * content.index(b'"order"'), 8 * (content.index(b"\n") + 1)
        for place in sample([*range(start), *range(start, end, 17)], 200):
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            file.write_bytes(flipped)
            try:
                audit = sh.train.Receipts(folder).audit(source)
            except sh.DataError as error:
                assert error.file == str(file)  # noqa: PT017
            else:
                assert not audit.ok
            try:
                with sh.train.Receipts(folder) as receipts:
                    receipts.rewind(3)
            except sh.DataError as error:
                assert error.file == str(file)  # noqa: PT017


class TestStates:
    def test_the_state_of_any_worker_is_taken_by_all(self, tmp_path: Path) -> None:
        def run(rank: int) -> tuple[sh.train.Receipts, sh.MinibatchSource]:
            receipts = sh.train.Receipts(
                tmp_path, content=True, num_data_partitions=3, partition_index=rank
            )
            return receipts, sh.MinibatchSource(arrays())

        def record(count: int, states: list[Any]) -> list[Any]:
            found = []
            for rank in range(3):
                receipts, source = run(rank)
                with receipts:
                    if states:
                        receipts.load_state_dict(states[rank])
                        source.current_position = positions[0]
                    for _ in range(count):
                        receipts.record(source.next_minibatch(20, None, None, 3, rank))
                    found.append(receipts.state_dict())
                    positions.append(source.current_position)
            return found

        positions: list[int] = []
        states = record(4, [])
        assert len({state["head"] for state in states}) == 3
        for one in range(3):
            del positions[1:]
            record(2, [states[one]] * 3)
            audit = sh.train.Receipts(tmp_path).audit(
                sh.MinibatchSource(arrays()), content=True
            )
            assert (audit.ok, audit.num_steps) == (True, 6)

    @pytest.mark.parametrize("rank", range(2))
    def test_the_state_of_another_run_is_refused_by_all(
        self, rank: int, tmp_path: Path
    ) -> None:
        states = []
        for name, seed in (("one", 1), ("other", 2)):
            for worker in range(2):
                source = sh.MinibatchSource(arrays(), randomization_seed=seed)
                with sh.train.Receipts(
                    tmp_path / name,
                    content=True,
                    num_data_partitions=2,
                    partition_index=worker,
                ) as receipts:
                    receipts.record(source.next_minibatch(20, None, None, 2, worker))
                    states.append(receipts.state_dict())
        with (
            sh.train.Receipts(
                tmp_path / "one", content=True, num_data_partitions=2, partition_index=rank
            ) as receipts,
            pytest.raises(sh.StateError, match="they are of another run"),
        ):
            receipts.load_state_dict(states[2])
