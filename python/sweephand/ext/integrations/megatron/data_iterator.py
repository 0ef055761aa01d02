"""The data iterator of Megatron-Core's training loop, over packed rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch

from sweephand import MinibatchSource
from sweephand.ext.integrations.megatron.batch import BATCH_KEYS, CELLS, Batch
from sweephand.ext.integrations.megatron.documents import Documents
from sweephand.ext.integrations.megatron.place import Place
from sweephand.ext.integrations.packed_rows import PackedRows, positions_of, row_length_of
from sweephand.extend import PlannedMinibatch, Share, check_int

__all__ = ["DataIterator"]

_DOCUMENTS = ("cu_seqlens", "cu_seqlens_padded", "attention_mask", None)


class DataIterator(Iterator[Batch]):
    """Deliver micro-batches of packed rows, as a data set and its loader would.

    It is Megatron's ``data_iterator``, with ``--dataloader-type external``: for its own
    ``get_batch``, which broadcasts and splits, or for `get_batch` of this module, for which
    every rank has an iterator and nothing is sent.

    Parameters
    ----------
    source : MinibatchSource
        In layout `Packed`; its row length is Megatron's ``seq_length``. It is the iterator's
        own from now on.
    micro_batch_size : int
        Rows of a micro-batch, for each data-parallel rank.
    place : Place
        The place of this rank.
    stream : str
        Where the tokens are.
    documents : {"cu_seqlens", "cu_seqlens_padded", "attention_mask", None}
        How attention learns where the sequences of a row end: by their boundaries; by those of
        sequences that are padded to multiples of 2 c, each split by itself over c
        context-parallel ranks; by a mask (rows, 1, row length, row length) that is True where
        cells must not look; or not at all. Labels never cross the end of one, and positions
        begin anew, but with None.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(3)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(6), randomize=False)
    >>> batch = next(sh.torch.megatron.DataIterator(source, 1))
    >>> batch["tokens"].tolist(), batch["loss_mask"].tolist()
    ([[0, 1, 0, 1, 2, 0]], [[1.0, 0.0, 1.0, 1.0, 0.0, 0.0]])
    >>> batch["cu_seqlens"].tolist(), batch["max_seqlen"].tolist()
    ([[0, 2, 5, 6]], [3])
    """

    def __init__(
        self,
        source: MinibatchSource,
        micro_batch_size: int,
        place: Place | None = None,
        *,
        stream: str = "tokens",
        documents: Literal["cu_seqlens", "cu_seqlens_padded", "attention_mask"]
        | None = "cu_seqlens",
    ) -> None:
        self._rows = check_int("micro_batch_size", micro_batch_size, 1, 2**31)
        self._length = row_length_of(source, "Megatron")
        self._place = place = place or Place()
        splits_rows = documents != "cu_seqlens_padded" and place.cp_world_size > 1
        if splits_rows and self._length % (2 * place.cp_world_size):
            raise ValueError(
                f"rows of {self._length} cells do not split over {place.cp_world_size} "
                "context-parallel ranks: the row length must be a multiple of "
                f"{2 * place.cp_world_size}; documents='cu_seqlens_padded' splits each sequence"
            )
        if documents not in _DOCUMENTS:
            raise ValueError(
                "documents must be 'cu_seqlens', 'cu_seqlens_padded', 'attention_mask' or "
                f"None, got {documents!r}"
            )
        source.stream_info(stream)  # is it there?
        self._source, self._stream, self._documents = source, stream, documents
        self._size = place.dp_world_size * self._rows * self._length
        source.timeline.request(self._size, place.dp_world_size, place.dp_rank)
        # A middle stage reads nothing: it goes over plans, and its source does not move.
        self._plans: Iterator[PlannedMinibatch] | None = None
        self._passed = source.position

    def __next__(self) -> Batch:
        """Return the next micro-batch: of `BATCH_KEYS`, None where this stage has no use.

        Returns
        -------
        dict
            ``tokens``, ``labels`` (0 where there is none), ``position_ids``: int64 of shape
            (rows, row length); ``loss_mask``: float32, the weights of labels, by default 1;
            ``cu_seqlens``: int32, (rows, most sequences of a row + 1), padding is a sequence
            of its own and the last boundary repeats; ``max_seqlen``: int32, (rows,);
            ``attention_mask``: bool. With padded sequences all rows are one, of their sum, and
            ``cu_seqlens`` and ``cu_seqlens_padded`` are (1, sequences + 1), without the
            padding of the rows.
        """
        batch: Batch = dict.fromkeys(BATCH_KEYS)
        is_middle = self._place.is_middle_stage
        share, positions = self._pass_over() if is_middle else self._read(batch)
        if self._documents == "cu_seqlens":
            batch["cu_seqlens"], batch["max_seqlen"] = _boundaries(positions)
        elif self._documents == "cu_seqlens_padded":
            documents = Documents.of(share, positions, 2 * self._place.cp_world_size)
            for key in CELLS:
                if batch[key] is not None:
                    batch[key] = documents.take(batch[key])
            batch |= documents.boundaries
        elif self._documents == "attention_mask" and not is_middle:
            batch["attention_mask"] = _mask(positions)
        return batch

    def _read(self, batch: Batch) -> tuple[Share, torch.Tensor]:
        """Fill in the next minibatch's tensors for this stage; return it and its positions."""
        place = self._place
        share = self._source.next_minibatch(
            self._size, None, None, place.dp_world_size, place.dp_rank
        )
        if not share:
            raise StopIteration
        rows = PackedRows(share, self._rows, self._length)
        positions = rows.positions()
        if place.is_first_stage:
            batch["tokens"] = rows.tokens(self._stream)
            batch["position_ids"] = positions
            if self._documents is None:
                batch["position_ids"] = torch.arange(self._length).repeat(self._rows, 1)
        if place.is_last_stage:
            batch["labels"] = rows.labels(self._stream, 0)
            batch["loss_mask"] = rows.loss_mask(self._stream)
        return share, positions

    def _pass_over(self) -> tuple[Share, torch.Tensor]:
        """Pass over the next minibatch by its plan; return it and its positions."""
        if self._plans is None:
            self._plans = self._source.plan(
                self._size,
                num_data_partitions=self._place.dp_world_size,
                partition_index=self._place.dp_rank,
            )
        share = next(self._plans)
        self._passed = share.next_position
        return share, positions_of(share, self._rows, self._length)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the source at the training's position, the same on all ranks."""
        if self._plans is None:
            return self._source.state_dict()
        return self._source.timeline.state_at(self._passed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state, with any number of ranks."""
        self._source.load_state_dict(state)
        self._plans = None


def _boundaries(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the starts of sequences in each row, padded by its length, and the longest."""
    rows, length = positions.shape
    is_begin = positions == 0
    counts = is_begin.sum(1)
    boundaries = torch.full((rows, int(counts.max()) + 1), length, dtype=torch.int32)
    of_row = torch.arange(boundaries.shape[1]) < counts[:, None]
    boundaries[of_row] = is_begin.nonzero()[:, 1].int()
    return boundaries, positions.amax(1).int() + 1


def _mask(positions: torch.Tensor) -> torch.Tensor:
    """Return the cells that attention masks: other sequences, and later cells."""
    numbers = (positions == 0).cumsum(1)
    same = numbers[:, :, None] == numbers[:, None, :]
    return ~same.tril()[:, None]
