"""The sequences of a corpus as maps are given them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.layouts import Ragged
from sweephand.maps.stream_sequences import StreamSequences
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch


class StoredStreams:
    """The streams of a corpus, of which batches are taken apart.

    Transforms wait: they are of minibatches, and of streams that keep their names.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        # Objects stay texts on their way to who calls the map.
        self._infos = {
            info.name: replace(info.used(transforms=()), is_object=False)
            for info in corpus.streams
        }
        self._objects = {info.name for info in corpus.streams if info.is_object}
        keys = {name: (number, info) for number, (name, info) in enumerate(self._infos.items())}
        self._contents = Contents(keys, Ragged(), corpus.ids)

    def sequences_of(self, batch: _core.engine.Batch) -> dict[str, StreamSequences]:
        """Return per stream the samples of every sequence of a ragged batch."""
        minibatch = Minibatch(batch, self._contents, None)
        streams = {name: minibatch[name] for name in self._infos}
        return {
            name: StreamSequences(
                stream.values, stream.offsets.tolist(), are_objects=name in self._objects
            )
            for name, stream in streams.items()
        }

    def names_of_size(self) -> dict[str, bool]:
        """Return the streams whose sizes are known without reading: one sample, or the size."""
        size_stream = self.corpus.size_stream
        ragged = [
            name for name, info in self._infos.items() if not (info.is_single or info.carried)
        ]
        sized = [size_stream] if size_stream else ragged if len(ragged) == 1 else []
        return {
            name: not info.is_single
            for name, info in self._infos.items()
            if info.is_single or name in sized
        }

    def bytes_of(self, batch: _core.engine.Batch) -> NDArray[np.float64]:
        """Return about how many bytes each sequence of a batch has: float64, (sequences,)."""
        found = np.zeros(batch.share_size)
        for number, info in enumerate(self._infos.values()):
            offsets = batch.sample_offsets(number)
            if offsets is None:
                offsets = np.arange(batch.share_size + 1)
            width = info.dtype.itemsize * int(np.prod(info.shape))
            if info.is_variable:
                offsets = batch.stream(number).element_offsets()[offsets]
                width = 1 if info.is_bytes else info.dtype.itemsize
            found += np.diff(offsets) * width
        return found
