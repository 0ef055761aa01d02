"""Contradictions in a footer are errors: pyarrow would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.read.thrift_edit import Message

import sweephand as sh

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write_wide(path: Path, **options: Any) -> None:
    """Rows of every kind that can be served, in two row groups, the last one shorter."""
    numbers = np.arange(41)
    table = pa.table(
        {
            "id": numbers,
            "x": numbers.astype(np.float32),
            "tokens": pa.array(
                [[n, n + 1, 7][: n % 3 + 1] for n in numbers], pa.list_(pa.int32())
            ),
            "text": [f"text {n % 7}" for n in numbers],
        }
    )
    required = pa.field("id", pa.int64(), nullable=False)
    schema = pa.schema([required, *list(table.schema)[1:]])
    pq.write_table(table.cast(schema), path, row_group_size=21, **options)


def served(path: Path) -> list[list[object]]:
    names = ("id", "x", "tokens", "text")
    streams = sh.StreamDefs(**{name: sh.StreamDef() for name in names})
    corpus = sh.ParquetDeserializer(path, streams, index=None)
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, num_threads=0) as source:
        batches = list(source.minibatches(200))
    return [[batch[name].values.tolist() for name in names] for batch in batches]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "write_statistics": False, "compression": "none"},
    ],
    ids=["usual", "second pages", "plain"],
)
def test_no_number_of_the_footer_that_is_off_by_one_changes_the_data(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "good.parquet"
    write_wide(path, **options)
    whole = served(path)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    message = Message(content[begin:-8])
    assert message.with_number((), 0) == content[begin:-8]
    silent = []
    for place, number in extent.sample(list(message.numbers()), 60):
        for wrong in (number - 1, number + 1):
            footer = message.with_number(place, wrong)
            other = tmp_path / "other.parquet"
            size = len(footer).to_bytes(4, "little")
            other.write_bytes(content[:begin] + footer + size + b"PAR1")
            try:
                if served(other) != whole:
                    silent.append((place, number, wrong))
            except sh.DataError:
                pass
    assert silent == []


def test_a_row_group_that_loses_a_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_wide(path)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    last_rows = (4, 1, 3)  # row groups, the last of them, its number of rows
    footer = Message(content[begin:-8]).with_number(last_rows, 19)
    path.write_bytes(content[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(sh.DataError, match="row group 1 of 19 rows"):
        served(path)


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    code = (
        "import sys, sweephand as sh\n"
        "sh.MinibatchSource(sh.ParquetDeserializer('a.parquet')).next_minibatch(2)\n"
        "assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
