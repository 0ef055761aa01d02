"""Training: sessions, checkpoints, ledgers, receipts, rollback, batch size, progress."""

import lazy_loader

# The public names are those of ``__init__.pyi``; a file is imported when a name of it is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
