"""Pictures, sounds and arrays of Hugging Face data sets are served as they are stored."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import sweephand as sh

pa = pytest.importorskip("pyarrow")

MEDIA = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def served(corpus: sh.Deserializer, **options: Any) -> sh.Minibatch:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options) as source:
        return source.next_minibatch(100)


def table(contents: list[bytes | None]) -> Any:
    rows = [{"bytes": one, "path": f"{n}.png"} for n, one in enumerate(contents)]
    return pa.table({"image": pa.array(rows, MEDIA), "label": list(range(len(rows)))})


@pytest.mark.parametrize("kind", ["table", "parquet"])
def test_stored_media_are_their_bytes(kind: str, tmp_path: Path) -> None:
    rows = table([b"one", b"three", b""])
    corpus: sh.Deserializer = sh.ArrowDeserializer(rows)
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(rows, tmp_path / "x.parquet")
        corpus = sh.open(tmp_path / "x.parquet")
    assert served(corpus)["image"].values.tolist() == [b"one", b"three", b""]
    streams = sh.StreamDefs(x=sh.StreamDef(field="image.bytes"))
    assert served(sh.ArrowDeserializer(rows, streams))["x"].values.tolist()[0] == b"one"


def test_sequences_of_stored_media_are_sequences_of_bytes() -> None:
    rows = [[{"bytes": b"a", "path": None}], [{"bytes": b"b", "path": None}] * 2]
    corpus = sh.ArrowDeserializer(pa.table({"film": pa.array(rows, pa.list_(MEDIA))}))
    assert [list(one) for one in served(corpus)["film"].as_sequences()] == [[b"a"], [b"b"] * 2]


def test_a_row_that_has_only_a_path_is_told() -> None:
    corpus = sh.ArrowDeserializer(table([b"one", None]))
    with pytest.raises(sh.DataError, match="has no bytes, if anything the path of a file"):
        served(corpus)
    assert served(corpus, max_errors=1)["image"].values.tolist() == [b"one"]


def test_a_data_set_of_pictures_is_decoded_where_the_stream_says_so(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    datasets = pytest.importorskip("datasets")
    pictures = []
    for n in range(4):
        file = io.BytesIO()
        image.new("RGB", (5, 4), (n, 0, 0)).save(file, "PNG")
        pictures.append({"bytes": file.getvalue(), "path": None})
    data = datasets.Dataset.from_dict(
        {
            "image": pictures,
            "label": [0, 1, 2, 3],
            "grid": [[[1.0, n], [3.0, 4.0]] for n in range(4)],
        },
        features=datasets.Features(
            image=datasets.Image(),
            label=datasets.ClassLabel(4),
            grid=datasets.Array2D((2, 2), "float32"),
        ),
    )
    streams = sh.StreamDefs(
        image=sh.StreamDef(decode="image"), label=sh.StreamDef(), grid=sh.StreamDef()
    )
    data.save_to_disk(tmp_path / "saved")
    for corpus in (sh.ArrowDeserializer(data, streams), sh.open(tmp_path / "saved", streams)):
        minibatch = served(corpus)
        assert minibatch["image"].values.shape == (4, 3, 4, 5)
        assert minibatch["image"].values[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
        assert minibatch["grid"].values.shape == (4, 2, 2)
        assert minibatch["grid"].values[:, 0, 1].tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="got IterableDataset"):
        sh.ArrowDeserializer(data.to_iterable_dataset())
    with pytest.raises(TypeError, match="give one of them"):
        sh.ArrowDeserializer(datasets.DatasetDict(train=data))
