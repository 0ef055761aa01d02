"""Slips in the definition of a stream, and their corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweephand.corpus.casts import as_dtype
from sweephand.errors import ArgumentTypeError

_OTHER_NAMES = {
    **dict.fromkeys(("name", "alias", "key", "column", "stream_name"), "field"),
    **dict.fromkeys(("dim", "dims", "dimension", "size", "sample_shape"), "shape"),
    **dict.fromkeys(("sparse", "is_sparce", "storage_format"), "is_sparse"),
    **dict.fromkeys(("type", "data_type", "element_type"), "dtype"),
    **dict.fromkeys(("transform", "map", "function"), "transforms"),
    **dict.fromkeys(("defines_minibatch_size", "defines_size"), "defines_mb_size"),
}
_ELSEWHERE = {
    "max_sequence_length": "long sequences are for the layout, such as Bucketed or Packed",
    **dict.fromkeys(("scp", "mlf", "context"), "HTK's streams are sweephand.io.StreamDef(...)"),
    "unique": "it has no counterpart; leave it out",
}


def unknown_argument(name: str, arguments: Sequence[str]) -> TypeError:
    """Return the error for an argument that a definition does not have, by those it has."""
    if name in _ELSEWHERE:
        return TypeError(f"StreamDef has no argument {name!r}: {_ELSEWHERE[name]}")
    from difflib import get_close_matches  # only here, as it takes its time to import

    near = get_close_matches(name, arguments, 1)
    meant = _OTHER_NAMES.get(name) or "".join(near)
    advice = f"write {meant}" if meant else f"there are: {', '.join(arguments)}"
    return TypeError(f"StreamDef has no argument {name!r}: {advice}")


def instead_of_definition(name: str, given: object) -> str:
    """Return the definition to write in place of an object that is no definition."""
    definition = f"StreamDef({_arguments(given)})"
    if name.isidentifier():
        return f"{name}={definition}"
    return f"StreamDefs({{{name!r}: {definition}}})"


def _arguments(given: object) -> str:
    if given is None or (isinstance(given, type) and given.__name__ == "StreamDef"):
        return ""
    if isinstance(given, int | tuple | list) and not isinstance(given, bool):
        return f"shape={given!r:.40}"
    if isinstance(given, Mapping):
        return "..., ".join(f"{key}=" for key in list(given)[:8]) + "..." * bool(given)
    try:
        return f"dtype={as_dtype(given).name!r}"
    except ArgumentTypeError:
        return f"field={given!r:.60}" if isinstance(given, str) else "..."
