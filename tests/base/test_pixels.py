"""Pixels are copied as NumPy copies them, wherever they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweephand import _core
from sweephand.ext.vision.images.pixels import packed, planes

RNG = np.random.default_rng(0)
WHOLE = RNG.integers(0, 256, (9, 700, 4), np.uint8)  # wider than what is turned at a time
VIEWS = {
    "rows of Pillow": WHOLE[..., :3],
    "a crop": WHOLE[2:7, 3:300, :3],
    "mirrored": WHOLE[:, ::-1, :3],
    "upside down": WHOLE[::-1, ::-1, :3],
    "the upper channels": WHOLE[..., 1:],
    "four channels": WHOLE[:, 5:],
    "one pixel": WHOLE[3:4, 5:6, :3],
    "every other one": WHOLE[::2, ::3, :3],
    "turned": WHOLE[..., :3].transpose(1, 0, 2),
    "packed": np.ascontiguousarray(WHOLE[..., :3]),
    "no pixel": WHOLE[:, :0, :3],
    "one channel": WHOLE[..., 2:3],
}


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16", "S3"])
@pytest.mark.parametrize("case", VIEWS)
def test_planes_and_packed_pixels_are_those_of_numpy(case: str, dtype: str) -> None:
    view = VIEWS[case]
    if dtype != "u1":
        view = view.astype(dtype)[::-1]
    assert (planes([view, view])[1] == view.transpose(2, 0, 1)).all()
    copied = packed([view])
    assert (copied[0] == view).all()
    assert copied.flags.c_contiguous


def test_room_of_another_size_is_refused() -> None:
    for copy in (_core.base.copy_planes, _core.base.copy_packed):
        with pytest.raises(ValueError, match="three axes"):
            copy(WHOLE, np.empty(WHOLE.nbytes - 1, np.uint8))
        with pytest.raises(ValueError, match="three axes"):
            copy(WHOLE[0], np.empty(WHOLE[0].nbytes, np.uint8))


def test_bytes_of_arrow_are_seen_where_they_lie_and_nothing_else_is() -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    fours = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(range(12), pyarrow.uint8()), 4)
    schema, array = fours.__arrow_c_array__()
    assert _core.read.arrow_bytes(schema, array).tolist() == list(range(12))
    with pytest.raises(ValueError, match="four bytes"):  # it was taken
        _core.read.arrow_bytes(schema, array)
    missing = pyarrow.array([[1, 2, 3, 4], None], fours.type)
    wider = pyarrow.array([[1, 2, 3, 4]], pyarrow.list_(pyarrow.uint16(), 4))
    for other in (pyarrow.array([1, 2]), fours[1:], missing, wider):
        with pytest.raises(ValueError, match="four bytes"):
            _core.read.arrow_bytes(*other.__arrow_c_array__())
    with pytest.raises(ValueError, match="PyCapsule"):
        _core.read.arrow_bytes(array, schema)
