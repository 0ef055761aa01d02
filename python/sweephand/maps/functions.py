"""Functions of users by their digests, and functions of ours that declare their options.

A digest is that of a pickle, with code in place of the names of functions. It covers code,
constants, defaults, closures, the globals that the code names, and objects with the code of
their classes. A function or class of a library is its name. It is that of one version of
Python, whose code it is.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Self

from sweephand.maps.key import Key

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.maps.workers import OpenContext


class _Limited:
    """What takes memory within a limit of the source."""

    max_bytes: int | None = None

    def within(self, max_bytes: int) -> Self:
        """Return the same for a source of so much memory."""
        made = copy(self)
        object.__setattr__(made, "max_bytes", max_bytes)  # of a frozen class too
        return made


class Lengths(_Limited, ABC):
    """Lengths of the streams that a map makes of a sequence, as ``size=`` of a map.

    Attributes
    ----------
    name : str
        All that decides what it returns: what is measured is kept under it.
    streams : tuple of str
        Those whose lengths it returns.
    heads : dict of int
        By stream of ``bytes``, how many of a sample are enough for most sequences.
    max_bytes : int or None
        As of a `KnownMap`.
    """

    name: str
    streams: tuple[str, ...]
    heads: Mapping[str, int] = {}

    @abstractmethod
    def __call__(self, sequence: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the length of each of the streams; ValueError if the sequence has none."""

    def of_heads(self, sequence: Mapping[str, Any]) -> Mapping[str, int] | None:
        """Return the lengths where samples are cut to `heads`; None if these are not enough."""
        return self(sequence)


class KnownMap(_Limited, ABC):
    """A function of a sequence that declares the options of `Deserializer.map` itself.

    Attributes
    ----------
    name : str
    is_random : bool
        True if it takes a key.
    variant : str
        What else its values depend on, in the fingerprint of a state; keys do not.
    functions : tuple, optional
        Functions of the user that its values depend on beside what its name says; by default
        all of its attributes decide.
    size : {"same", "measured"}, callable or Lengths
        What it does to sizes.
    max_bytes : int or None
        Memory that a call may take, by the source; None: as much as the machine has.
    """

    name: str
    is_random: bool = False
    variant: str = ""
    functions: tuple[Callable[..., Any], ...] | None = None
    size: Literal["same", "measured"] | Callable[[Mapping[str, int], Key], int] | Lengths = (
        "same"
    )

    def learned(self, corpus: Corpus, opening: OpenContext) -> KnownMap:
        """Return the map with all that it learns from a corpus when that is opened."""
        return self

    def classes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of classes, by the stream that has their numbers."""
        return {}

    def declared(self, stream: str) -> Mapping[str, Any]:
        """Return declarations of a stream: ``loss_mask``, ``parts`` or ``carried``."""
        return {}

    @abstractmethod
    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return the mapped sequence."""


_SEPARATOR, _NONE = "\x1f", "?"  # before a digest; and in place of one, before the reason
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), tuple)


def function_digest(*functions: object) -> str:
    """Return the digest of functions, 16 hex digits; "?" and the reason if they have none."""
    try:
        return _digest(functions)
    except Exception as error:
        return f"{_NONE}{error}"


def with_digest(words: str, digest: str) -> str:
    """Return the words for a function with its digest, as names of a corpus have it."""
    return f"{words}{_SEPARATOR}{digest}" if digest else words


def split_digest(words: str) -> tuple[str, str]:
    """Return the words without a digest, and the digest or ""."""
    words, _, digest = words.partition(_SEPARATOR)
    return words, digest


def why_undigested(words: str) -> str:
    """Return the reason why a function has no digest, or "" if it has or needs none."""
    digest = split_digest(words)[1]
    return digest.removeprefix(_NONE) if digest.startswith(_NONE) else ""


def _digest(value: object) -> str:
    found = blake2b(digest_size=8)
    _Digester(SimpleNamespace(write=found.update), 4).dump(value)
    return found.hexdigest()


