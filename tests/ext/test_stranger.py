"""A package that is none of ours adds a format, a command and an activity: see `stranger`."""

from __future__ import annotations

import itertools
import json
import os
import struct
import subprocess
import sys
import tomllib
import venv
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ext.stranger.wavelog.records import MAGIC
from tests.read.http_store import CLIENTS, serve_to

import sweephand as sh

PACKAGE = Path(__file__).parent / "stranger"
HEIGHTS = [np.arange(n, n + 1 + n % 4, dtype=np.float32) for n in range(40)]


def wheel(folder: Path) -> Path:
    """Make the wheel of the package, as any build backend does, without a download."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    name = f"{project['name']}-{project['version']}"
    path = folder / f"{name}-py3-none-any.whl"
    points = [
        f"[{group}]\n" + "".join(f"{one} = {place}\n" for one, place in those.items())
        for group, those in project["entry-points"].items()
    ]
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "\n".join(points),
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as packed:
        for module in sorted((PACKAGE / "wavelog").glob("*.py")):
            packed.write(module, f"wavelog/{module.name}")
        for entry, text in about.items():
            packed.writestr(f"{name}.dist-info/{entry}", text)
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the package, and what is installed here."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=os.name != "nt")
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    here = [one for one in sys.path if one.endswith(("site-packages", "dist-packages"))]
    lines = [f"import site; site.addsitedir({one!r})\n" for one in here]
    (packages / "here.pth").write_text("".join(lines))
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "-q")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *options]
    subprocess.run([*pip, wheel(folder)], check=True)
    return python


@pytest.fixture
def installed(python: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See the packages of the new environment in this process, too."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    monkeypatch.syspath_prepend(packages)
    yield
    for name in [one for one in sys.modules if one.split(".")[0] == "wavelog"]:
        del sys.modules[name]


def log_of(rows: list[NDArray[np.float32]]) -> bytes:
    records = [one.astype("<f4").tobytes() for one in rows]
    heads = [struct.pack("<II", len(one), zlib.crc32(one)) for one in records]
    return MAGIC + b"".join(itertools.chain(*zip(heads, records, strict=True)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 40 waves."""
    path = tmp_path / "data" / "monday.waves"
    path.parent.mkdir()
    path.write_bytes(log_of(HEIGHTS))
    return path


def rows_of(corpus: sh.Deserializer, **options: Any) -> list[list[float]]:
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options)
    return [one.tolist() for one in source.next_minibatch(1000)["height"].as_sequences()]


ALL = [one.tolist() for one in HEIGHTS]


def test_a_format_is_recognised_in_a_file_and_in_a_folder_and_scanned_once(
    installed: None, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_of(sh.open(log)) == ALL
    log.with_name("tuesday.waves").write_bytes(log_of(HEIGHTS[:3]))
    assert rows_of(sh.open(log.parent)) == ALL + ALL[:3]
    monkeypatch.delattr(f"{type(sh.open(log)).__module__}.WaveDeserializer.find_records")
    assert rows_of(sh.open(log)) == ALL, "by the index that is kept beside it"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_format_is_recognised_at_a_url_and_read_by_few_requests(
    installed: None, log: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(log.parent / "cache"))
    with serve_to(client, log.parent) as store:
        assert rows_of(sh.open(f"{store.url}/monday.waves")) == ALL
        assert len(store.fetched) <= 6
        store.fetched.clear()
        assert rows_of(sh.open(f"{store.url}/monday.waves")) == ALL  # with the index
        assert len(store.fetched) <= 4


def test_damage_is_named_and_counted_and_leaves_the_numbers_of_other_records(
    installed: None, log: Path
) -> None:
    content = bytearray(log.read_bytes())
    place = content.index(HEIGHTS[7].tobytes())
    content[place] ^= 1
    log.write_bytes(content[:-1])
    with pytest.raises(sh.DataError, match="the checksum is wrong") as caught:
        sh.MinibatchSource(sh.open(log))
    found = caught.value
    assert (found.file, found.offset, found.sequence) == (str(log), place, 7)
    with pytest.raises(sh.DataError, match="the record is cut"):
        sh.MinibatchSource(sh.open(log), max_errors=1)
    left = [row for number, row in enumerate(ALL[:-1]) if number != 7]
    assert rows_of(sh.open(log), max_errors=2) == left
    source = sh.MinibatchSource(sh.open(log), max_errors=2, max_sweeps=1)
    numbers = sorted(int(one.rpartition("__")[2]) for one in source.next_minibatch(1000).ids)
    assert numbers == [number for number in range(39) if number != 7]


def test_a_format_is_shuffled_in_windows_and_goes_on_to_the_bit(
    installed: None, log: Path
) -> None:
    def source() -> sh.MinibatchSource:
        return sh.MinibatchSource(
            sh.open(log), randomization_seed=3, randomization_window_in_samples=30, max_sweeps=2
        )

    whole = source()
    parts = [one["height"].values.tolist() for one in whole.minibatches(16)]
    twice = sorted(height for row in 2 * ALL for height in row)
    assert sorted(itertools.chain(*parts)) == twice
    assert parts[0] != list(itertools.chain(*ALL))[: len(parts[0])]
    first, second = source(), source()
    before = [first.next_minibatch(16)["height"].values.tolist() for _ in range(5)]
    second.restore_from_checkpoint(json.loads(json.dumps(first.get_checkpoint_state())))
    after = [one["height"].values.tolist() for one in second.minibatches(16)]
    assert before + after == parts


def test_a_command_is_shown_run_and_answers_in_json(python: Path, log: Path) -> None:
    def sweephand(*words: object) -> str:
        command = [python, "-m", "sweephand", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "how many waves a log has" in sweephand("--help")
    assert json.loads(sweephand("waves", log, "--json")) == {
        **{"ok": True, "waves": 40, "highest": 42.0}
    }


def test_an_activity_is_saved_and_restored_with_checkpoints(
    installed: None, log: Path, tmp_path: Path
) -> None:
    from wavelog.activity import HighestWave

    def train(max_samples: int) -> Any:
        model = {"mean": np.zeros(1, np.float32)}

        def error_of(model: Any, minibatch: Any) -> Any:
            error = model["mean"] - minibatch["height"].values
            return float(error @ error), [2 * error.sum(keepdims=True)]

        watch = HighestWave()
        falling = sh.ArrayDeserializer({"height": np.arange(9, 0, -1, dtype=np.float32)})
        source = sh.MinibatchSource(falling, randomize=False)
        trainer = sh.Trainer(model, error_of, sh.numpy.SGD(model, 0.01))
        sh.training_session(
            trainer,
            source,
            1,
            max_samples=max_samples,
            checkpoint_config=sh.CheckpointConfig(tmp_path / "run"),
            activities=[watch],
        ).train()
        return watch

    assert train(4).height == 9
    assert train(8).height == 9, "the samples after the restart are lower"
