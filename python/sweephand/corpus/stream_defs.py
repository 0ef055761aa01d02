"""Definitions of streams: the user's wishes for the named fields of every sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.base.checks import check_choice, check_flag, check_function, check_int
from sweephand.corpus.casts import as_dtype
from sweephand.errors import ArgumentTypeError, shown

Transform = Callable[[NDArray[Any]], NDArray[Any]]
Decode = Literal["image", "audio"]
_OF_LABELS = ("loss_mask", "parts", "label_weights")  # the names of streams beside tokens
_NOT_CARRIED = ("defines_mb_size", "broadcast", *_OF_LABELS)


@dataclass(frozen=True, repr=False)
class StreamDef:
    """Definition of one stream.

    Parameters
    ----------
    field : str, optional
        The stream's name in the data; by default the name that `StreamDefs` gives it.
    shape : int or tuple of int, optional
        Shape of one sample; for sparse text the dimension. Of pictures that are decoded
        (channels, height, width), which all are brought to.
    is_sparse : bool
        Samples are given by the indices of their non-zero elements.
    dtype : dtype-like, optional
        Element type to deliver, by a cast that is exact or an error; ``None`` keeps the stored
        one. ``torch.int64`` is ``"int64"``.
    defines_mb_size : bool
        The size of a sequence is its number of samples in this stream, instead of the longest.
    transforms : tuple of callables
        Applied in turn to the values of every minibatch, an array of shape (samples, *sample
        shape); each returns an array with as many samples.
    broadcast : bool
        The stream's one sample per sequence is repeated for every sample of the sequence.
    carried : bool
        The stream has a length of its own in every sequence, possibly 0, and is delivered apart
        from the rows and grids of a layout, with the first piece of its sequence: patches of
        pictures, frames of sounds, boxes. See `MinibatchData.rows`.
    decode : {"image", "audio"}, optional
        Its ``bytes`` are stored pictures or sounds, which are decoded: `sweephand.decode`.
    loss_mask : str, optional
        The stream that masks the loss: one number or bool per sample, 0 for a sample without a
        loss, any other but NaN for one with it. See `MinibatchData.labels`.
    parts : str, optional
        The stream that holds the part of its sequence to which each sample belongs, an integer
        that does not descend: a pair of answers, or a prompt with several. Segments, positions
        and boundaries begin anew at each part, no label reaches into the next, and a sequence
        is never cut.
    label_weights : str, optional
        The stream that weighs labels: a finite number for each sample, the weight of the label
        that it is, or one for all labels of the sequence. See `MinibatchData.label_weights`.

    Raises
    ------
    TypeError
        If an argument is of a wrong type.
    ValueError
        If a carried stream defines the size, is broadcast, or has streams beside its labels.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> parity = sh.StreamDef(field="n", dtype="int32", transforms=(lambda values: values % 2,))
    >>> corpus = sh.ArrayDeserializer({"n": np.arange(5)}, sh.StreamDefs(parity=parity))
    >>> sh.MinibatchSource(corpus, randomize=False).next_minibatch(5)["parity"].values
    array([0, 1, 0, 1, 0], dtype=int32)
    """

    field: str | None = None
    shape: int | Sequence[int] | None = None
    is_sparse: bool = False
    dtype: DTypeLike | None = None
    defines_mb_size: bool = False
    transforms: Sequence[Transform] = ()
    broadcast: bool = False
    carried: bool = False
    decode: Decode | None = None
    loss_mask: str | None = None
    parts: str | None = None
    label_weights: str | None = None

    def __post_init__(self) -> None:
        for option, named in {"field": self.field, **self.beside}.items():
            if not (named is None or isinstance(named, str)):
                raise TypeError(f"{option} is the name of a stream, got {named!r:.60}")
        for option in ("is_sparse", "defines_mb_size", "broadcast", "carried"):
            check_flag(option, getattr(self, option))
        check_choice("decode", self.decode, None, *get_args(Decode))
        with_it = [name for name in _NOT_CARRIED if getattr(self, name)]
        if self.carried and with_it:
            raise ValueError(
                "a carried stream stands beside the samples of its sequence: leave out "
                f"{' and '.join(with_it)}, or carried"
            )
        # Elements are delivered in the byte order of this machine.
        dtype = None if self.dtype is None else as_dtype(self.dtype).newbyteorder("=")
        shape = None if self.shape is None else _shape_of(self.shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "transforms", _transforms_of(self.transforms))

    @property
    def only_for(self) -> str:
        """Message about options that only one deserializer takes; "" without such options."""
        return ""

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """Shape of one stored sample, or None if it is not declared."""
        return self.shape if isinstance(self.shape, tuple) and not self.decode else None

    @property
    def beside(self) -> dict[str, str]:
        """The streams that decide which samples are labels, by option."""
        named = {option: getattr(self, option) for option in _OF_LABELS}
        return {option: name for option, name in named.items() if name is not None}

    def of_form(
        self, shape: object = None, dtype: object = None, is_sparse: bool = False
    ) -> StreamDef:
        """Return the definition of samples of this form that are used in the same way."""
        form: dict[str, Any] = {"shape": shape, "dtype": dtype, "is_sparse": is_sparse}
        return replace(self, field=None, decode=None, **form)

    def given(self) -> dict[str, Any]:
        """Return the options that are no defaults; a dtype by its name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.dtype is not None:
            values["dtype"] = np.dtype(self.dtype).name
        return {
            one.name: values[one.name]
            for one in fields(self)
            if values[one.name] != one.default
        }

    def __repr__(self) -> str:
        described = [f"{name}={value!r}" for name, value in self.given().items()]
        return f"StreamDef({', '.join(described)})"


def _shape_of(shape: object) -> tuple[int, ...]:
    if isinstance(shape, Integral):
        shape = (int(shape),)
    if not isinstance(shape, Iterable) or isinstance(shape, str):
        raise ArgumentTypeError(
            f"every extent of shape must be an int, such as 784 or (28, 28), got {shape!r:.40}"
        )
    return tuple(check_int("every extent of shape", extent, 0) for extent in shape)


def _transforms_of(transforms: object) -> tuple[Transform, ...]:
    if callable(transforms) or not (transforms is None or isinstance(transforms, Iterable)):
        raise TypeError("transforms must be a list of functions: write transforms=[function]")
    found = tuple(transforms or ())
    for one in found:
        check_function("every one of transforms", one)
    return found


class StreamDefs(Mapping[str, StreamDef]):
    """The streams that are wanted, by the name that they get.

    They are keywords; a dict of `StreamDef` is for names that are no words of Python. TypeError
    if a value is no `StreamDef`.

    Examples
    --------
    >>> defs = StreamDefs(labels=StreamDef(field="L", shape=3, is_sparse=True))
    >>> defs["labels"].field
    'L'
    """

    def __init__(
        self, streams: Mapping[str, StreamDef] | None = None, /, **more: StreamDef
    ) -> None:
        if not (streams is None or isinstance(streams, Mapping)):
            raise TypeError(
                "give the streams by name: StreamDefs(x=StreamDef()), or a dict of StreamDef; "
                f"got {type(streams).__name__}"
            )
        given = {**(streams or {}), **more}
        for name, definition in given.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a stream is text, got {name!r:.60}")
            if not isinstance(definition, StreamDef):
                raise TypeError(
                    f"stream {name!r} must be a StreamDef, such as StreamDef(shape=3), got "
                    f"{shown(definition)}"
                )
        self._streams = given

    def __getitem__(self, name: str) -> StreamDef:
        return self._streams[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"StreamDefs({', '.join(f'{n}={d!r}' for n, d in self._streams.items())})"
