"""Micro-batches of packed rows as Megatron-Core takes them, and their parts for a rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand import MinibatchSource
from sweephand.ext.integrations.packed_rows import PackedRows, positions_of, row_length_of
from sweephand.extend import PlannedMinibatch, Share, check_int, runs
from sweephand.torch import to_tensor

__all__ = ["BATCH_KEYS", "DataIterator", "Place", "get_batch"]


@dataclass(frozen=True)
class Place:
    """Place of a rank in the data; its tensor-parallel peers are alike.

    Parameters
    ----------
    dp_world_size, dp_rank : int
        The ranks that have data of their own, without those of context parallelism.
    cp_world_size, cp_rank : int
        The ranks that share each sequence.
    is_first_stage, is_last_stage : bool
        Of the pipeline: the first needs tokens, the last labels. Where a stage predicts several
        tokens (MTP), both are True.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.torch.megatron.Place(dp_world_size=4, dp_rank=1, is_last_stage=False).is_middle_stage
    False
    """

    dp_world_size: int = 1
    dp_rank: int = 0
    cp_world_size: int = 1
    cp_rank: int = 0
    is_first_stage: bool = True
    is_last_stage: bool = True

    @classmethod
    def of(cls, mpu: Any, vp_stage: int | None = None) -> Self:
        """Return the place in ``megatron.core.parallel_state``."""
        return cls(
            mpu.get_data_parallel_world_size(),
            mpu.get_data_parallel_rank(),
            mpu.get_context_parallel_world_size(),
            mpu.get_context_parallel_rank(),
            mpu.is_pipeline_first_stage(False, vp_stage),
            mpu.is_pipeline_last_stage(False, vp_stage),
        )

    @property
    def is_middle_stage(self) -> bool:
        """True if neither tokens nor labels are wanted here."""
        return not (self.is_first_stage or self.is_last_stage)


@dataclass(frozen=True)
class Documents:
    """Documents of packed rows, laid out anew without the padding of the rows."""

    cells: NDArray[np.int64]  # where in the rows every token is, one row after the other
    places: NDArray[np.int64]  # where it comes to be
    # tokens up to the end of each document, and cells up to the end of its padding
    ends: NDArray[np.int64]
    padded_ends: NDArray[np.int64]

    @classmethod
    def of(cls, share: Share, positions: torch.Tensor, multiple: int) -> Self:
        """Return the documents of a share, each padded to a multiple of `multiple` cells.

        Where a share has none, there is one without a token, so that no tensor is empty.
        """
        rows, columns, *_ = share.planned.cells().reshape(-1, 4).T.astype(np.int64)
        sizes = share.planned.sizes().astype(np.int64)
        cells = runs(rows * positions.shape[1] + columns, sizes)
        is_begin = positions.numpy().reshape(-1)[cells] == 0  # parts of a sequence begin, too
        lengths = np.diff(np.flatnonzero(np.append(is_begin, True))) if len(cells) else [0]
        return cls.padded(cells, np.asarray(lengths), multiple)

    @classmethod
    def padded(
        cls, cells: NDArray[np.int64], lengths: NDArray[np.int64], multiple: int
    ) -> Self:
        """Return documents of these lengths, whose tokens are in these cells."""
        padded = np.maximum(-(-lengths // multiple), 1) * multiple
        ends, padded_ends = np.cumsum(lengths), np.cumsum(padded)
        return cls(cells, runs(padded_ends - padded, lengths), ends, padded_ends)

    def take(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values of rows as one row of documents, 0 in their padding."""
        laid = torch.zeros((1, int(self.padded_ends[-1])), dtype=values.dtype)
        laid[0, to_tensor(self.places)] = values.reshape(-1)[to_tensor(self.cells)]
        return laid

    @property
    def boundaries(self) -> dict[str, torch.Tensor]:
        """Megatron's ``cu_seqlens``, ``cu_seqlens_padded`` and ``max_seqlen``."""
        padded = np.diff(self.padded_ends, prepend=0)
        return {
            "cu_seqlens": _begins(self.ends),
            "cu_seqlens_padded": _begins(self.padded_ends),
            "max_seqlen": torch.tensor([int(padded.max())], dtype=torch.int32),
        }


