"""Calls in processes of their own, for memory: those of asv are forks of a large one."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_CODE = """
import importlib, json, sys
module, function, arguments = sys.argv[1:]
print(json.dumps(getattr(importlib.import_module(module), function)(*json.loads(arguments))))
"""


def in_own_process(
    function: Callable[..., list[int]], *arguments: object, **environment: str
) -> list[int]:
    """Return what a function of the suite returns."""
    above = Path(__file__).parents[function.__module__.count(".")]
    environment["PYTHONPATH"] = os.pathsep.join([str(above), *filter(None, sys.path)])
    name = function.__name__
    told = subprocess.run(
        [sys.executable, "-c", _CODE, function.__module__, name, json.dumps(arguments)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: list[int] = json.loads(told.stdout)
    return found


def resident() -> int:
    """Return the bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def most_resident() -> int:
    """Return the most bytes that it had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
