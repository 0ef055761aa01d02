"""Every section of the page on formats serves a minibatch of the files that it names."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read import format_corpora

import sweephand as sh

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
SECTIONS = [
    section
    for section in re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    if "```python" in section
]
FOLDERS = {
    "arrayrecord": format_corpora.array_records,
    "bare": format_corpora.raw_tokens,
    "csv": format_corpora.csv_rows,
    "datatrove": format_corpora.datatrove,
    "hdf5": format_corpora.hdf5,
    "htk": format_corpora.htk_archives,
    "jsonl": format_corpora.jsonl,
    "lance": format_corpora.lance_dataset,
    "mds": format_corpora.mds,
    "megatron": format_corpora.megatron,
    "mlf": format_corpora.mlf,
    "npy": format_corpora.npy,
    "parquet": format_corpora.parquet,
    "text": format_corpora.text_lines,
    "webdataset": format_corpora.webdataset,
    "zarr": format_corpora.zarr,
}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.partition("\n")[0])
def test_a_format_is_served_as_its_section_shows(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    for name in FOLDERS.keys() & set(re.findall(r'"(\w+)[/"]', section)):
        write = FOLDERS[name]
        (tmp_path / name).mkdir()
        write(tmp_path / name, format_corpora.corpus_for(write))
    names: dict[str, Any] = {"np": np, "sh": sh}
    for code in re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
        exec(code, names)
    corpora = [value for value in names.values() if isinstance(value, sh.Deserializer)]
    assert corpora
    for corpus in corpora:
        assert sh.MinibatchSource(corpus).next_minibatch(30).num_samples
