"""Maps: functions of users over sequences, and what is measured by reading a corpus once."""

from sweephand.base.public_names import attach_names

# The door of this room: other rooms import these, each when it is asked for.
__getattr__, __dir__, __all__ = attach_names(__name__, __file__)
