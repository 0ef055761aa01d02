"""Sequences written in CNTK's text format."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sweephand.corpus.casts import as_array


def sequence_to_cntk_text_format(seq_idx: int, alias_tensor_map: Mapping[str, Any]) -> str:
    r"""Return one sequence as lines of CNTK's text format.

    Parameters
    ----------
    seq_idx : int
        The id of the sequence.
    alias_tensor_map : mapping of str to samples
        Stream name to its samples, one line each: an array of shape (samples, ...), which is
        written row by row; a list of arrays, numbers, or dicts from index to value, which are
        written sparse; or a SciPy CSR matrix with a row per sample.

    Returns
    -------
    str
        One line for each sample of the longest stream, streams sorted by name, without an end
        of line after the last; empty if no stream has a sample. Every number is the shortest
        text that is read as the same number again.

    Raises
    ------
    ValueError
        If the id is negative, a name cannot be written, or a value is no number.

    Examples
    --------
    >>> text = sequence_to_cntk_text_format(7, {"A": [[0.5], [1.5]], "B": [{9: 4, 3: 1}]})
    >>> text.splitlines()
    ['7\t|A 0.5 |B 3:1 9:4', '7\t|A 1.5']
    """
    if seq_idx < 0:
        raise ValueError(f"the id of a sequence must be at least 0, got {seq_idx}")
    streams = {
        name: _samples(name, samples) for name, samples in sorted(alias_tensor_map.items())
    }
    longest = max(map(len, streams.values()), default=0)
    lines = []
    for step in range(longest):
        items = [
            f"|{name} {own[step]}".rstrip() for name, own in streams.items() if step < len(own)
        ]
        lines.append(f"{seq_idx}\t{' '.join(items)}")
    return "\n".join(lines)


def _samples(name: str, samples: Any) -> list[str]:
    """Return the text of every sample of a stream."""
    if not name or any(c in "|#" or c.isspace() for c in name):
        raise ValueError(f"a stream of CNTK's text cannot be called {name!r}")
    if getattr(samples, "format", None) == "csr":
        indices = samples.indices.tolist()
        return [
            _sparse(name, dict(zip(indices[begin:end], samples.data[begin:end], strict=True)))
            for begin, end in pairwise(samples.indptr.tolist())
        ]
    return [
        _sparse(name, one) if isinstance(one, Mapping) else _dense(name, one) for one in samples
    ]


def _sparse(name: str, sample: Mapping[int, Any]) -> str:
    pairs = sorted(sample.items())
    if pairs and pairs[0][0] < 0:
        raise ValueError(f"stream {name!r} has the negative index {pairs[0][0]}")
    values = _dense(name, [value for _, value in pairs]).split()
    return " ".join(f"{index}:{value}" for (index, _), value in zip(pairs, values, strict=True))


def _dense(name: str, sample: Any) -> str:
    try:
        array = as_array(f"stream {name!r}", sample)
    except (TypeError, ValueError) as error:
        raise ValueError(f"stream {name!r} has a sample that is no array: {error}") from None
    if array.dtype.kind not in "biuf" and array.size:
        raise ValueError(f"stream {name!r} must hold numbers, got {array.dtype}")
    if array.dtype == bool:
        array = array.astype(np.uint8)
    # NumPy writes the shortest text that is read as the same number of the type.
    return " ".join(str(value).removesuffix(".0") for value in array.reshape(-1))
