"""A network of namespaces on this machine, whose links have rates.

    node 0 --veth--+
    node 1 --veth--+-- bridge, in a namespace of its own
    store  --veth--+

Both ends of a veth pair send through a token bucket, so that a link has its rate in each
direction. Nothing of it reaches another network.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_NAMESPACES = Path("/run/netns")
_NAME = "sweephand-"  # and the number of the process
_CLONE_NEWNET = 0x40000000
_BURST = 16_384  # bytes that may pass at once
_QUEUE = 1 << 22  # bytes that wait; senders slow down before any is dropped


@dataclass(frozen=True)
class Network:
    """Hosts with an address each, `10.89.0.1` and on.

    Attributes
    ----------
    prefix : str
        Of the names of the namespaces.
    num_hosts : int
    """

    prefix: str
    num_hosts: int

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"10.89.0.{host + 1}"

    def enter(self, host: int) -> None:
        """Move this thread, and those that it starts from now on, to a host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (_NAMESPACES / f"{self.prefix}{host}").open() as file:
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def limit(self, host: int, rate: float) -> None:
        """Give the link of a host a rate in bytes a second, and little latency."""
        for namespace, device in ((f"{self.prefix}{host}", "eth0"), (self.hub, f"p{host}")):
            bucket = f"rate {round(8 * rate)}bit burst {_BURST} limit {_QUEUE}"
            _call(f"tc -n {namespace} qdisc replace dev {device} root tbf {bucket}")

    def traffic(self, host: int) -> tuple[int, int]:
        """Return the bytes that a host has received and sent, with headers of TCP/IP."""
        out = _call(
            f"ip netns exec {self.prefix}{host} cat "
            "/sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes"
        )
        received, sent = out.split()
        return int(received), int(sent)

    @property
    def hub(self) -> str:
        """The namespace of the bridge."""
        return f"{self.prefix}hub"


def why_not() -> str:
    """Return the reason that there can be no network here; empty if there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "namespaces of networks need root"
    try:
        with network(1) as found:
            found.limit(0, 1e6)
    except OSError as error:
        return f"iproute2 is needed: {error}"
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)} is not permitted here: {error.stderr.strip()}"
    return ""


@contextmanager
def network(num_hosts: int) -> Iterator[Network]:
    """Make a network of hosts, and remove it at the end."""
    _remove_old()
    made = Network(f"{_NAME}{os.getpid()}-", num_hosts)
    names = [made.hub, *(f"{made.prefix}{host}" for host in range(num_hosts))]
    try:
        _make(made, names)
        yield made
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError, OSError):
                _call(f"ip netns del {name}")


def _remove_old() -> None:
    """Remove the networks of processes that were killed."""
    for path in _NAMESPACES.glob(f"{_NAME}*"):
        process = path.name.removeprefix(_NAME).partition("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            with suppress(subprocess.CalledProcessError):
                _call(f"ip netns del {path.name}")


def _make(made: Network, names: Sequence[str]) -> None:
    for name in names:
        _call(f"ip netns add {name}")
    _call(f"ip -n {made.hub} link add hub type bridge")
    _call(f"ip -n {made.hub} link set hub up")
    for host, name in enumerate(names[1:]):
        pair = f"p{host} type veth peer name eth0 netns {name}"
        _call(f"ip -n {made.hub} link add {pair}")
        _call(f"ip -n {made.hub} link set p{host} master hub up")
        _call(f"ip -n {name} address add {made.address(host)}/24 dev eth0")
        _call(f"ip -n {name} link set eth0 up")
        _call(f"ip -n {name} link set lo up")


def _call(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    return done.stdout
