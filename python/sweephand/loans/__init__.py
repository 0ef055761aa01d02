"""Sequences on loan: each is trained once in its sweep, in whatever order loans end."""

from sweephand.base.public_names import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__)
