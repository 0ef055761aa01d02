"""Layouts: how a minibatch is composed and laid out."""

from sweephand.base.public_names import attach_names

# Each is imported when it is asked for: most sources have one.
__getattr__, __dir__, __all__ = attach_names(__name__, __file__)
