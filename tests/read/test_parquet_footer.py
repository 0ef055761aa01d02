"""Contradictions in a footer are errors: pyarrow would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent

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
def test_no_byte_of_the_footer_that_is_off_changes_the_data(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """By two, as numbers are stored that are off by one."""
    path = tmp_path / "good.parquet"
    write_wide(path, **options)
    whole = served(path)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    silent = []
    for place in extent.sample(range(begin, len(content) - 8), 60):
        for by in (-2, 2):
            changed = bytearray(content)
            changed[place] = (changed[place] + by) % 256
            other = tmp_path / "other.parquet"
            other.write_bytes(changed)
            try:
                if served(other) != whole:
                    silent.append((place, by))
            except sh.DataError:
                pass
    assert silent == []


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    code = (
        "import sys, sweephand as sh\n"
        "sh.MinibatchSource(sh.ParquetDeserializer('a.parquet')).next_minibatch(2)\n"
        "assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
