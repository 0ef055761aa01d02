"""The nodes of a job as members of one cache: they meet in the store of torch.distributed."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sweephand.files.cluster.members import Member
from sweephand.files.cluster.seat import free_port

_PATIENCE = timedelta(seconds=60)

_Meeting = tuple[Sequence[Member], Member, str]
_met: dict[Path, tuple[object, _Meeting]] = {}  # by folder, with the group of that time


def meet(
    folder: Path, room: int, address: tuple[str, int] | None, token: str | None
) -> _Meeting:
    """Return the members of all ranks, this node among them, and their token.

    Ranks of one machine and folder are one member, served where its first rank says. All ranks
    must come, once for each folder; later calls return the same.

    Raises
    ------
    RuntimeError
        If there is no process group, or some rank does not come.
    ValueError
        If this machine's address is unknown.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "peers='torch' needs the process group: call torch.distributed.init_process_group "
            "before the source is made, or name the addresses"
        )
    folder = folder.absolute()
    group, known = dist.group.WORLD, _met.get(folder)
    if known is not None and known[0] is group:
        return known[1]
    number = sum(one is group for one, _ in _met.values())
    store = distributed_c10d.PrefixStore(
        f"sweephand/cluster/{number}", distributed_c10d._get_default_store()
    )
    host, port = address or _own_address()
    name = f"{socket.gethostname()}:{folder}"
    store.set(f"rank/{dist.get_rank()}", json.dumps([host, port, room, name], allow_nan=False))
    if dist.get_rank() == 0:
        _gather(store, dist.get_world_size(), token or secrets.token_hex())
    _wait(store, ["all"], "rank 0 has not called all ranks together")
    shared, entries = json.loads(store.get("all"))
    members = [Member(*entry) for entry in entries]
    found = members, next(one for one in members if one.name == name), shared
    _met[folder] = group, found
    return found


def _gather(store: Any, count: int, token: str) -> None:
    """Publish a member for each machine and folder, as its first rank describes it."""
    keys = [f"rank/{rank}" for rank in range(count)]
    _wait(store, keys, "not all ranks have made a source with this cache")
    members: dict[str, list[object]] = {}
    for packed in store.multi_get(keys):
        entry = json.loads(packed)
        members.setdefault(entry[-1], entry)
    store.set("all", json.dumps([token, list(members.values())], allow_nan=False))


def _wait(store: Any, keys: Sequence[str], reason: str) -> None:
    import torch.distributed as dist

    try:
        store.wait(list(keys), _PATIENCE)
    except dist.DistStoreError:
        seconds = _PATIENCE.total_seconds()
        raise RuntimeError(f"peers='torch': {reason} within {seconds:g} seconds") from None


def _own_address() -> tuple[str, int]:
    """Return the address by which this machine reaches the first machine, and a free port."""
    first = os.environ.get("MASTER_ADDR")
    if not first:
        raise ValueError(
            "peers='torch' finds the address of this node by MASTER_ADDR, which is not set; "
            "give address=(host, port)"
        )
    family = socket.getaddrinfo(first, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(*family[:2]) as probe:
        probe.connect(family[4])
        host: str = probe.getsockname()[0]
    return host, free_port(host)
