"""Rows that a format counts and reads in runs: what is lost with a run, and what is learnt."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.extend import (
    ColumnData,
    Columns,
    KnownRows,
    RowRun,
    RunDeserializer,
    SampleType,
    SourceFile,
    offsets_of,
)


class Runs(RunDeserializer):
    """Rows of integers, in a file of JSON: a list of runs; a run that ends with None is bad."""

    format = "runs 1"
    knows = False

    def guess_streams(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def find_rows(self, file: SourceFile) -> KnownRows:
        counts = [len(run) for run in self.runs(file)]
        kinds = {"x": SampleType("int64", is_ragged=True)} if self.knows else {}
        return KnownRows(offsets_of(counts), 8, kinds)

    def read_rows(self, run: RowRun) -> Columns:
        runs = self.runs(run.file)
        borders = offsets_of([len(one) for one in runs]).tolist()
        rows: list[list[int]] = []
        for one, (begin, end) in zip(runs, pairwise(borders), strict=True):
            if run.begin <= begin < end <= run.end:
                if one[-1] is None:
                    raise sh.DataError("the run is bad", run.file.path, sequence=begin)
                rows += one
        values = np.array([*chain(*rows)], np.int64)
        offsets = offsets_of([len(one) for one in rows])
        return [ColumnData(values, values.dtype, (), len(values), offsets)], {}

    def runs(self, file: SourceFile) -> Any:
        return json.loads(file.read(0, file.size).tobytes())


ROWS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=4)


@given(
    files=st.lists(
        st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=6), min_size=1, max_size=3
    ),
    unit_bytes=st.sampled_from([0, 8, 20, 1000]),
    knows=st.booleans(),
)
def test_rows_of_bad_runs_alone_are_lost(
    files: Any, unit_bytes: int, knows: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("runs")
    for number, runs in enumerate(files):
        text = json.dumps([[*rows, None] if is_bad else rows for rows, is_bad in runs])
        (folder / f"{number}.json").write_text(text)
    every = [*chain(*files)]
    wanted = [row for rows, is_bad in every if not is_bad for row in rows]

    class Here(Runs):
        pass

    Here.unit_bytes, Here.knows = unit_bytes, knows
    corpus = Here(f"{folder}/*.json", index=None)
    if not wanted:
        with pytest.raises(sh.DataError):
            sh.MinibatchSource(corpus, max_errors=99)
        return
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=99) as source:
        found = [
            one.tolist()
            for minibatch in source.minibatches(5)
            for one in minibatch["x"].as_sequences()
        ]
        assert found == wanted
        assert len(source.errors) == sum(is_bad for _, is_bad in every)


@pytest.mark.parametrize("length", [2**32, 2**63 + 5, 2**64 - 3])
def test_a_length_that_is_beyond_all_is_refused(length: int, tmp_path: Path) -> None:
    class Told(Runs):
        def find_rows(self, file: SourceFile) -> KnownRows:
            kinds = {"x": SampleType("int64", is_ragged=True)}
            lengths = {"x": np.array([1, length], np.uint64)}
            return KnownRows([0, 2], 8, kinds, lengths)

    (tmp_path / "a.runs").write_text("[[1, 2]]")
    with pytest.raises(sh.DataError, match="at most") as raised:
        sh.MinibatchSource(Told(tmp_path / "a.runs", index=None))
    assert (raised.value.stream, raised.value.sequence) == ("x", 1)
