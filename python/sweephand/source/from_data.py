"""Arrays in their order, as CNTK's source of the same name delivers them."""

from __future__ import annotations

from collections.abc import Mapping

from sweephand.deserializers.array import ArrayDeserializer
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.source import MinibatchSource


class MinibatchSourceFromData(MinibatchSource):
    """Deliver arrays in their order, again and again, never across the end of the data.

    Parameters
    ----------
    data_streams : dict
        Stream name to data, as `ArrayDeserializer` takes them.
    max_samples : int
        End of the timeline, in samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSourceFromData({"x": np.arange(5)}, max_samples=10)
    >>> [minibatch["x"].values.tolist() for minibatch in source.minibatches(3)]
    [[0, 1, 2], [3, 4], [0, 1, 2], [3, 4]]
    """

    _crosses_sweeps = False

    def __init__(
        self, data_streams: Mapping[str, object], max_samples: int = INFINITELY_REPEAT
    ) -> None:
        super().__init__(
            ArrayDeserializer(data_streams), max_samples=max_samples, randomize=False
        )