class _Digester(pickle._Pickler):
    """Pickles what other versions of a function do not have in common."""

    def memoize(self, obj: Any) -> None:
        if type(obj) not in _PLAIN:  # equal constants may be one object or several
            super().memoize(obj)  # type: ignore[misc]

    def reducer_override(self, value: Any) -> Any:
        """Return a function, its arguments and a state, which stand for a value."""
        kind = type(value)
        if isinstance(value, type):
            if _is_library(value.__module__):
                return NotImplemented  # its name
            own = {k: v for k, v in vars(value).items() if callable(v) or k[:2] != "__"}
            own.pop("_abc_impl", None)
            return dict, (), (value.__qualname__, value.__bases__, own)
        if kind is FunctionType:
            return dict, (), _parts_of(value)
        if kind is CodeType:
            counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount
            names = value.co_names, value.co_varnames, counts, value.co_flags
            return dict, (), (value.co_code, value.co_exceptiontable, value.co_consts, names)
        if kind in (set, frozenset):
            return set, (sorted(map(_digest, value)),)
        if kind is ModuleType:
            return dict, (), value.__name__
        if kind is property:
            return kind, (value.fget, value.fset, value.fdel)
        if kind in (classmethod, staticmethod):
            return kind, (value.__func__,)
        if isinstance(value, KnownMap) and value.functions is not None:
            return dict, (), (value.name, value.variant, value.functions)
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        is_own = kind is MethodType or not _is_library(kind.__module__)
        if callable(wrapped) and not is_own:  # cached, or compiled
            return dict, (), (kind.__name__, wrapped)
        if kind.__module__.startswith("tokenizers"):
            return dict, (), value.to_str()
        if hasattr(value, "backend_tokenizer"):
            return dict, (), _tokenizer(value)
        if kind.__module__.startswith("torch") and hasattr(value, "untyped_storage"):
            flat = value.detach().cpu().contiguous().reshape(-1)
            flat = flat.view(sys.modules["torch"].uint8).numpy()
            return dict, (), (tuple(value.shape), str(value.dtype), flat)
        return NotImplemented


def _parts_of(value: FunctionType) -> Any:
    """Return the name of a function of a library, or all that a function is made of."""
    code, module = value.__code__, str(value.__globals__.get("__name__"))
    is_library = _is_library(module)
    if is_library and "<" not in code.co_qualname:
        return module, code.co_qualname
    if value.__doc__ is not None and code.co_consts[:1] == (value.__doc__,):
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    named = {} if is_library else dict(_globals_of(code, value.__globals__))
    cells = [one.cell_contents for one in value.__closure__ or () if one != CellType()]
    return code, value.__defaults__, value.__kwdefaults__, cells, named, vars(value)


def _tokenizer(value: Any) -> Any:
    """Return the parts of a tokenizer of `transformers`, wherever it was loaded from."""
    described = json.loads(value.backend_tokenizer.to_str())
    described |= {"truncation": None, "padding": None}  # which it sets at each call
    names = ("padding_side", "truncation_side", "model_max_length", "chat_template")
    options = [getattr(value, name, None) for name in names]
    return (
        type(value).__qualname__,
        described,
        options,
        sorted(value.special_tokens_map.items()),
    )


def _globals_of(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that code names, and of modules of the user the attributes."""
    yield from _named(code.co_names, known)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant, known)


def _named(names: Sequence[str], known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in names:
        if (found := known.get(name)) is not None:
            yield name, found
            if isinstance(found, ModuleType) and not _is_library(found.__name__):
                others = [one for one in names if one != name]  # it may be within itself
                yield from ((f"{name}.{one}", it) for one, it in _named(others, vars(found)))


def _is_library(module: str) -> bool:
    """Return True for modules of Python, of installed packages, and of this one."""
    found = sys.modules.get(module)
    if found is None or module == "__main__":
        return False
    path = Path(getattr(found, "__file__", None) or os.__file__)
    folders = Path(os.__file__).parent, Path(__file__).parents[1]
    is_ours = any(path.is_relative_to(folder) for folder in folders)
    return is_ours or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
