"""Training: sessions, checkpoints, ledgers, receipts, rollback, batch size, progress."""

from sweephand.base.public_names import attach_names

# The public names are those of ``__init__.pyi``; a file is imported when a name of it is used.
_find, __dir__, __all__ = attach_names(__name__, __file__)


def __getattr__(name: str) -> object:
    """Return a public name, or raise with the replacement of a name of CNTK."""
    if name in __all__:
        return _find(name)
    from sweephand.base.other_names import no_such_name

    raise no_such_name(__name__, name, __all__)
