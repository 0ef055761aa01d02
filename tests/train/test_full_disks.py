"""A full disk: caches are given up with a hint, results end with an error that names the file.

No error at the end takes the place of one that was there before.
"""

import csv
import json
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.maps import functions
from tests.train.small import LENGTHS, line_trainer, source_of_lengths

import sweephand as sh


@contextmanager
def no_room(most_bytes: int) -> Iterator[None]:
    """Have no file grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def lines(folder: Path) -> sh.Deserializer:
    path = folder / "a.jsonl"
    if not path.exists():
        rows = ({"x": list(range(n, n + 1 + n % 9))} for n in range(1500))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return sh.open(path)


def values_of(corpus: sh.Deserializer) -> list[Any]:
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        return [minibatch["x"].values.tolist() for minibatch in source.minibatches(400)]


class TestCaches:
    @pytest.mark.parametrize("most_bytes", [0, 20, 500, 9000])
    @pytest.mark.parametrize("size", ["same", "measured"])
    def test_a_kept_map_is_made_again_and_again(
        self, size: Any, most_bytes: int, tmp_path: Path
    ) -> None:
        function = functions.negate if size == "same" else functions.twice
        wanted = values_of(lines(tmp_path).map(function, size=size))
        kept = lines(tmp_path).map(function, size=size, cache=True)
        before = set(tmp_path.iterdir())
        with no_room(most_bytes), warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            assert values_of(kept) == wanted
        hints = [
            str(one.message) for one in given if issubclass(one.category, sh.SweephandHint)
        ]
        assert len(hints) == 1
        assert f"not kept in {tmp_path}/" in hints[0]
        assert "File too large" in hints[0]
        assert set(tmp_path.iterdir()) == before
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert values_of(kept) == wanted  # there is room again
            assert values_of(kept) == wanted

    def test_an_index_is_built_again(self, tmp_path: Path) -> None:
        wanted = values_of(lines(tmp_path))
        shutil.rmtree(tmp_path / ".sweephand")
        with no_room(20), pytest.warns(RuntimeWarning, match=rf"File too large: '{tmp_path}/"):
            assert values_of(lines(tmp_path)) == wanted


def step(log: Any, source: sh.MinibatchSource) -> None:
    minibatch = source.next_minibatch(12)
    if isinstance(log, sh.LossLedger):
        log.record(minibatch, np.ones(minibatch.num_sequences))
    else:
        log.record(minibatch)


LOGS: dict[str, Callable[..., Any]] = {
    "0.receipts": sh.train.Receipts,
    "0.ledger": sh.LossLedger,
}


@pytest.mark.parametrize("name", LOGS)
class TestLogs:
    def test_the_error_names_the_file_and_what_waits_is_written_later(
        self, name: str, tmp_path: Path
    ) -> None:
        source = source_of_lengths(LENGTHS)
        with LOGS[name](tmp_path / "x") as log:
            step(log, source)
            log.flush()
            (file,) = (tmp_path / "x").iterdir()
            whole = file.read_bytes()
            step(log, source)
            with no_room(len(whole) + 10):
                for _ in range(2):
                    with pytest.raises(OSError, match="what it had before stays") as caught:
                        log.flush()
                    assert caught.value.filename == str(file)
                    assert file.read_bytes()[: len(whole)] == whole
            log.flush()
            assert len(file.read_bytes()) > len(whole) + 10


class TestWriters:
    @pytest.mark.parametrize("name", ["run.jsonl", "run.csv"])
    def test_a_line_is_there_or_not(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        make = sh.JSONLProgressWriter if name == "run.jsonl" else sh.CSVProgressWriter
        writer = make(path)
        record = sh.train.Record("training", 1, 3, {"loss": 0.5, "num_samples": 3})
        with no_room(30), pytest.raises(OSError, match="File too large; the lines") as caught:
            writer.write(record)
        assert caught.value.filename == str(path)
        writer.write(record)
        before = path.read_bytes()
        with no_room(len(before) + 7), pytest.raises(OSError, match="before this one are kept"):
            writer.write(record)
        assert path.read_bytes() == before
        writer.write(record)
        with path.open(newline="") as file:
            found = list(csv.DictReader(file)) if name == "run.csv" else list(file)
        assert found[0] == found[1]
        assert len(found) == 2

    def test_a_spike_report_stays_the_one_that_was_there(self, tmp_path: Path) -> None:
        path = tmp_path / "spikes.json"
        spike = sh.train.Spike(1, 0, 3, figures={"loss": np.inf}, z_scores={"loss": np.inf})
        sh.train.SpikeReport((spike,)).write(path)
        before = path.read_bytes()
        with no_room(50), pytest.raises(OSError, match="report that was there stays") as caught:
            sh.train.SpikeReport((spike, spike)).write(path)
        assert caught.value.filename.startswith(str(path))
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


class TestLocks:
    def test_a_folder_that_is_gone_hides_no_error_of_a_session(self, tmp_path: Path) -> None:
        saved = tmp_path / "deep" / "saved"

        def fails(model: Any, minibatch: sh.Minibatch) -> Any:
            for path in saved.iterdir():
                path.unlink()
            saved.rmdir()
            saved.parent.rmdir()
            saved.parent.write_text("a file in place of its folder")
            raise ZeroDivisionError

        session = sh.training_session(
            line_trainer(criterion=fails),
            source_of_lengths(LENGTHS),
            12,
            max_samples=90,
            checkpoint_config=sh.CheckpointConfig(saved, frequency=100),
        )
        with pytest.raises(ZeroDivisionError):
            session.train()
