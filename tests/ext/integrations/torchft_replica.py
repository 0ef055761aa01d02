"""A replica under torchft, run by test_torchft.py.

usage: torchft_replica.py NAME LIGHTHOUSE JOURNAL STEPS DIES_AT

It trains until so many steps are committed over all replicas; in its step DIES_AT it dies. The
first two begin together, and the first one waits for who comes back before its 30th step.
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchft
from tests.torch.ranks import SIZE, make_source

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import ElasticSteps

AWAITED = {("first", 0): "second", ("second", 0): "first", ("first", 30): "back"}


def main() -> None:
    name, lighthouse, journal, last, dies_at = sys.argv[1:]
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    weights = torch.zeros(2)

    def state() -> dict[str, Any]:
        return {"weights": weights.clone(), "steps": steps.state_dict()}

    def load(state: dict[str, Any]) -> None:
        weights.copy_(state["weights"])
        steps.load_state_dict(state["steps"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=5)),
        load_state_dict=load,
        state_dict=state,
        min_replica_size=1,
        init_sync=False,  # else of the first step one replica's share counts
        timeout=timedelta(seconds=10),
        quorum_timeout=timedelta(seconds=20),
        replica_id=name,
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=lighthouse,
    )
    steps = ElasticSteps(make_source(randomization_seed=5), SIZE, sh.torchft.alive(manager))
    taken = 0
    Path(journal).with_name(f"{name} is here").touch()
    with Path(journal).open("a") as told:
        while manager.current_step() < int(last):
            if other := AWAITED.get((name, manager.current_step())):
                while not Path(journal).with_name(f"{other} is here").exists():
                    time.sleep(0.01)
            time.sleep(0.005)  # as a step takes some time
            manager.start_quorum()
            share = steps.next()
            taken += 1
            if taken == int(dies_at):
                os.kill(os.getpid(), signal.SIGKILL)
            gradient = torch.tensor([share.num_samples, 1.0])
            manager.allreduce(gradient).wait()
            committed = manager.should_commit()
            steps.commit(committed)
            if committed:
                weights += gradient
                ids = share.ids if manager.is_participating() else []
                line = [steps.current_position, ids, manager.num_participants()]
                told.write(json.dumps(line) + "\n")
                told.flush()
    print(json.dumps({"weights": weights.tolist(), "position": steps.current_position}))
    manager.shutdown(wait=False)
    os._exit(0)


if __name__ == "__main__":
    main()
