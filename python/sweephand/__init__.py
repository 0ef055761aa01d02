"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module

from sweephand.base.public_names import attach_names

# The public names are those of ``__init__.pyi``. Each is imported when it is asked for, as few
# programs need all rooms.
_find, _, _names = attach_names(__name__, __file__)
__all__ = sorted({*_names, "__version__"} - {"torch"})  # `import *` shall not bring torch


def __dir__() -> list[str]:
    """Return the public names; rooms of the package are private."""
    return sorted([*__all__, "torch"])


def __getattr__(name: str) -> object:
    """Return a public name, or raise with its replacement."""
    if name == "__version__":
        return import_module("importlib.metadata").version("sweephand")
    if name in _names:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if name != "torch":
                raise
            raise ImportError(
                f"sweephand.torch needs {error.name}: pip install 'sweephand[torch]'"
            ) from error
    if name[0] == "_":  # also when the package itself imports its core
        raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
    if name in import_module("sweephand.train").__all__:
        raise AttributeError(f"sweephand has no {name!r}; it is sweephand.train.{name}")
    from sweephand.base.other_names import no_such_name

    raise no_such_name(__name__, name, _names)
