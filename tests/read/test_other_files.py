"""Files that name other files: each is refused by its name, or served as it was asked for."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.rows import rows
from tests.read.written import write_mds

import sweephand as sh


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


def hdf5(folder: Path, write: Callable[[Any, Any], None]) -> Path:
    """A file with the array "x", beside one with "x" and "g/y" of other values."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "other.h5", "w") as file:
        file["x"] = file["g/y"] = np.arange(10, 14)
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = np.arange(4)
        write(h5py, file)
    return folder / "a.h5"


def virtual(h5py: Any, file: Any) -> None:
    layout = h5py.VirtualLayout((4,), dtype="int64")
    layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
    file.create_virtual_dataset("v", layout)


def virtual_offsets(h5py: Any, file: Any) -> None:
    virtual(h5py, file)
    file.move("v", "x_offsets")


def external_link(h5py: Any, file: Any) -> None:
    file["v"] = h5py.ExternalLink("other.h5", "x")


def external_group(h5py: Any, file: Any) -> None:
    file["g"] = h5py.ExternalLink("other.h5", "g")
    file["v"] = h5py.SoftLink("/g/y")


def raw_bytes(h5py: Any, file: Any) -> None:
    file.create_dataset("v", (4,), "u1", external=[("/etc/hostname", 0, 4)])


def links(h5py: Any, file: Any) -> None:
    file["v"] = h5py.SoftLink("/x")


@pytest.mark.parametrize(
    ("write", "field", "reason"),
    [
        (virtual, "v", "virtual or external"),
        (virtual_offsets, "x", "virtual or external"),
        (external_link, "v", "'x' in 'other.h5'"),
        (external_group, "g/y", "'g' in 'other.h5'"),
        (external_group, "v", "a link to '/g/y'"),
        (links, "v", "a link to '/x'"),
        (raw_bytes, "v", "virtual or external"),
    ],
)
def test_an_array_of_another_file_is_refused(
    write: Callable[[Any, Any], None], field: str, reason: str, tmp_path: Path
) -> None:
    path = hdf5(tmp_path, write)
    with pytest.raises(sh.DataError, match=reason) as caught:
        rows(sh.HDF5Deserializer(path, {"s": sh.StreamDef(field=field)}))
    assert (caught.value.file, caught.value.stream) == (str(path), "s")


@pytest.mark.filterwarnings("ignore:.*left out.*:UserWarning")
@pytest.mark.parametrize("write", [virtual, external_link, external_group, raw_bytes])
def test_arrays_of_the_file_itself_are_served_beside_others(
    write: Callable[[Any, Any], None], tmp_path: Path
) -> None:
    path = hdf5(tmp_path, write)
    assert rows(sh.HDF5Deserializer(path)) == [{"x": [n]} for n in range(4)]


