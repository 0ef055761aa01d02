"""Every array of a minibatch lies in memory as its shape says: kernels read it by that."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh

LAYOUTS = [
    sh.Ragged(),
    sh.Frames(),
    sh.Padded(),
    sh.Packed(64),
    sh.Packed(64, micro_batch_rows=2, cu_seqlens_capacity=200),
    sh.Bucketed([8, 32]),
    sh.TruncatedBPTT(16),
]
METHODS = {"labels", "loss_mask", "asarray"}


def arrays_of(owner: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the public arrays of an object, and what it makes without arguments."""
    for name in dir(type(owner)):
        try:
            value = None if name.startswith("_") else getattr(owner, name)
            value = value() if name in METHODS else value
        except (AttributeError, TypeError, ValueError):
            continue  # of another layout, or kind of stream
        if isinstance(value, np.ndarray):
            yield name, value


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_arrays_are_contiguous(layout: sh.Layout) -> None:
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 33, 300)
    streams: dict[str, Any] = {"tokens": [draw.integers(0, 30, n) for n in lengths]}
    definitions = {"tokens": sh.StreamDef()}
    if layout.may_cut is False:
        streams["patches"] = [draw.random((n % 5, 3)) for n in lengths]
        definitions["patches"] = sh.StreamDef(carried=True)
    corpus = sh.ArrayDeserializer(streams, sh.StreamDefs(definitions))
    minibatch = sh.MinibatchSource(corpus, layout=layout, num_lanes=4).next_minibatch(512)
    owners = [minibatch, *minibatch.values()]
    if layout.micro_batch_rows:
        for part in minibatch.micro_batches():
            owners += [part, *part.values()]
    found = [(name, array) for owner in owners for name, array in arrays_of(owner)]
    assert len(found) >= 4
    wrong = {name for name, array in found if not array.flags.c_contiguous}
    assert not wrong
