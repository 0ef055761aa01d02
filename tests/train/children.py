"""Two workers that train together, each a child of one program."""

import json
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


def tell_two(tell: Callable[[Path, int], object]) -> None:
    """Be a program of two workers in a group of torch; print as JSON what both tell."""
    import torch._dynamo  # what optimizers import, before there are children
    import torch.distributed as dist

    folder = Path(sys.argv[1])

    def work(rank: int) -> None:
        torch.set_num_threads(1)
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("gloo", meeting, rank=rank, world_size=2)
        (folder / f"{rank}.json").write_text(json.dumps(tell(folder, rank)))
        dist.destroy_process_group()

    fork_two(work)
    print(f"[{', '.join((folder / f'{rank}.json').read_text() for rank in range(2))}]")
