"""Children of a test: a fork that carries out an action and ends without the test's own end."""

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path


def fork(action: Callable[[], object], out: Path | None = None) -> int:
    """Carry out an action in a child, and write what it returns as JSON; return its process id.

    It exits with 1 after an exception, which it prints.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            told = action()
            if out is not None:
                out.write_text(json.dumps(told))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child
