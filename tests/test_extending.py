"""Another package adds a format, a command and a page: those that docs/extending.md shows."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand import cli
from sweephand.deserializers.open_path import look_at

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"^```(?:python|toml)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
MODULES = {
    "readings": "READINGS = Format(",
    "readings_command": "def add_options(",
    "readings_page": "class Page:",
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of readings, with the package of the page laid out as an installer does."""
    packages = tmp_path / "packages"
    about = packages / "readings-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: readings\nVersion: 1.0\n")
    (project,) = (block for block in BLOCKS if "entry-points" in block)
    points = tomllib.loads(project)["project"]["entry-points"]
    lines = [
        f"[{group}]\n{n} = {v}\n" for group, those in points.items() for n, v in those.items()
    ]
    (about / "entry_points.txt").write_text("".join(lines))
    for name, sign in MODULES.items():
        (module,) = (block for block in BLOCKS if sign in block)
        (packages / f"{name}.py").write_text(module)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(packages)
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        values = np.arange(number, number + 4, dtype=np.float32).tobytes()
        size = len(values).to_bytes(4, "little")
        (folder / f"day-{number}.dat").write_bytes(b"READINGS" + size + values)
    return folder


def values_of(corpus: sh.Deserializer) -> list[float]:
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    return source.next_minibatch(100)["value"].values.tolist()


def test_a_file_and_a_folder_of_another_package_are_opened(data: Path) -> None:
    assert values_of(sh.open(data / "day-1.dat")) == [1, 2, 3, 4]
    (data / "README.md").write_text("about the readings")
    assert values_of(sh.open(data)) == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]
    assert look_at(data).format.name == "readings"


def test_a_command_and_a_page_of_another_package_are_found(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.commands.cache_clear()
    try:
        assert cli.main(["readings", str(data), "--json"]) == 0
    finally:
        cli.commands.cache_clear()
    assert json.loads(capsys.readouterr().out) == {"ok": True, "readings": 12}
    minibatch = sh.MinibatchSource(sh.open(data)).next_minibatch(4)
    assert minibatch.show().html == "<p>4 readings</p>"


def test_a_format_of_ours_comes_first(data: Path) -> None:
    path = data / "day-0.dat"
    path.rename(path.with_suffix(".csv"))
    assert look_at(path.with_suffix(".csv")).format.name == "CSV"


def test_what_nobody_recognises_names_the_formats_of_packages_too(data: Path) -> None:
    (data / "a.other").write_bytes(b"\0z")
    with pytest.raises(ValueError, match=r"no format that is known here: .*, readings"):
        look_at(data / "a.other")
    with pytest.raises(ValueError, match=r"readings \(day-0.* no format .* \(a.other\)"):
        look_at(data)


def test_a_folder_can_be_a_corpus_of_its_own(data: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    with (packages / "readings.py").open("a") as module:
        module.write(
            'STORE = Format("store", "readings:ReadingsDeserializer", holds="store.bits")\n'
        )
    points = packages / "readings-1.0.dist-info" / "entry_points.txt"
    points.write_text("[sweephand.formats]\nstore = readings:STORE\n")
    (data / "store.bits").write_bytes(b"zz")
    found = look_at(data)
    assert (found.format.name, list(found.paths)) == ("store", [data])


# -- pages are found by entry points; without them a minibatch has its repr --


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> sh.MinibatchSource:
    """A source where nothing that is installed makes pages."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    streams = {"<x>": [np.arange(3), np.arange(2)], "y": np.arange(2)}
    return sh.MinibatchSource(sh.ArrayDeserializer(streams), max_sweeps=1)


def test_a_minibatch_without_pages_has_no_html(source: sh.MinibatchSource) -> None:
    assert source.next_minibatch(9)._repr_html_() is None


def test_to_show_without_pages_names_what_to_install(source: sh.MinibatchSource) -> None:
    with pytest.raises(ImportError, match="pip install sweephand"):
        source.show(9)
    with pytest.raises(ImportError, match=r"'minibatch' of sweephand\.pages"):
        source.next_minibatch(9).show()


def test_the_page_of_another_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("minibatch", "builtins:print", "sweephand.pages")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: (point,))
    corpus = sh.ArrayDeserializer({"y": np.arange(2)})
    assert sh.MinibatchSource(corpus).next_minibatch(1).show() is None
