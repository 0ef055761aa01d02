"""What the ranks do in test_remote.py: each function runs in processes of its own."""

from pathlib import Path
from typing import Any

import torch.distributed as dist
from tests.loans.test_loans import sequences, source

import sweephand as sh
from sweephand.torch.distributed import Control, RankDesk


def lend(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Train, be killed, go on from a state to the end, and fail together."""
    dist.init_process_group("gloo")
    control = Control(100.0)

    def new_desk() -> RankDesk:
        return RankDesk(source(sequences()).lend(copies=2) if rank == 0 else None, control)

    desk = new_desk()
    trained = desk.done(desk.take(2).tickets).tolist()
    out = desk.take(1 + rank).tickets
    state = desk.state_dict()
    desk.done(desk.take(3).tickets)
    desk = new_desk()
    desk.load_state_dict(state)
    while not desk.is_finished:
        loan = desk.take(3)
        assert len(loan.minibatch.ids) == len(loan.tickets)
        trained += desk.done(loan.tickets).tolist()
    refused = ""
    try:
        desk.done(trained[:rank])  # rank 1 gives one twice
    except sh.LoanError as error:
        refused = str(error)
    counts = desk.report()
    dist.destroy_process_group()
    return {"trained": trained, "out": out.tolist(), "refused": refused, "report": counts}
