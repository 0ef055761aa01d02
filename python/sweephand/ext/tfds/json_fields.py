"""JSON files of Protocol Buffers messages, whose faults are errors that name the file."""

import json
from collections.abc import Iterator
from typing import TypeVar

from sweephand import DataError
from sweephand.extend import AnyPath, read_file

Value = TypeVar("Value", str, bool, list[object], dict[str, object])


class JsonFields:
    """The fields of one JSON object. Absent fields have their default values."""

    def __init__(self, file: AnyPath, values: object) -> None:
        if not isinstance(values, dict):
            raise DataError(f"expected a JSON object, found {values!r:.80}", str(file))
        self._file = file
        self._values: dict[str, object] = values

    def damaged(self, reason: str) -> DataError:
        """Return the error for what the file says."""
        return DataError(reason, str(self._file))

    def _get(self, name: str, default: Value) -> Value:
        value = self._values.get(name, default)
        if not isinstance(value, type(default)):
            wanted = type(default).__name__
            raise self.damaged(f"field {name!r} must be a {wanted}, got {value!r:.80}")
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        return self._get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return self._get(name, False)

    def nested(self, name: str) -> "JsonFields":
        """Return an object."""
        return JsonFields(self._file, self._get(name, {}))

    def nested_list(self, name: str) -> list["JsonFields"]:
        """Return a list of objects."""
        return [JsonFields(self._file, value) for value in self._get(name, [])]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that are there."""
        return iter(self._values)

    def has(self, name: str) -> bool:
        """Return True if a field is there."""
        return name in self._values

    def texts(self, name: str) -> list[str]:
        """Return a list of strings."""
        values = self._get(name, [])
        if not all(isinstance(value, str) for value in values):
            raise self.damaged(f"field {name!r} must hold strings")
        return [str(value) for value in values]

    def integer(self, name: str, default: int = 0, *, least: int = 0) -> int:
        """Return an integer in ``[least, 2^63)``."""
        return self._to_integer(name, self._values.get(name, default), least)

    def integers(self, name: str, *, least: int = 0) -> tuple[int, ...]:
        """Return a list of integers in ``[least, 2^63)``."""
        return tuple(self._to_integer(name, value, least) for value in self._get(name, []))

    def _to_integer(self, name: str, value: object, least: int) -> int:
        # 64-bit integers are text in the JSON form of Protocol Buffers.
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise self.damaged(
                f"field {name!r} must hold integers in [{least}, 2^63), got {value!r:.80}"
            )
        return value


def read_json(file: AnyPath) -> object:
    """Return the content of a JSON file.

    FileNotFoundError if there is no such file; DataError if it is not valid JSON.
    """
    try:
        content: object = json.loads(read_file(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", str(file)) from error
    return content
