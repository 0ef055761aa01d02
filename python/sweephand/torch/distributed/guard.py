"""The check that all ranks serve the same data in the same order, before the first step."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sweephand.errors import some_of
from sweephand.layouts.attention import Attention
from sweephand.source.source import MinibatchSource
from sweephand.torch.distributed.control import Control

_MOST = 8  # ranks and fields that are named


def guard(source: MinibatchSource, control: Control | None = None) -> None:
    """Compare corpus, seed, settings, position and version over all ranks, once.

    All ranks call it, before the first step and after a restore. In a single process it does
    nothing.

    Parameters
    ----------
    source : MinibatchSource
        It must be made with equal arguments on all ranks; the folder may differ.
    control : Control, optional
        The ranks that compare, and their time limit; by default all ranks and a minute.

    Raises
    ------
    ValueError
        On all ranks, if they differ, with the ranks and the differences.
    WorkerError
        If a rank does not arrive.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> sh.torch.distributed.guard(sh.MinibatchSource({"x": np.arange(6)}))
    """
    control = control or Control()
    mine, error = {}, None
    try:
        mine = fingerprint(source)
    except Exception as caught:
        error = caught
    control.agree(error=error)
    if reason := differences(control.gather(mine)):
        raise ValueError(f"the sources of the ranks differ: {reason}")


def fingerprint(source: MinibatchSource) -> dict[str, Any]:
    """Return the settings that must be the same on all ranks, by name."""
    try:
        mine = version("sweephand")
    except PackageNotFoundError:  # it runs from its sources
        mine = "unknown"
    settings = source.timeline.options
    return {
        **source.get_checkpoint_state(),
        "limit in samples": source.timeline.limit,
        "balance": Attention() if settings.balance == "attention" else settings.balance,
        "micro_batch_rows": source.layout.micro_batch_rows,
        "max_errors": settings.max_errors,
        "version of sweephand": mine,
    }


def differences(fingerprints: list[dict[str, Any]]) -> str:
    """Describe how ranks differ from the first; "" if none does."""
    apart: dict[str, list[int]] = {}
    for rank, theirs in enumerate(fingerprints):
        for name in sorted(fingerprints[0].keys() | theirs.keys()):
            here, there = fingerprints[0].get(name), theirs.get(name)
            if here != there:
                how = f"{name} is {there!r} there and {here!r} on rank 0"
                apart.setdefault(how, []).append(rank)
    said = [
        f"rank{'s' * (len(ranks) > 1)} {some_of(ranks, _MOST)}: {how}"
        for how, ranks in list(apart.items())[:_MOST]
    ]
    return "; ".join(said)
