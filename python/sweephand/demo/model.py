"""A small model of the next byte, in float16 and the same to the last bit everywhere.

The logits of a byte are a sum of table rows, each chosen by some of the bytes before it. There
is no matrix product in it: with other threads BLAS may add in another order, and a
demonstration of equal bits must not depend on that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SYMBOLS = 128  # bytes beyond ASCII share the last one
_ROWS = 4096  # of the tables for hashed contexts
_START = 0  # comes before a sequence

Contexts = list[NDArray[np.int64]]


class NextByteModel:
    """Predicts every byte of a sequence from the three before it.

    Attributes
    ----------
    parameters : dict of ndarray of float16, shape (rows, symbols)
    """

    def __init__(self) -> None:
        rows = [_SYMBOLS, _SYMBOLS, _SYMBOLS, _ROWS, _ROWS]
        self.parameters = {
            f"table{i}": np.zeros((count, _SYMBOLS), np.float16) for i, count in enumerate(rows)
        }

    def differentiate(
        self, tokens: NDArray[np.uint8], offsets: NDArray[np.int64], scale: float = 1.0
    ) -> tuple[float, list[NDArray[np.float16]]]:
        """Return the loss of a minibatch and its gradients, as they are before a step.

        Parameters
        ----------
        tokens : ndarray of uint8, shape (samples,)
        offsets : ndarray of int64, shape (sequences + 1,)
            Where each sequence begins, and the end.
        scale : float
            What the loss is multiplied by before it is differentiated.

        Returns
        -------
        float
            The sum of the loss, in nats; without the scale.
        list of ndarray of float16
            The gradients of the scaled loss, one for every table; infinite where they are too
            large for 16 bits.
        """
        symbols = np.minimum(tokens, _SYMBOLS - 1).astype(np.int64)
        contexts = contexts_of(symbols, offsets[:-1])
        probabilities = self._predict(contexts)
        places = np.arange(len(symbols))
        loss = -np.log(probabilities[places, symbols].astype(np.float64)).sum()
        error = probabilities  # the gradient of the logits: probability less truth
        error[places, symbols] -= 1
        error *= np.float32(scale)
        gradients = []
        for table, context in zip(self.parameters.values(), contexts, strict=True):
            rows, sums = sum_by_row(context, error)
            gradient = np.zeros_like(table)
            with np.errstate(over="ignore"):  # the loss scale finds it
                gradient[rows] = sums
            gradients.append(gradient)
        return float(loss), gradients

    def _predict(self, contexts: Contexts) -> NDArray[np.float32]:
        tables = list(self.parameters.values())
        logits = tables[0][contexts[0]].astype(np.float32)
        for table, context in zip(tables[1:], contexts[1:], strict=True):
            logits += table[context]
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits


def contexts_of(symbols: NDArray[np.int64], starts: NDArray[np.int64]) -> Contexts:
    """Return the row of every table that each symbol chooses: int64, shape (samples,) each."""
    before = []
    shifted = symbols
    for _ in range(3):
        shifted = np.roll(shifted, 1)
        shifted[starts] = _START
        before.append(shifted)
    last, second, third = before
    pair = last * 8191 + second * 131
    return [*before, pair % _ROWS, (pair + third * 65599) % _ROWS]


def sum_by_row(
    rows: NDArray[np.int64], values: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Add up the values of equal rows, always in their given order.

    Examples
    --------
    >>> rows, sums = sum_by_row(np.array([5, 2, 5]), np.float32([[1], [2], [3]]))
    >>> rows.tolist(), sums.tolist()
    ([2, 5], [[2.0], [4.0]])
    """
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[begins], np.add.reduceat(values[order], begins, axis=0)
