"""Pictures in class folders and map files: found, listed once, labelled, told if damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.deserializers import image_folder

CLASSES = {
    "cat": ["1.png", "deep/er/2.jpg"],
    "ant": ["b.PNG", "a.webp", "notes.txt"],
    "dog": ["x.bmp"],
}
NAMES = ["ant/a.webp", "ant/b.PNG", "cat/1.png", "cat/deep/er/2.jpg", "dog/x.bmp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, files in CLASSES.items():
        for file in [*files, ".hidden.png"]:
            path = tmp_path / "data" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"{name}/{file}".encode())
    (tmp_path / "data" / ".git").mkdir()
    return tmp_path / "data"


def served(corpus: sh.Deserializer, **options: Any) -> sh.Minibatch:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options) as source:
        return source.next_minibatch(10**6)


@pytest.mark.parametrize("opened", [sh.ImageFolder, sh.open])
def test_folders_are_classes_in_the_order_of_their_names(folder: Path, opened: Any) -> None:
    corpus = opened(folder)
    assert corpus.classes == ["ant", "cat", "dog"]
    assert corpus.class_to_idx == {"ant": 0, "cat": 1, "dog": 2}
    assert len(corpus) == 5
    assert "5 sequences; 3 classes, image, label" in repr(corpus)
    minibatch = served(corpus)
    assert minibatch.ids == NAMES
    assert [one.decode() for one in minibatch["image"].values] == NAMES
    assert minibatch["label"].values.tolist() == [0, 0, 1, 1, 2]


def test_only_the_streams_that_are_asked_for_come(folder: Path) -> None:
    streams = sh.StreamDefs(y=sh.StreamDef(field="label", dtype="int32"))
    corpus = sh.ImageFolder(folder, streams)
    (folder / "dog" / "x.bmp").unlink()
    minibatch = served(corpus)
    assert minibatch["y"].values.dtype == np.int32
    with pytest.raises(ValueError, match="there is no field 'path', there are: image, label"):
        sh.ImageFolder(folder, ["path"])


def test_a_class_that_has_not_changed_is_not_listed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[str] = []
    scan = image_folder._scan

    def watch(unit: Any, advance: Any) -> Any:
        scanned.append(unit.name)
        return scan(unit, advance)

    monkeypatch.setattr(image_folder, "_scan", watch)
    sh.ImageFolder(folder)
    assert sorted(scanned) == ["ant", "cat", "dog"]
    assert list((folder / ".sweephand").iterdir())
    sh.ImageFolder(folder)
    assert len(scanned) == 3
    (folder / "dog" / "y.png").write_bytes(b"y")
    (folder / "cat" / "deep" / "er" / "3.jpg").write_bytes(b"3")
    corpus = sh.ImageFolder(folder)
    assert sorted(scanned[3:]) == ["cat", "dog"]
    assert len(served(corpus).ids) == 7
    assert len(sh.ImageFolder(folder, index=None)) == 7
    assert len(scanned) == 8


def test_a_picture_that_is_gone_is_told_and_counted(folder: Path) -> None:
    corpus = sh.ImageFolder(folder)
    (folder / "cat" / "1.png").unlink()
    with pytest.raises(sh.DataError, match="cannot be read") as raised:
        served(corpus)
    assert raised.value.sequence == "cat/1.png"
    assert str(raised.value.file).endswith("cat/1.png")
    assert served(corpus, max_errors=1).ids == [name for name in NAMES if name != "cat/1.png"]


def test_pictures_are_decoded_where_the_stream_says_so(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(40):
        path = tmp_path / f"{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        image.new("RGB", (8 + number, 9), (number, 0, 0)).save(path)
    streams = {"image": sh.StreamDef(decode="image", shape=(3, 6, 7)), "label": sh.StreamDef()}
    with sh.MinibatchSource(sh.ImageFolder(tmp_path, streams), max_sweeps=1) as source:
        minibatch = source.next_minibatch(40)
        state = source.get_checkpoint_state()
    assert minibatch["image"].values.shape == (40, 3, 6, 7)
    reds = minibatch["image"].values[:, 0, 0, 0]
    assert sorted(reds.tolist()) == list(range(40))
    assert (reds % 2 == minibatch["label"].values).all()
    (tmp_path / "1" / "39.png").write_bytes(b"no picture")
    corpus = sh.ImageFolder(tmp_path).map(sh.decode.image("image", (6, 7)))
    with pytest.raises(sh.DataError, match="no picture") as raised:
        served(corpus)
    assert raised.value.sequence == "1/39.png"
    (tmp_path / "1" / "39.png").unlink()
    with (
        sh.MinibatchSource(sh.ImageFolder(tmp_path, streams)) as source,
        pytest.raises(sh.StateError),
    ):
        source.restore_from_checkpoint(state)


def test_a_map_file_of_cntk_lists_paths_and_labels(folder: Path, tmp_path: Path) -> None:
    path = folder / "map.txt"
    path.write_text("cat/1.png\t3\n.../dog/x.bmp\t0\n\nkey\tant/a.webp\t3\r\ncat/1.png\t1\n")
    for corpus in (sh.ImageFolder(path), sh.open(path)):
        minibatch = served(corpus)
        assert minibatch["label"].values.tolist() == [3, 0, 3, 1]
        assert [one.decode() for one in minibatch["image"].values] == [
            *("cat/1.png", "dog/x.bmp", "ant/a.webp", "cat/1.png")
        ]
        assert minibatch.ids == [f"map.txt__{n}" for n in range(4)]
    for wrong in ("cat/1.png three", "cat/1.png\t9999999999999"):
        path.write_text(f"cat/1.png\t3\n{wrong}\n")
        with pytest.raises(sh.DataError, match="not path<TAB>label") as raised:
            sh.ImageFolder(path)
        assert raised.value.line == 2
    path.write_text("\n")
    with pytest.raises(sh.DataError, match="lists no picture"):
        sh.ImageFolder(path)


def test_what_is_no_folder_of_classes_is_told(folder: Path, tmp_path: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match="there is no picture in 'empty'"):
        sh.ImageFolder(folder)
    with pytest.raises(ValueError, match="holds no folders"):
        sh.ImageFolder(folder / "ant")
    with pytest.raises(FileNotFoundError):
        sh.ImageFolder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no format that is known here"):
        sh.open(folder / "dog")


@pytest.mark.parametrize("opened", [sh.ImageFolder, sh.open])
def test_splits_of_classes_are_refused_naming_what_to_open(folder: Path, opened: Any) -> None:
    data = folder.parent / "splits"
    for name in ("Train", "val"):
        shutil.copytree(folder, data / name)
    with pytest.raises(ValueError, match="holds the splits Train, val:") as caught:
        opened(data)
    assert repr(str(data / "Train")) in str(caught.value)
