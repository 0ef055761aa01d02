"""Digest of a user's function: of its code and of all that it is made of.

The digest covers code, constants, defaults, closures, the globals that the code names, the
arguments of a partial function, and the class and attributes of a callable object. A function
or class of a library is its name. It is that of one version of Python, whose code it is.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from inspect import CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from sweephand.maps.known_map import KnownMap

_DIGITS = 16
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_SEPARATOR, _NONE = "\x1f", "?"  # before a digest; and in place of one, before the reason
# What a class has of its own in other versions of Python, or says to people.
_NOT_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"}
    | {"__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__"}
    | {"__static_attributes__", "_abc_impl"}
)


def function_digest(*functions: object) -> str:
    """Return the digest of functions, 16 hex digits; "?" and the reason if they have none."""
    try:
        return _Digester().of(functions).hex()[:_DIGITS]
    except _NoDigestError as error:
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


class _NoDigestError(Exception):
    """An object without a digest, and the names that lead to it."""

    def __init__(self, value: object) -> None:
        self.names: list[str] = []
        self.kind = f"{type(value).__module__}.{type(value).__qualname__}"

    def __str__(self) -> str:
        kind = self.kind.removeprefix("builtins.")
        return f"{'.'.join(reversed(self.names)) or 'it'} is a {kind}"


class _Digester:
    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # objects within which this one is, in order
        self._known: dict[int, tuple[object, bytes]] = {}

    def of(self, value: Any) -> bytes:
        """Return the digest of an object."""
        if type(value) in _PLAIN:
            return _hash(type(value).__name__, repr(value))
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._open:
            return _hash("within", str(self._open[id(value)]))
        self._open[id(value)] = len(self._open)
        try:
            found = self._of_parts(value)
        except RecursionError:
            raise _NoDigestError(value) from None
        finally:
            del self._open[id(value)]
        self._known[id(value)] = value, found  # kept, as its id must not be another's
        return found

    def _of_parts(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype.hasobject:
                return _hash("objects", repr(array.shape), self.of(array.tolist()))
            kind = repr((array.shape, array.dtype.descr))
            return _hash("array", kind, np.ascontiguousarray(array).tobytes())
        if type(value) in (tuple, list):
            if set(map(type, value)) <= _PLAIN:
                return _hash(type(value).__name__, repr(value))
            return _hash(type(value).__name__, *map(self.of, value))
        if isinstance(value, set | frozenset):
            return _hash("set", *sorted(map(self.of, value)))
        if type(value) in (dict, MappingProxyType):
            return self._mapping(value)
        if isinstance(value, ModuleType):
            return _hash("module", value.__name__)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return _hash("method", self.of(value.__func__), self.of(value.__self__))
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, CellType):
            return _hash("cell", self.of(value.cell_contents) if _is_set(value) else b"")
        if isinstance(value, property):
            return _hash("property", *map(self.of, (value.fget, value.fset, value.fdel)))
        if isinstance(value, classmethod | staticmethod):
            return _hash(type(value).__name__, self.of(value.__func__))
        return self._object(value)

    def _mapping(self, value: Mapping[Any, Any]) -> bytes:
        if {*map(type, value), *map(type, value.values())} <= _PLAIN:
            return _hash("dict", repr(list(value.items())))
        found = []
        for key, one in value.items():
            with _called(str(key)):
                found += [self.of(key), self.of(one)]
        return _hash("dict", *found)

    def _class(self, value: type) -> bytes:
        if _is_of_library(value):
            return _hash("class", value.__module__, value.__qualname__)
        own = {name: one for name, one in vars(value).items() if name not in _NOT_OF_CLASSES}
        return _hash("class", self.of(value.__bases__), self._mapping(own))

    def _function(self, value: FunctionType) -> bytes:
        code, module = value.__code__, str(value.__globals__.get("__name__"))
        parts = [value.__defaults__, value.__kwdefaults__]
        if _is_library(code.co_filename):
            if _is_found(value, module, code.co_qualname):
                return _hash("function", module, code.co_qualname)
            own = _hash("library", module, code.co_qualname)
        else:
            own = self._code(code, value.__doc__)
            kept = {k: v for k, v in vars(value).items() if k != "__wrapped__"}
            parts += [dict(_globals_of(code, value.__globals__)), kept]
        inside = []
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            with _called(name):
                inside.append(self.of(cell.cell_contents) if _is_set(cell) else b"")
        return _hash("function", own, *map(self.of, parts), *inside)

    def _code(self, code: CodeType, documentation: str | None = None) -> bytes:
        constants = code.co_consts
        if documentation is not None and constants[:1] == (documentation,):
            constants = constants[1:]
        arguments = code.co_argcount + code.co_kwonlyargcount
        counts = arguments, code.co_posonlyargcount, code.co_argcount
        flags = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE)
        names = code.co_names, code.co_varnames[:arguments], counts, flags
        found = self.of(constants)
        return _hash("code", code.co_code, code.co_exceptiontable, repr(names), found)

    def _object(self, value: Any) -> bytes:
        kind = type(value)
        if isinstance(value, KnownMap) and value.functions is not None:
            return _hash("map", value.name, value.variant, self.of(value.functions))
        try:
            if isinstance(own := getattr(value, "digest", None), str):
                return _hash("digest", own)
            wrapped = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
            if callable(wrapped) and _is_of_library(kind):  # cached, or compiled
                return _hash("wrapped", kind.__name__, self.of(wrapped))
            if kind.__module__.startswith("tokenizers"):
                return _hash("tokenizer", value.to_str())
            if hasattr(value, "backend_tokenizer"):
                return self._tokenizer(value)
            if kind.__module__.startswith("torch") and hasattr(value, "untyped_storage"):
                flat = value.detach().cpu().contiguous().reshape(-1)
                flat = flat.view(sys.modules["torch"].uint8).numpy()
                return _hash("tensor", repr((value.shape, value.dtype)), self.of(flat))
            known = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if known is None else known(value)
        except _NoDigestError:
            raise
        except Exception as error:
            raise _NoDigestError(value) from error
        if isinstance(reduced, str):
            return _hash("global", str(getattr(value, "__module__", "")), reduced)
        make, arguments, state, items, pairs = (*reduced, *[None] * 3)[:5]
        rest = [None if one is None else list(one) for one in (items, pairs)]
        return _hash("object", *map(self.of, (make, arguments, state, *rest)))

    def _tokenizer(self, value: Any) -> bytes:
        """Return the digest of a tokenizer of `transformers`, wherever it was loaded from.

        It sets truncation and padding at each call.
        """
        import json

        described = json.loads(value.backend_tokenizer.to_str())
        for name in ("truncation", "padding"):
            described.pop(name, None)
        names = ("padding_side", "truncation_side", "model_max_length", "chat_template")
        options = [repr(getattr(value, name, None)) for name in names]
        special = repr(sorted(value.special_tokens_map.items()))
        kind = type(value).__qualname__
        text = json.dumps(described, allow_nan=False)
        return _hash("tokenizer", kind, text, *options, special)


def _hash(*parts: str | bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()


@contextmanager
def _called(name: str) -> Iterator[None]:
    """Add a name to the error of an object within."""
    try:
        yield
    except _NoDigestError as error:
        error.names.append(name)
        raise


def _is_set(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _globals_of(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that code names, of modules of the user the attributes."""
    from dis import get_instructions

    name, found = "", None
    for one in get_instructions(code):
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(found, ModuleType):
            name, found = f"{name}.{one.argval}", getattr(found, one.argval, None)
        elif one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in known:
            name, found = one.argval, known[one.argval]
        else:
            found = None
        if found is not None:
            yield name, found
        if isinstance(found, ModuleType) and _is_library(_file_of(found)):
            found = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant, known)


def _is_of_library(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return _is_found(kind, kind.__module__, kind.__qualname__) and _is_library(_file_of(module))


def _is_found(value: object, module: str, name: str) -> bool:
    """Return True if a module has the value under a name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _file_of(module: ModuleType | None) -> str:
    own = "" if module is None or module.__name__ == "__main__" else "<frozen >"
    return getattr(module, "__file__", None) or own


@lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    """Return True for files of Python, of installed packages, and of this one."""
    import sysconfig

    if not file or file.startswith("<"):
        return file.startswith("<frozen ")
    path = Path(file)
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    ours = Path(__file__).parents[1]
    return any(path.is_relative_to(one) for one in (sysconfig.get_paths()["stdlib"], ours))
