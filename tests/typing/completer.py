"""Print what jedi completes in scripts: it is started with nothing but the paths it is given.

An editable install would stand between: jedi does not understand its finder.
"""

import json
import sys
from pathlib import Path
from typing import Any

folder, *paths = sys.argv[1:]
sys.path[:0] = paths
sys.dont_write_bytecode = True

import jedi  # noqa: E402 -- found by those paths
from jedi.api.environment import InterpreterEnvironment  # noqa: E402

jedi.settings.cache_directory = folder
project = jedi.Project(folder, sys_path=sys.path)


def asked(code: str) -> dict[str, list[str]]:
    """Return what comes at the end of a script: the names, and the signatures of calls."""
    place = Path(folder) / "script.py"
    script: Any = jedi.Script(
        code, path=place, project=project, environment=InterpreterEnvironment()
    )
    lines = code.split("\n")
    end = len(lines), len(lines[-1])
    return {
        "names": [one.name for one in script.complete(*end)],
        "signatures": [one.to_string() for one in script.get_signatures(*end)],
    }


json.dump([asked(code) for code in json.load(sys.stdin)], sys.stdout)
