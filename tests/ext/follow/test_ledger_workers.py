"""Two workers keep one ledger, and receipts, and one goes on with them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ext.follow.ledger_workers import LENGTHS, SIZES, make, train
from tests.train.children import run
from tests.train.small import Heard, source_of_lengths

import sweephand as sh


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let two workers train, once for all tests."""
    folder = tmp_path_factory.mktemp("workers")
    run("ledger_workers.py", folder)
    return folder


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sh.LossLedger(folder).table().to_pylist()
    return rows


def test_the_rows_of_all_workers_add_up_to_the_losses_of_the_steps(folder: Path) -> None:
    losses = json.loads((folder / "losses.json").read_text())
    rows = rows_of(folder / "ledger")
    assert len(losses) == 2 * len(SIZES)
    for step, loss in enumerate(losses, 1):
        found = sum(row["loss"] for row in rows if row["step"] == step)
        assert found == pytest.approx(loss, rel=1e-6)
    assert sorted(path.name for path in (folder / "ledger").iterdir()) == [
        "0.losses",
        "1.losses",
    ]


def test_one_worker_alone_goes_on_and_has_the_rows_of_a_run_alone(folder: Path) -> None:
    again, alone = folder / "ledger", folder / "alone"
    for path, saved in ((alone, None), (again, folder / "saved")):
        with sh.LossLedger(path) as ledger:
            trainer = make(ledger, Heard())
            if saved is None:
                train(trainer, 0, 1)
            else:
                trainer.restore_from_checkpoint(saved)
                assert max(row["step"] for row in rows_of(path)) == len(SIZES)
            train(trainer, 0, 1)
    wanted = {(row["step"], row["id"]): row["loss"] for row in rows_of(alone)}
    found = {(row["step"], row["id"]): row["loss"] for row in rows_of(again)}
    assert found == pytest.approx(wanted, rel=1e-4)


def test_receipts_of_two_workers_are_those_of_the_minibatches(folder: Path) -> None:
    source, steps = source_of_lengths(LENGTHS), 2 * len(SIZES)
    for kind in ("receipts", "planned"):
        assert [path.name for path in (folder / kind).iterdir()] == ["0.receipts"]
        audit = sh.train.Receipts(folder / kind).audit(source, content=kind == "receipts")
        assert audit.mismatch is None
        assert audit.num_steps == steps
    with sh.train.Receipts(folder / "receipts", content=True) as receipts:
        trainer = make(sh.LossLedger(folder / "other"), Heard(), receipts)
        trainer.restore_from_checkpoint(folder / "saved")
        train(trainer, 0, 1, loops=1)
    audit = sh.train.Receipts(folder / "receipts").audit(source, content=True)
    assert audit.mismatch is None
    assert audit.num_steps == steps
