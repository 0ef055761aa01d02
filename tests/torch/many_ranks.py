"""What four ranks do in test_many_ranks.py, and ranks that are killed again and again."""

import gc
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist
from tests.torch.launch import environment, free_port
from tests.torch.ranks import PATIENT, SIZE, begin, make_source, raised
from torch.distributed.device_mesh import init_device_mesh

from sweephand.torch.distributed import Control, ElasticSteps, coordinate

PHASES = (4, 2, 3, 1, 4)
STEPS = 200  # in each


def come_and_go(rank: int, num_ranks: int, folder: Path) -> list[list[Any]]:
    """Train with four ranks, then two, three, one and four, in one run; some steps abort."""
    begin()
    groups = [dist.new_group(list(range(alive))) for alive in PHASES]
    told, now, draw = [], (1, 0), random.Random(7)
    steps = ElasticSteps(make_source(randomization_seed=6), SIZE, lambda: now)
    for phase, group in enumerate(groups):
        aborts = [draw.random() < 0.05 for _ in range(2 * STEPS)]
        if rank >= PHASES[phase]:
            continue
        state = [steps.state_dict()]
        dist.broadcast_object_list(state, 0, group)
        steps.load_state_dict(state[0])
        now, control, done = coordinate(group), Control(PATIENT, group), 0
        for is_aborted in aborts:
            share = steps.next()
            control.agree(minibatch=share)
            steps.commit(not is_aborted)
            if not is_aborted:
                told.append([phase * STEPS + done, share.ids])
                done += 1
            if done == STEPS:
                break
    dist.barrier()
    return told


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
    """Kill a rank of a few at some moment, let others go on from the checkpoint, and so on.

    Every eighth one is stopped, and killed when the others have found out.
    """
    draw, slowest = random.Random(9), 0.0
    for number in range(kills):
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
        stops = number % 8 == 7
        os.kill(children[killed], signal.SIGSTOP if stops else signal.SIGKILL)
        begun = time.monotonic()
        ended = {
            child: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for child in children
            if not (stops and child == children[killed])
        }
        if stops:
            os.kill(children[killed], signal.SIGKILL)
            ended[children[killed]] = os.waitstatus_to_exitcode(
                os.waitpid(children[killed], 0)[1]
            )
        codes = [ended[child] for child in children]
        slowest = max(slowest, time.monotonic() - begun)
        wanted = [-9 if rank == killed else 7 for rank in range(count)]
        if codes != wanted:
            return {"codes": codes, "wanted": wanted}
    trained = json.loads((folder / "checkpoint.json").read_text())["trained"]
    alone = make_source(randomization_seed=8)
    whole = [sorted(alone.next_minibatch(SIZE).ids) for _ in trained]
    return {"slowest": slowest, "steps": len(trained), "is_whole": trained == whole}


# -- restarts by torchrun --
def restarted(folder: Path, deaths: int) -> None:
    """Train under torchrun, and die in so many lives; the last one tells the parameters."""
    from tests.torch.trained import Run

    begin()
    rank, lives = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    run = Run("ddp")
    stood = 0
    if (folder / "source.json").exists():
        saved = json.loads((folder / "source.json").read_text())
        run.source.load_state_dict(saved["source"])
        run.trainer.restore_from_checkpoint(folder / f"model{saved['step']}")
        stood = saved["step"]
    for step in range(stood, 5):
        if rank == 1 and step == 1 + lives and lives < deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        run.steps(step, 1)
        run.trainer.save_checkpoint(folder / f"model{step + 1}")
        if rank == 0:
            saved = {"source": run.source.state_dict(), "step": step + 1}
            (folder / "source.tmp").write_text(json.dumps(saved))
            (folder / "source.tmp").replace(folder / "source.json")
    told = {"parameters": run.parameters(), "lives": lives}
    (folder / f"rank{rank}.json").write_text(json.dumps(told))
    # Gloo's threads drop the tensors of the last collective under the interpreter's lock, and
    # abort the process if it has ended by then; a group that nothing holds waits for them.
    del run
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "restarted":
        restarted(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(kill_again_and_again(Path(sys.argv[2]), int(sys.argv[3]))))
