"""Events on the timeline: changes from a nominal time on, and of nothing before it.

`MinibatchSource.events` adds them to a source that runs; ``MinibatchSource(..., events=...)``
takes what it gives, or a file, and is the same run.
"""

import lazy_loader

# Each is imported when it is asked for: most sources have none.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
