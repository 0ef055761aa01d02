"""Segments of a share that was read: the sequence, or part, that each cell holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.layouts import Layout
from sweephand.minibatch.pieces import Pieces, segments_of
from sweephand.minibatch.share import Share

if TYPE_CHECKING:
    from sweephand.minibatch.minibatch_data import MinibatchData


class SegmentedShare(Share):
    """A worker's share of a minibatch, with its segments."""

    __slots__ = ()

    _plan: _core.engine.Batch  # which is a plan, carried out

    @property
    def layout(self) -> Layout:
        """How the minibatch is composed and laid out."""
        raise NotImplementedError

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell of packed rows holds.

        Returns
        -------
        ndarray of int32, shape (rows, row length)
            1, 2, ... in every row; 0 in gaps.
        """
        parted = self._parted
        if parted is not None:
            return parted.segment_ids
        return segments_of(self._plan.segment_ids(), self.layout)

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """Where in its sequence every cell of packed rows is.

        Returns
        -------
        ndarray of int32, shape (rows, row length)
            From 0 in every segment; 0 in gaps.
        """
        parted = self._parted
        if parted is not None:
            return parted.position_ids
        return segments_of(self._plan.position_ids(), self.layout)

    @property
    def parts(self) -> NDArray[np.int64]:
        """The sequence and the part of each segment, where a stream has parts.

        Returns
        -------
        ndarray of int64, shape (segments, 2)
            In the order of `MinibatchData.cu_seqlens`: the sequence, as the share counts, and
            the number of the part.

        Raises
        ------
        AttributeError
            If no stream has parts.
        """
        parted = self._parted
        if parted is None or parted.sequence_parts is None:
            raise AttributeError("parts come with StreamDef(parts=...) on the tokens")
        return parted.sequence_parts.table

    @property
    def _parted(self) -> MinibatchData | None:
        """The stream whose sequences have parts."""
        raise NotImplementedError

    @property
    def _pieces(self) -> Pieces:
        parted = self._parted
        if parted is not None and self.layout.has_rows:
            return parted._pieces
        return Pieces.of(self._plan, self.layout)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where pieces begin in a layout of rows.

        Returns
        -------
        ndarray of int64, shape (sequences,)
            Row after row the column of each piece, or, for a piece that continues a sequence,
            minus the samples delivered before; in `TruncatedBPTT` such a piece is at column 0.
        """
        return self._pieces.starts()

    @property
    def row_costs(self) -> NDArray[np.int64]:
        """Cost of attention in each row, the sum of squared lengths: int64, (rows,)."""
        return self._pieces.costs()
