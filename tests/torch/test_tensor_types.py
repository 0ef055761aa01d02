"""Types of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import sweephand as sh


def minibatch(values: Any, **options: Any) -> sh.Minibatch:
    corpus = sh.ArrayDeserializer({"tokens": values})
    return sh.MinibatchSource(corpus, randomize=False, **options).next_minibatch(4)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "int16"])
@pytest.mark.parametrize("wanted", [torch.int64, "int64", np.int64])
def test_tokens_become_int64_when_asked(dtype: str, wanted: Any) -> None:
    values = np.array([0, 3, 2**15 - 1, 7], dtype)
    data = minibatch(values)["tokens"]
    tensor = data.torch(dtype=wanted)
    assert tensor.dtype == torch.int64
    assert tensor.tolist() == values.tolist()
    assert data.torch().dtype == getattr(torch, dtype)  # as it is stored
    assert torch.nn.Embedding(2**15, 1)(tensor).shape == (4, 1)


def test_bfloat16_becomes_a_tensor_of_it() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.0, -2.5, 3.0], dtype=ml_dtypes.bfloat16)
    tensor = sh.torch.to_tensor(array)
    assert (tensor.dtype, tensor.tolist()) == (torch.bfloat16, [1.0, -2.5, 3.0])
    assert tensor.data_ptr() == array.ctypes.data


def test_padded_rows_are_cast_with_their_padding() -> None:
    values = [np.arange(n, dtype=np.uint16) for n in (1, 3)]
    data = minibatch(values, layout=sh.Padded(pad_value=9))["tokens"]
    assert data.torch(dtype=torch.int32).tolist() == [[0, 9, 9], [0, 1, 2]]


def test_a_type_that_loses_a_value_is_refused() -> None:
    data = minibatch(np.array([1, 2**24 + 1, 0, 0]))["tokens"]
    with pytest.raises(ValueError, match="float32"):
        data.torch(dtype=torch.float32)
    assert data.torch(dtype=torch.float64).tolist() == [1.0, 2.0**24 + 1, 0.0, 0.0]
    assert data.torch(dtype=torch.int64).data_ptr() == data.values.ctypes.data  # no copy