def head_and_tail_of_each(boundaries: torch.Tensor, count: int, index: int) -> torch.Tensor:
    """Return the cells of a context-parallel rank, a head and a tail of each document."""
    begins, lengths = boundaries[:-1].numpy().astype(np.int64), boundaries.diff().numpy()
    parts = lengths.astype(np.int64) // (2 * count)
    both = np.stack([begins + index * parts, begins + (2 * count - 1 - index) * parts], 1)
    return to_tensor(runs(both.reshape(-1), np.repeat(parts, 2)))


def _begins(ends: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(np.append(0, ends).astype(np.int32))[None]


BATCH_KEYS = (
    "attention_mask", "cu_seqlens", "cu_seqlens_padded", "hybrid_cp_group", "labels",
    "local_cp_size", "loss_mask", "max_seqlen", "position_ids", "tokens",
)  # fmt: skip
CELLS = ("labels", "loss_mask", "position_ids", "tokens")
Batch: TypeAlias = dict[str, Any]


def get_batch(
    data_iterator: Iterator[Batch],
    vp_stage: int | None = None,
    *,
    place: Place | None = None,
) -> list[Any]:
    """Return the inputs of a forward step of Megatron, without sending anything.

    It replaces ``get_batch`` of ``pretrain_gpt.py``. Rows with boundaries become
    one, as kernels for packed sequences want them. Then each context-parallel rank r of c keeps
    the parts r and 2c - 1 - r of 2c, so that causal attention costs all the same: of the whole
    row, or of each sequence where these are padded.

    Parameters
    ----------
    data_iterator : iterator
        A `DataIterator`, or what Megatron has put around it.
    vp_stage : int, optional
        Says nothing: each model chunk has an iterator, whose place knows its stage.
    place : Place, optional
        That of the iterator.

    Returns
    -------
    list
        In the order of `BATCH_KEYS`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> from sweephand.ext.integrations.megatron import DataIterator, Place, get_batch
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(8)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(8))
    >>> place = Place(cp_world_size=2, cp_rank=1)
    >>> get_batch(DataIterator(source, 1, place), place=place)[-1]
    tensor([[2, 3, 4, 5]])
    """
    batch: Batch = dict.fromkeys(BATCH_KEYS) | dict(next(data_iterator))
    place = place or Place()
    count, index = place.cp_world_size, place.cp_rank
    is_padded = batch["cu_seqlens_padded"] is not None
    if batch["cu_seqlens"] is not None and not is_padded:
        _join_rows(batch)
    if count > 1 and is_padded:
        cells = head_and_tail_of_each(batch["cu_seqlens_padded"][0], count, index)
        for key in CELLS:
            if batch[key] is not None:
                batch[key] = batch[key][:, cells]
    elif count > 1:
        for key in (*CELLS, "attention_mask"):
            if batch[key] is not None:
                dim = 2 if key == "attention_mask" else 1
                parts = batch[key].chunk(2 * count, dim)
                batch[key] = torch.cat([parts[index], parts[-1 - index]], dim)
    return [batch[key] for key in BATCH_KEYS]


def _join_rows(batch: Batch) -> None:
    """Make one row of all, with one list of boundaries."""
    boundaries, longest = batch["cu_seqlens"], batch["max_seqlen"]
    begins = torch.arange(len(boundaries), dtype=torch.int32) * boundaries[0, -1]
    batch["cu_seqlens"] = torch.unique(boundaries + begins[:, None])[None]
    batch["max_seqlen"] = longest.amax()[None]
    for key in CELLS:
        values = batch[key]
        if values is not None:
            batch[key] = values.reshape(1, -1)


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


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
