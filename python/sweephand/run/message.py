"""Objects over a Unix socket that keeps messages apart, in one message each.

    header      how many sizes, and how much shared memory, or 0
    sizes       of the pickle, and of every array, in bytes
    pickle      of the object, without its arrays
    arrays      each from a multiple of 64 bytes on

A large message is in shared memory, and only its header and a descriptor go through the socket.
The memory belongs to the receiver: the sender keeps nothing, and the receiver's arrays are in
the mapping, which ends with the last of them. So a message always fits into a socket that the
other side has read empty, and nobody waits to send.
"""

from __future__ import annotations

import os
import pickle
import socket
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any

from sweephand import _core

_HEADER = Struct("=QQ48x")  # number of sizes, bytes of shared memory; 64, for the alignment
_SMALL = 1 << 17  # bytes that go through the socket, which is quicker than to map memory
_ALIGNMENT = 64
_MOST_DESCRIPTORS = 4


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a socket for messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(peer: socket.socket, value: object, descriptors: Sequence[int] = ()) -> None:
    """Send an object, and descriptors of which the receiver gets its own."""
    views: list[memoryview] = []
    text = pickle.dumps(value, 5, buffer_callback=lambda one: views.append(one.raw()))
    views.insert(0, memoryview(text))
    sizes = array("Q", (view.nbytes for view in views))
    parts: list[Any] = [sizes, bytes(-8 * len(sizes) % _ALIGNMENT)]
    for view in views:
        parts += [view, bytes(-view.nbytes % _ALIGNMENT)]
    size = sum(memoryview(part).nbytes for part in parts)
    if size <= _SMALL:
        header = _HEADER.pack(len(sizes), 0)
        socket.send_fds(peer, [b"".join([header, *parts])], descriptors)
        return
    segment = _filled(parts)
    try:
        socket.send_fds(peer, [_HEADER.pack(len(sizes), size)], [segment, *descriptors])
    finally:
        os.close(segment)


def receive(peer: socket.socket) -> tuple[Any, list[int]]:
    """Return the next object, and the descriptors that come with it."""
    message, descriptors, *_ = socket.recv_fds(peer, _HEADER.size + _SMALL, _MOST_DESCRIPTORS)
    if not message:
        raise EOFError
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    num_sizes, size = _HEADER.unpack_from(message)
    body = memoryview(bytearray(message))[_HEADER.size :]
    if size:
        segment = descriptors.pop(0)
        try:
            body = memoryview(_core.read.map_segment(segment, size))  # type: ignore[arg-type]
        finally:
            os.close(segment)
    views, at = [], 8 * num_sizes
    for one in body[:at].cast("Q"):
        at += -at % _ALIGNMENT
        views.append(body[at : at + one])
        at += one
    return pickle.loads(views[0], buffers=views[1:]), descriptors


def _filled(parts: list[Any]) -> int:
    """Return the descriptor of shared memory that holds the parts."""
    segment = os.memfd_create("sweephand")
    try:
        with open(segment, "wb", closefd=False) as file:
            file.writelines(parts)
    except OSError as error:
        os.close(segment)
        raise MemoryError(f"no shared memory for what maps take and make: {error}") from error
    return segment
