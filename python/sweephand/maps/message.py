"""Objects over a Unix socket: their arrays go beside them, large ones in shared memory.

    header      sizes of what follows, and how many descriptors come with it
    sizes       of every array, in bytes
    pickle      of the object, without its arrays
    arrays      each from a multiple of 64 bytes on: here, or in a memfd whose descriptor comes
                with the header

Shared memory belongs to whoever maps it: the sender keeps nothing, and the receiver's arrays
lie in the mapping, which is gone with the last of them.
"""

from __future__ import annotations

import os
import pickle
import socket
from array import array
from struct import Struct
from typing import Any

from sweephand import _core

_HEADER = Struct("=QQIi")  # bytes of the pickle, of the arrays; their number; descriptors
_SMALL = 1 << 15  # bytes of arrays that are sent with the pickle
_ALIGNMENT = 64
_MOST_DESCRIPTORS = 4


def send(peer: socket.socket, value: object, descriptors: tuple[int, ...] = ()) -> None:
    """Send an object, and descriptors of which the receiver gets its own.

    Raises
    ------
    OSError
        If the other side is gone.
    MemoryError
        If the system has no memory to share.
    """
    views: list[memoryview] = []
    text = pickle.dumps(value, 5, buffer_callback=lambda one: views.append(one.raw()))
    sizes = array("Q", (view.nbytes for view in views))
    size = sum(map(_aligned, sizes))
    if size <= _SMALL:
        header = _HEADER.pack(len(text), size, len(sizes), len(descriptors))
        parts: list[Any] = [header, sizes.tobytes(), text]
        for view in views:
            parts += [view, bytes(_aligned(view.nbytes) - view.nbytes)]
        _send_all(peer, b"".join(parts), descriptors)
        return
    segment = _filled(views)
    try:
        header = _HEADER.pack(len(text), size, len(sizes), -len(descriptors) - 1)
        _send_all(peer, header + sizes.tobytes() + text, (segment, *descriptors))
    finally:
        os.close(segment)


def receive(peer: socket.socket) -> tuple[Any, list[int]]:
    """Return the next object, and the descriptors that come with it.

    Raises
    ------
    EOFError
        If the other side is gone.
    """
    header, descriptors = _receive_header(peer)
    text_size, size, num_arrays, described = _HEADER.unpack(header)
    sizes = array("Q", _receive_exactly(peer, 8 * num_arrays))
    text = _receive_exactly(peer, text_size)
    if described >= 0:
        whole = memoryview(_receive_exactly(peer, size))
    else:
        segment = descriptors.pop(0)
        try:
            whole = _core.read.map_segment(segment, size).data
        finally:
            os.close(segment)
    views, at = [], 0
    for one in sizes:
        views.append(whole[at : at + one])
        at += _aligned(one)
    return pickle.loads(text, buffers=views), descriptors


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _filled(views: list[memoryview]) -> int:
    """Return the descriptor of shared memory with a copy of the views."""
    segment = os.memfd_create("sweephand")
    begin = 0
    try:
        os.ftruncate(segment, sum(_aligned(view.nbytes) for view in views))
        for view in views:
            done = 0
            while done < view.nbytes:
                done += os.pwrite(segment, view[done:], begin + done)
            begin += _aligned(view.nbytes)
    except OSError as error:
        os.close(segment)
        raise MemoryError(f"no shared memory for what maps take and make: {error}") from error
    return segment


def _send_all(peer: socket.socket, data: bytes, descriptors: tuple[int, ...]) -> None:
    sent = socket.send_fds(peer, [data], list(descriptors)) if descriptors else 0
    peer.sendall(memoryview(data)[sent:])


def _receive_header(peer: socket.socket) -> tuple[bytes, list[int]]:
    header, descriptors, *_ = socket.recv_fds(peer, _HEADER.size, _MOST_DESCRIPTORS)
    if not header:
        raise EOFError
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return header + _receive_exactly(peer, _HEADER.size - len(header)), descriptors


def _receive_exactly(peer: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = peer.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count
    return data
