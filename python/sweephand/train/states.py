"""States in files: JSON, checked when it is read, and arrays by name in zip archives.

`numpy.load` opens such an archive too. Each entry is stored as an ``.npy`` file. Bits for which
NumPy has no dtype, as of bfloat16, are integers in a field whose name says what they are:
``[("bfloat16", "<u2")]``.
"""

import random
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from io import BufferedReader
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sweephand.base.checks import check_flag, check_int, check_number
from sweephand.errors import DataError, StateError
from sweephand.files import local


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while a state is read into `StateError`."""
    try:
        yield
    except StateError:
        raise
    except KeyError as error:
        raise StateError(f"the state of {what} lacks {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise StateError(f"this is no state of {what}: {error}") from error


def check_keys(what: str, state: object, wanted: Collection[str]) -> None:
    """Raise `StateError` unless a state is a mapping with all these keys."""
    if not isinstance(state, Mapping):
        raise StateError(
            f"the state of {what} must be a dict, as its state_dict returns, got {state!r:.100}"
        )
    if missing := set(wanted) - state.keys():
        raise StateError(f"the state of {what} lacks {', '.join(sorted(missing))}")


def decode(kind: Any, value: Any, name: str = "it") -> Any:
    """Return a value of a type that `asdict` and JSON have taken apart; the name is for errors.

    What is of another type raises an error of which `reading` makes a `StateError`; an int is a
    count.
    """
    outer, inner = get_origin(kind) or kind, get_args(kind)
    if NoneType in inner:
        return None if value is None else decode(inner[0], value, name)
    if kind is int:
        return check_int(name, value, 0, 2**63)
    if kind is float:
        return check_number(name, value)
    if kind is bool:
        return check_flag(name, value)
    if kind is str or outer is Literal:
        if not isinstance(value, str) or (inner and value not in inner):
            wanted = " or ".join(map(repr, inner)) or "a str"
            raise TypeError(f"{name} must be {wanted}, got {value!r:.100}")
        return value
    if is_dataclass(kind):
        types = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        return outer(**{one: decode(types[one], value[one], one) for one in names})
    if outer in (list, tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} must be a list, got {value!r:.100}")
        is_pair = outer is tuple and inner[-1] is not Ellipsis
        kinds = inner if is_pair else inner[:1] * len(value)
        return outer(decode(*pair, name) for pair in zip(kinds, value, strict=True))
    if outer in (dict, Mapping):
        return {key: decode(inner[1], one, f"{name}[{key!r}]") for key, one in value.items()}
    return value


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's and NumPy's global generators."""
    python_version, words, gauss = random.getstate()
    return {
        "python": [python_version, list(words), gauss],
        "numpy": plain(np.random.get_state(legacy=False)),  # noqa: NPY002
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set Python's and NumPy's global generators, or raise StateError."""
    with reading("random generators"):
        python_version, words, gauss = state["python"]
        random.setstate((python_version, tuple(words), gauss))
        np.random.set_state(state["numpy"])  # noqa: NPY002


def plain(state: Any) -> Any:
    """Return a state with lists in place of arrays."""
    if isinstance(state, Mapping):
        return {name: plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


Array: TypeAlias = NDArray[Any]

BITS = {
    name: np.dtype([(name, f"<u{size}")])
    for name, size in (("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1))
}


class Sink(Protocol):
    """A target of written bytes."""

    def write(self, data: Any, /) -> object:
        """Write all of them."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file; StateError if it is a link, a pipe or a device."""
    try:
        return local.open_regular(path, follow_links=False)
    except DataError as error:
        raise StateError(str(error)) from None


@dataclass(frozen=True)
class SavedArrays:
    """The content of such a file, held in main memory."""

    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Self:
        """Make them of arrays, over the same memory."""
        return cls(
            {
                n: a.view(BITS[a.dtype.name]) if a.dtype.name in BITS else a
                for n, a in arrays.items()
            }
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file, or raise StateError."""
        found = {}
        try:
            with open_regular(path) as file, zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    with archive.open(name) as entry:  # whose end compares its checksum
                        found[name.removesuffix(".npy")] = np.lib.format.read_array(entry)
        except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError) as error:
            raise StateError(f"{path} is no file of arrays: {error}") from error
        return cls(found)

    def write(self, sink: Sink) -> None:
        """Write the file."""
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
            for name, array in self.arrays.items():
                with archive.open(
                    zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True
                ) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

    def check(self, what: str, wanted: Self) -> None:
        """Raise StateError if names, dtypes or shapes differ from those expected."""
        mine, theirs = ({n: _kind(a) for n, a in one.arrays.items()} for one in (wanted, self))
        differing = [
            f"{name} is {mine.get(name, 'absent')} here and {theirs.get(name, 'absent')} there"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]
        if differing:
            more = f"; and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise StateError(
                f"the checkpoint is of another {what}: {'; '.join(differing[:5])}{more}"
            )


def _kind(array: Array) -> str:
    return f"{(array.dtype.names or [array.dtype.name])[0]} {list(array.shape)}"
