"""Members of a cluster that are slow, broken, or of another kind."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs

import numpy as np

from sweephand.files.node_cache.entries import head_of

_End = threading.Event
Behaviour = Callable[[socket.socket, bytes, int, _End], None]
"""Answers a request for a key and a size, until an event."""


def _entry(key: bytes, size: int) -> bytes:
    content = np.zeros(size, np.uint8)
    return head_of(key, content) + content.tobytes()


def _send(sock: socket.socket, body: bytes, *, says: int | None = None, more: str = "") -> None:
    length = len(body) if says is None else says
    lines = ["HTTP/1.1 200 OK", "Sweephand-Cluster: 1", f"Content-Length: {length}", more]
    sock.sendall("\r\n".join(line for line in lines if line).encode() + b"\r\n\r\n" + body)


def a_flipped_bit(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Send zeros of which one bit is none."""
    body = bytearray(_entry(key, size))
    body[-size // 2] ^= 4
    _send(sock, bytes(body))


def another_entry(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Send an entry that is whole, of another key."""
    _send(sock, _entry(key[::-1], size))


def a_shorter_entry(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Send an entry that is whole, of another size."""
    _send(sock, _entry(key, size - 1))


def a_part(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """End in the middle."""
    body = _entry(key, size)
    _send(sock, body[: size // 2], says=len(body))


def too_much(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Announce more than any memory has."""
    _send(sock, _entry(key, size), says=1 << 50)


def nothing(sock: socket.socket, key: bytes, size: int, end: _End) -> None:
    """Never answer."""
    end.wait()


def a_drop_now_and_then(sock: socket.socket, key: bytes, size: int, end: _End) -> None:
    """Send some bytes of the body at a time."""
    body = _entry(key, size)
    _send(sock, b"", says=len(body))
    while body and not end.wait(0.02):
        sock.sendall(body[:1])
        body = body[1:]


def a_header_now_and_then(sock: socket.socket, key: bytes, size: int, end: _End) -> None:
    """Send headers without an end."""
    sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while not end.wait(0.02):
        sock.sendall(b"X: y\r\n")


def another_version(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Speak a protocol of the future."""
    body = _entry(key, size)
    head = f"HTTP/1.1 200 OK\r\nSweephand-Cluster: 2\r\nContent-Length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body)


def another_program(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Be a web server."""
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def no_web_server(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Speak another protocol."""
    sock.sendall(b"\x00\x01SSH-2.0-OpenSSH_9.2\r\n")


def elsewhere(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Name another place."""
    sock.sendall(
        b"HTTP/1.1 302 Found\r\nSweephand-Cluster: 1\r\nLocation: http://127.0.0.1:9/\r\n"
        b"Content-Length: 0\r\n\r\n"
    )


def an_error(sock: socket.socket, key: bytes, size: int, _: _End) -> None:
    """Fail."""
    sock.sendall(b"HTTP/1.1 500 Oops\r\nSweephand-Cluster: 1\r\nContent-Length: 0\r\n\r\n")


WRONG = [
    a_flipped_bit,
    another_entry,
    a_shorter_entry,
    a_part,
    too_much,
    another_version,
    another_program,
    no_web_server,
    elsewhere,
    an_error,
]
SLOW = [nothing, a_drop_now_and_then, a_header_now_and_then]


@contextmanager
def serving(behave: Behaviour, host: str, port: int) -> Iterator[list[str]]:
    """Behave at an address, and note the requests."""
    end, asked = threading.Event(), list[str]()
    threads: list[threading.Thread] = []

    def answer(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = sock.recv(65536)
                if not part:
                    return
                head += part
            target = head.split()[1].decode()
            asked.append(target)
            key = re.search(r"/entries/([0-9a-f]{32})", target)
            query = parse_qs(target.partition("?")[2])
            size = int(query.get("bytes", ["64"])[0])
            behave(sock, bytes.fromhex(key[1]) if key else bytes(16), size, end)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                sock, _ = server.accept()
                threads.append(threading.Thread(target=answer, args=(sock,)))
                threads[-1].start()

    server = socket.create_server((host, port))
    threads.append(threading.Thread(target=accept, args=(server,)))
    threads[0].start()
    try:
        yield asked
    finally:
        end.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for thread in threads:
            thread.join()
