"""Losses in any of their forms are summed for each sequence, as by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import sweephand as sh
from sweephand.ext.follow.loss_ledger import sequence_losses

LENGTHS = [7, 2, 9, 1, 4, 4, 3, 8, 5, 6, 2, 1]
LAYOUTS = {
    "ragged": None,
    "padded": sh.Padded(multiple_of=4),
    "padded on the left": sh.Padded(side="left"),
    "buckets": sh.Bucketed([4, 9]),
    "packed": sh.Packed(12),
    "packed with pieces": sh.Packed(8, split_long="split"),
    "truncated": sh.TruncatedBPTT(4),
}


def minibatches(layout: Any, **options: Any) -> list[sh.Minibatch]:
    offsets = np.cumsum([0, *LENGTHS])
    tokens = np.arange(offsets[-1])
    corpus = sh.ArrayDeserializer(
        {"tokens": (tokens, offsets), "kind": np.arange(len(LENGTHS))}
    )
    source = sh.MinibatchSource(corpus, max_sweeps=1, layout=layout, **options)
    return list(source.minibatches(24))


def loss_of_token(tokens: Any) -> NDArray[np.float32]:
    """Return a loss that tells every token from all others."""
    return np.sqrt(np.asarray(tokens) + 1).astype(np.float32)


def by_hand(minibatch: sh.Minibatch) -> NDArray[np.float64]:
    return np.array(
        [loss_of_token(one).sum(dtype=np.float64) for one in minibatch["tokens"].as_sequences()]
    )


def forms(minibatch: sh.Minibatch) -> dict[str, Any]:
    """Return the same losses in every form that a criterion may have them in."""
    data = minibatch["tokens"]
    cells = loss_of_token(data.asarray()) * (data.mask > 0)
    found = {
        "of sequences": by_hand(minibatch),
        "of sequences, in a column": by_hand(minibatch)[:, None],
        "of samples": loss_of_token(data.values),
        "of cells": cells,
        "of cells, flat": cells.reshape(-1),
        "a tensor of cells": torch.from_numpy(cells).requires_grad_(),
        "a tensor of halves": torch.from_numpy(cells).bfloat16(),
    }
    if not cells[:, -1].any():  # else the loss of a token would be missing
        found["of cells but for the last column"] = cells[:, :-1]
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_form_of_losses_has_the_sums_by_hand(name: str) -> None:
    for minibatch in minibatches(LAYOUTS[name]):
        wanted = by_hand(minibatch)
        assert len(wanted) == len(minibatch.ids)
        for form, losses in forms(minibatch).items():
            found = sequence_losses(minibatch, losses)
            tolerance = 1e-2 if "halves" in form else 1e-6
            np.testing.assert_allclose(found, wanted, tolerance, err_msg=form)


@pytest.mark.parametrize("name", ["packed", "padded", "padded on the left"])
def test_losses_of_the_next_token_lack_a_column(name: str) -> None:
    for minibatch in minibatches(LAYOUTS[name]):
        data = minibatch["tokens"]
        is_told = data.labels()[:, :-1] != -100
        losses = loss_of_token(data.asarray())[:, :-1] * is_told
        wanted = [loss_of_token(one[:-1]).sum() for one in data.as_sequences()]
        for given_as in (losses, losses.reshape(-1)):
            np.testing.assert_allclose(sequence_losses(minibatch, given_as), wanted, 1e-6)


def test_a_share_of_nobody_has_no_losses() -> None:
    corpus = sh.ArrayDeserializer({"x": np.arange(4.0)})
    source = sh.MinibatchSource(corpus)
    share_of = {"num_data_partitions": 2}
    shares = [next(source.plan(1, partition_index=i, **share_of)) for i in range(2)]
    empty = [share.num_sequences for share in shares].index(0)
    share = source.next_minibatch(1, None, None, 2, empty)
    for losses in (0.0, np.empty(0, np.float32)):
        assert sequence_losses(share, losses).shape == (0,)


@pytest.mark.parametrize("losses", [1.0, np.zeros(29), np.zeros((2, 3, 7))])
def test_losses_of_another_shape_are_refused_with_those_that_fit(losses: Any) -> None:
    minibatch = minibatches(sh.Packed(12))[0]
    with pytest.raises(ValueError, match="needs a loss for each sequence") as caught:
        sequence_losses(minibatch, losses)
    assert f"({minibatch.num_sequences},) of its sequences" in str(caught.value)
    assert "(24,) of the samples of 'tokens', (2, 12) of its cells" in str(caught.value)


def test_losses_in_gaps_are_refused() -> None:
    minibatch = next(
        one for one in minibatches(sh.Packed(12)) if (one["tokens"].mask == 0).any()
    )
    with pytest.raises(ValueError, match="losses in gaps between sequences add up to"):
        sequence_losses(minibatch, np.ones(minibatch["tokens"].mask.shape))
    not_finite = np.where(minibatch["tokens"].mask > 0, np.nan, 1)
    assert np.isnan(sequence_losses(minibatch, not_finite)).all()
