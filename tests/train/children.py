"""Two workers that train together, each a child of one program."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def run(program: str, folder: Path) -> str:
    """Run a program of the tests with the folder of its workers; return what it prints."""
    [path] = Path(__file__).parents[1].rglob(program)
    done = subprocess.run(
        [sys.executable, path, folder],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fork_two(work: Callable[[int], object]) -> None:
    """Let two children work, of ranks 0 and 1, and wait for both."""
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            work(rank)
            os._exit(0)
        children.append(child)
    for child in children:
        _, code = os.waitpid(child, 0)
        if code:
            sys.exit(f"a worker ended with {code}")


def tell_two(folder: Path, tell: Callable[[int], str]) -> list[str]:
    """Let two children tell something by files in a folder; return both."""
    files = [folder / f"{rank}.json" for rank in range(2)]
    fork_two(lambda rank: files[rank].write_text(tell(rank)))
    return [file.read_text() for file in files]
