"""The formats of this folder, a row each, which entry points name; see `Format`."""

from __future__ import annotations

from sweephand.extend import Format

_OURS = "sweephand.ext.formats"
_BOM = rb"\xef\xbb\xbf"

MDS = Format(
    "MDS",
    f"{_OURS}.mds:MDSDeserializer",
    files=r"index\.json",
    holds=r"index\.json",
    confirm=f"{_OURS}.mds:is_mds",
    before="JSON lines",
)
LANCE = Format(
    "Lance",
    f"{_OURS}.lance:LanceDeserializer",
    holds="_versions/",
    confirm=f"{_OURS}.lance:is_lance",
    is_alone=True,
    before="pictures",
)
ZARR = Format(
    "Zarr",
    f"{_OURS}.zarr_stores:open_stores",
    holds=r"zarr\.json|\.zgroup|\.zarray",
    confirm=f"{_OURS}.zarr_stores:is_zarr",
    joins_folders=True,
    before="pictures",
)
LEROBOT = Format(
    "LeRobot",
    f"{_OURS}.lerobot:LeRobotDeserializer",
    holds="meta/",
    confirm=f"{_OURS}.lerobot:is_lerobot",
    is_alone=True,
    before="pictures",
)
TFDS = Format(
    "TFDS folder",
    "sweephand.ext.tfds.prepared:open_folders",
    holds=r"dataset_info\.json/?|\.config/?|\d+\.\d+\.\d+/",
    confirm="sweephand.ext.tfds.prepared:is_dataset",
    before="pictures",
)
HDF5 = Format(  # a user block changes the first bytes
    "HDF5",
    f"{_OURS}.hdf5:HDF5Deserializer",
    files=r"(?i).+\.(h5|hdf5|hdf)",
    magic=rb"\x89HDF\r\n\x1a\n",
)
ARRAY_RECORD = Format(
    "ArrayRecord",
    f"{_OURS}.array_record:ArrayRecordDeserializer",
    files=r".*\.array_?record(-\d+-of-\d+)?",
    magic=rb"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f",
)
MLF = Format(
    "MLF", f"{_OURS}.mlf:open_labels", magic=b"(?:" + _BOM + b")?#!MLF!#", before="bare numbers"
)
HTK = Format("HTK", f"{_OURS}.htk:open_features", files=r"(?i).+\.scp", before="bare numbers")
