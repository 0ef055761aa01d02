"""Definitions of streams of HTK's files, as CNTK has them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sweephand import StreamDef, StreamDefs
from sweephand.extend import PathLike, StreamsLike, check_int


@dataclass(frozen=True, init=False, repr=False)
class HTKStreamDef(StreamDef):
    """Definition of a stream, also of HTK's files: ``sweephand.io.StreamDef``.

    Parameters
    ----------
    field, shape, is_sparse
        As `sweephand.StreamDef` has them.
    scp, mlf : path, or sequence of them, optional
        HTK's lists of feature files, and its master label files: see `HTKFeatureDeserializer`
        and `HTKMLFDeserializer`.
    context : tuple of int, optional
        The frames before and after a frame of HTK's features that are joined to it in a sample.
    **options
        All others that `sweephand.StreamDef` has.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.io.StreamDef(scp="train.scp", context=(5, 5)).context
    (5, 5)
    """

    scp: PathLike | tuple[PathLike, ...] | None = None
    mlf: PathLike | tuple[PathLike, ...] | None = None
    context: tuple[int, int] | None = None

    def __init__(
        self,
        field: str | None = None,
        shape: int | Sequence[int] | None = None,
        is_sparse: bool = False,
        *,
        scp: PathLike | Sequence[PathLike] | None = None,
        mlf: PathLike | Sequence[PathLike] | None = None,
        context: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(field, shape, is_sparse, **options)
        object.__setattr__(self, "scp", _paths_of("scp", scp))
        object.__setattr__(self, "mlf", _paths_of("mlf", mlf))
        object.__setattr__(self, "context", None if context is None else _context_of(context))

    @classmethod
    def of(
        cls,
        definition: StreamDef,
        *,
        scp: Sequence[PathLike] | None = None,
        mlf: Sequence[PathLike] | None = None,
    ) -> HTKStreamDef:
        """Return the definition of a stream, with its lists of files."""
        return cls(**_common(definition), scp=scp, mlf=mlf)

    def plain(self) -> StreamDef:
        """Return the definition without options of HTK's files, and without a shape."""
        return StreamDef(**_common(self) | {"shape": None})

    @property
    def only_for(self) -> str:
        """Options that one deserializer alone takes, and which; "": there are none."""
        if self.mlf is not None:
            return "mlf= is for HTKMLFDeserializer"
        if self.scp is not None or self.context is not None:
            return "scp= and context= are for HTKFeatureDeserializer"
        return ""


def speech_streams(streams: StreamsLike, lists: str, of: str) -> dict[str, HTKStreamDef]:
    """Return the definitions of streams, each with the lists of its files."""
    how = f"StreamDefs(NAME=sh.io.StreamDef({lists}=...))"
    if not isinstance(streams, Mapping):
        raise TypeError(f"{of} takes {how}")
    if not streams:
        raise ValueError(f"give at least one stream: {how}")
    chosen = {}
    for name, one in StreamDefs(streams).items():
        if not isinstance(one, HTKStreamDef) or getattr(one, lists) is None:
            raise ValueError(
                f"stream {name!r} needs {lists}=, the path of its files' list: {how}"
            )
        if one.field is not None:
            raise ValueError(f"stream {name!r}: HTK's files have no fields; leave field= out")
        chosen[name] = one
    return chosen


def _common(definition: StreamDef) -> dict[str, Any]:
    return {one.name: getattr(definition, one.name) for one in fields(StreamDef)}


def _paths_of(name: str, paths: object) -> object:
    if paths is None or isinstance(paths, str | os.PathLike):
        return paths
    if isinstance(paths, Sequence) and all(isinstance(one, str | os.PathLike) for one in paths):
        return tuple(paths)
    raise TypeError(f"{name} must be a path or a list of paths, got {type(paths).__name__}")


def _context_of(context: object) -> tuple[int, int]:
    if not isinstance(context, Sequence) or isinstance(context, str) or len(context) != 2:
        raise TypeError(
            f"context is how many frames before and after, as (5, 5), got {context!r:.40}"
        )
    before, after = (check_int("every part of context", one, 0, 2**16) for one in context)
    return before, after
