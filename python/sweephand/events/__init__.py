"""Events on the timeline: changes from a nominal time on, and of nothing before it.

`MinibatchSource.events` adds them to a running source; ``MinibatchSource(..., events=...)``
takes the same list, or a file, and repeats the run.
"""

from sweephand.base.public_names import attach_names

# Each is imported when it is asked for: most sources have none.
__getattr__, __dir__, __all__ = attach_names(__name__, __file__)
