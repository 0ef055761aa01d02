"""Another package adds a format by an entry point: the one that the guide shows."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand.deserializers.open_path import look_at

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
BLOCKS = re.findall(r"^```(?:python|toml)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def install(module: str, entry_points: dict[str, str], folder: Path) -> None:
    """Lay out a package as an installer does."""
    (folder / "readings.py").write_text(module)
    about = folder / "readings-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: readings\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (about / "entry_points.txt").write_text("\n".join(["[sweephand.formats]", *lines, ""]))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of readings, with the package of the guide installed."""
    (module,) = (block for block in BLOCKS if "READINGS = Format(" in block)
    (project,) = (block for block in BLOCKS if "sweephand.formats" in block)
    packages = tmp_path / "packages"
    packages.mkdir()
    points = tomllib.loads(project)["project"]["entry-points"]["sweephand.formats"]
    install(module, points, packages)
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, "readings", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        values = np.arange(number, number + 4, dtype=np.float32)
        (folder / f"day-{number}.dat").write_bytes(b"READINGS" + values.tobytes())
    return folder


def values_of(corpus: sh.Deserializer) -> list[float]:
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    return source.next_minibatch(100)["value"].values.tolist()


def test_a_file_and_a_folder_of_another_package_are_opened(data: Path) -> None:
    assert values_of(sh.open(data / "day-1.dat")) == [1, 2, 3, 4]
    (data / "README.md").write_text("about the readings")
    assert values_of(sh.open(data)) == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]
    assert look_at(data).format.name == "readings"


def test_a_format_of_ours_comes_first(data: Path) -> None:
    path = data / "day-0.dat"
    path.rename(path.with_suffix(".csv"))
    assert look_at(path.with_suffix(".csv")).format.name == "CSV"


def test_what_nobody_recognises_names_the_formats_of_packages_too(data: Path) -> None:
    (data / "a.other").write_bytes(b"\0z")
    with pytest.raises(ValueError, match=r"no format that is known here: .*, readings"):
        look_at(data / "a.other")
    with pytest.raises(ValueError, match=r"3 files .* of readings and 1 file \(a.other\)"):
        look_at(data)


def test_a_folder_can_be_a_corpus_of_its_own(data: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    with (packages / "readings.py").open("a") as module:
        module.write('STORE = Format("store", "readings:open_readings", holds="store.bits")\n')
    points = packages / "readings-1.0.dist-info" / "entry_points.txt"
    points.write_text("[sweephand.formats]\nstore = readings:STORE\n")
    (data / "store.bits").write_bytes(b"zz")
    found = look_at(data)
    assert (found.format.name, list(found.paths)) == ("store", [data])


def test_an_entry_point_that_is_no_format_is_named(data: Path, tmp_path: Path) -> None:
    points = tmp_path / "packages" / "readings-1.0.dist-info" / "entry_points.txt"
    points.write_text("[sweephand.formats]\nwrong = readings:open_readings\n")
    with pytest.raises(TypeError, match=r"wrong = 'readings:open_readings' .* got function"):
        look_at(data)
