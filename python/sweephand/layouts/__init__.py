"""Layouts: how a minibatch is composed and laid out."""

import lazy_loader

# Each is imported when it is asked for: most sources have one.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
