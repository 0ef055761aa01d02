"""What four ranks do in test_many_ranks.py, and ranks that are killed again and again."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.torch.launch import environment, free_port
from tests.torch.ranks import PATIENT, SIZE, begin, make_source, raised
from torch.distributed.device_mesh import init_device_mesh

from sweephand.torch.distributed import Control, coordinate


def mesh(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Share over two of four ranks, whose neighbours have the same data."""
    begin()
    both = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    control = Control(PATIENT, both)
    source = make_source(max_sweeps=1)
    ids = [share.ids for share in control.minibatches(source, SIZE)]
    other = make_source()
    mine = (2, control.partition_index) if rank != 3 else (2, 0)
    share = other.next_minibatch(40, None, None, *mine)
    return {
        "coordinate": coordinate(both),
        "ids": ids,
        "sum": control.sum([1 + control.partition_index]),
        "unlike": raised(lambda: control.agree(minibatch=share)),
        "wrong": raised(lambda: Control(PATIENT, both, "dp" if rank else ("dp", "tp"))),
    }


# -- ranks that are killed --
def live(rank: int, num_ranks: int, folder: Path) -> None:
    """Train from the last checkpoint on, which tells what was trained, until an error."""
    begin(40)
    path, source = folder / "checkpoint.json", make_source(randomization_seed=8)
    trained: list[list[str]] = []
    if path.exists():
        saved = json.loads(path.read_text())
        source.load_state_dict(saved["source"])
        trained = saved["trained"]
    with Control(10.0) as control:
        for share in control.minibatches(source, SIZE):
            shares = control.gather(share.ids)
            trained.append(sorted(name for ids in shares for name in ids))
            if rank == 0:
                state = {"source": source.state_dict(), "trained": trained}
                path.with_suffix(".tmp").write_text(json.dumps(state))
                path.with_suffix(".tmp").replace(path)
            (folder / "begun").touch()


def kill_again_and_again(folder: Path, kills: int) -> dict[str, Any]:
    """Kill a rank of a few at some moment, let others go on from the checkpoint, and so on."""
    draw, slowest = random.Random(9), 0.0
    for _ in range(kills):
        (folder / "begun").unlink(missing_ok=True)
        count, port, children = draw.randint(2, 4), free_port(), []
        for rank in range(count):
            child = os.fork()
            if child == 0:
                os.environ.update(environment(rank, count, port))
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                code = raised(lambda r=rank, n=count: live(r, n, folder))  # type: ignore[misc]
                os._exit(7 if code[0] == "WorkerError" else 1)
            children.append(child)
        while not (folder / "begun").exists():
            time.sleep(0.01)
        time.sleep(draw.random() * 0.2)
        killed = draw.randrange(count)
        os.kill(children[killed], signal.SIGKILL)
        begun = time.monotonic()
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        slowest = max(slowest, time.monotonic() - begun)
        wanted = [-9 if rank == killed else 7 for rank in range(count)]
        if codes != wanted:
            return {"codes": codes, "wanted": wanted}
    trained = json.loads((folder / "checkpoint.json").read_text())["trained"]
    alone = make_source(randomization_seed=8)
    whole = [sorted(alone.next_minibatch(SIZE).ids) for _ in trained]
    return {"slowest": slowest, "steps": len(trained), "is_whole": trained == whole}


if __name__ == "__main__":
    print(json.dumps(kill_again_and_again(Path(sys.argv[1]), int(sys.argv[2]))))