def test_a_summary_of_parquet_files_is_refused_by_the_name_of_one(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    told: list[Any] = []
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet", metadata_collector=told)
    told[0].set_file_path("../other/a.parquet")
    told[0].write_metadata_file(tmp_path / "_metadata")
    with pytest.raises(sh.DataError, match=r"in the file '\.\./other/a\.parquet'") as caught:
        rows(sh.ParquetDeserializer(tmp_path / "_metadata"))
    assert caught.value.file == str(tmp_path / "_metadata")
    told[0].set_file_path("own.parquet")  # as nobody writes it, but it is right
    content = (tmp_path / "a.parquet").read_bytes()
    told[0].write_metadata_file(tmp_path / "footer")
    footer = (tmp_path / "footer").read_bytes()[4:]
    size = int.from_bytes(content[-8:-4], "little") + 8
    (tmp_path / "own.parquet").write_bytes(content[:-size] + footer)
    assert rows(sh.ParquetDeserializer(tmp_path / "own.parquet")) == [{"x": [1]}, {"x": [2]}]


@pytest.mark.parametrize(
    "name", ["../o/shard.00000.mds", "/o/shard.00000.mds", "..", "a/../../b"]
)
def test_shards_of_mds_lie_beside_their_index(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    write_mds(folder, {"x": ("int64", 8)}, [[{"x": np.int64(n).tobytes()} for n in range(3)]])
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = name
    (folder / "index.json").write_text(json.dumps(index))
    shutil.move(folder / "shard.00000.mds", tmp_path / "shard.00000.mds")
    with pytest.raises(sh.DataError, match="is no name of a file"):
        rows(sh.MDSDeserializer(folder))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_of_zarr_lie_in_the_store(zarr_format: Any, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for name in ("a", "b"):
        group = zarr.open_group(tmp_path / name, mode="w", zarr_format=zarr_format)
        group.create_array("x", data=np.arange(3))
    with pytest.raises(sh.DataError, match=r"'\.\./b/x'"):
        rows(sh.ZarrDeserializer(tmp_path / "a", {"s": sh.StreamDef(field="../b/x")}))


@pytest.mark.parametrize("key", ["../b/x/c/0", "x/../../b", "/etc/hostname"])
def test_a_key_of_zarr_beyond_the_store_is_not_read(key: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    import asyncio

    from sweephand.ext.formats.zarr_stores import open_folder

    store = open_folder(tmp_path)
    with pytest.raises(sh.DataError, match="outside of it"):
        asyncio.run(store.get(key))


def test_files_of_lance_lie_in_the_dataset(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    import pyarrow as pa

    dataset = lance.write_dataset(pa.table({"x": [1, 2]}), str(tmp_path / "a.lance"))
    dataset.shallow_clone(str(tmp_path / "clone.lance"), dataset.version)
    with pytest.raises(sh.DataError, match="as of a shallow clone"):
        sh.LanceDeserializer(tmp_path / "clone.lance")
    told = dataset.get_fragments()[0].metadata.to_json()
    told["files"][0]["path"] = f"../../a.lance/data/{told['files'][0]['path']}"
    fragment = lance.fragment.FragmentMetadata.from_json(json.dumps(told))
    (tmp_path / "b.lance").mkdir()
    overwrite = lance.LanceOperation.Overwrite(dataset.schema, [fragment])
    lance.LanceDataset.commit(str(tmp_path / "b.lance"), overwrite)
    with pytest.raises(sh.DataError, match="which is outside of it"):
        sh.LanceDeserializer(tmp_path / "b.lance")


@pytest.mark.parametrize("name", ["../a.arrow", "/a.arrow", "b/a.arrow", ".."])
def test_files_of_a_saved_dataset_lie_in_its_folder(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(sh.DataError, match="are not in the folder"):
        sh.ArrowDeserializer(folder)


def test_the_template_of_tfds_names_files_of_the_folder(tmp_path: Path) -> None:
    from tests.ext.tfds.folders import tensor, tree, write_folder

    folder = tmp_path / "a"
    write_folder(folder, {"train": [[{"x": np.int64(1)}]]}, tree(x=tensor("int64")))
    (info,) = folder.rglob("dataset_info.json")
    told = json.loads(info.read_text())
    for split in told["splits"]:
        split["filepathTemplate"] = "../{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    info.write_text(json.dumps(told))
    with pytest.raises(sh.DataError, match="template"):
        sh.tfds.load(info.parent, "train")


@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_a_pickle_in_zarr_is_not_loaded(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zarr")
    pickles = pytest.importorskip("numcodecs.pickles")
    # As older versions of numcodecs do without being asked.
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    text, pickled = {"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}
    described: dict[str, Any] = {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C",
        "fill_value": "", "compressor": None, "filters": [text],
    }  # fmt: skip
    described[place] = pickled if place == "compressor" else [text, pickled]
    (tmp_path / "a" / "x").mkdir(parents=True)
    (tmp_path / "a" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "a" / "x" / ".zarray").write_text(json.dumps(described))
    (tmp_path / "a" / "x" / "0").write_bytes(pickle.dumps(Touch(tmp_path / "touched")))
    with pytest.raises(sh.DataError, match="pickled objects, which are never loaded"):
        rows(sh.ZarrDeserializer(tmp_path / "a", ["x"]))
    assert not (tmp_path / "touched").exists()


class Touch:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)
