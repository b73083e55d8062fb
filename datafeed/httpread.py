"""Read replies of HTTP/1.1 as steps that never block."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Generator

Steps = Generator[int, None, None]  # yields the events of `select.poll` to wait for

READ = select.POLLIN
WRITE = select.POLLOUT
_MOST_HEAD_NBYTES = 64 * 1024
_CHUNK_NBYTES = 16 * 1024


class WireError(Exception):
    """Report bytes that are no reply of HTTP, or an end that comes too early."""


class Ended(WireError):
    """Report a connection that was closed before a reply."""


class Reply:
    """Hold what stands before a body.

    Attributes:
        status: The number of the status.
        headers: By names in lower case.
        body: Of an error, its first 64 KiB.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""

    @property
    def length(self) -> int | None:
        """The body's bytes, as the server tells them; None where it does not."""
        told = self.headers.get("content-length", "")
        return int(told) if told.isdecimal() and not self.chunked else None

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks that tell their sizes."""
        return "chunked" in self.headers.get("transfer-encoding", "").lower()


class Refused(Exception):
    """Carry a reply of another status than 200 or 206."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class Inbound:
    """Read what comes over a connection; used by one thread.

    Args:
        sock: The connection, which does not block.

    Attributes:
        spare: What was received and not yet used.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.spare = b""

    def head(self) -> Generator[int, None, Reply]:
        """Return the next reply's head, that of a final one.

        Raises:
            WireError: There is none.
        """
        self.spare = b""
        while True:
            head, end, rest = self.spare.partition(b"\r\n\r\n")
            if end:
                self.spare = rest
                reply = _parsed(head)
                if reply.status >= 200:
                    return reply
                continue
            more = yield from self._more()
            if not more:
                raise Ended("the connection was closed before a reply")
            self.spare += more
            if len(self.spare) > _MOST_HEAD_NBYTES or not b"HTTP/1.".startswith(self.spare[:7]):
                raise WireError(f"no reply of HTTP: {self.spare[:60]!r}")

    def fill(self, into: memoryview, count: Callable[[int], None]) -> Steps:
        """Receive a body straight into memory, or as much as comes.

        Args:
            into: The memory.
            count: Told after each step how much of it is filled.
        """
        filled = min(len(self.spare), into.nbytes)
        into[:filled] = self.spare[:filled]
        self.spare = self.spare[filled:]
        count(filled)
        receive, nbytes = self._sock.recv_into, into.nbytes
        while filled < nbytes:
            try:
                received = receive(into[filled:])
            except (BlockingIOError, ssl.SSLWantReadError):
                yield READ
                continue
            if not received:
                return
            filled += received
            count(filled)

    def collected(self, reply: Reply, most: int) -> Generator[int, None, bytes]:
        """Return a body of any framing, cut off where it is longer than asked."""
        if reply.chunked:
            return (yield from self._dechunked(most))
        wanted = most if reply.length is None else min(reply.length, most)
        while len(self.spare) < wanted:
            more = yield from self._more()
            if not more:
                break
            self.spare += more
        body, self.spare = self.spare[:wanted], self.spare[wanted:]
        return body

    def _dechunked(self, most: int) -> Generator[int, None, bytes]:
        body = b""
        while len(body) < most:
            line = yield from self._until(b"\r\n")
            digits = line.partition(b";")[0].strip()
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                raise WireError(f"no size of a chunk: {line[:60]!r}")
            size = int(digits, 16)
            if not size:
                while (yield from self._until(b"\r\n")):
                    pass
                break
            while len(self.spare) < size + 2 and len(body) + len(self.spare) < most:
                more = yield from self._more()
                if not more:
                    raise WireError(f"the connection was closed after {len(body) + len(self.spare)} bytes")
                self.spare += more
            body += self.spare[:size]
            self.spare = self.spare[size + 2 :]
        return body[:most]

    def _until(self, end: bytes) -> Generator[int, None, bytes]:
        while end not in self.spare:
            more = yield from self._more()
            if not more or len(self.spare) > _MOST_HEAD_NBYTES:
                raise WireError(f"the connection was closed, or a line too long: {self.spare[:60]!r}")
            self.spare += more
        line, _, self.spare = self.spare.partition(end)
        return line

    def _more(self) -> Generator[int, None, bytes]:
        """Return bytes that came; none at the end."""
        into = bytearray(_CHUNK_NBYTES)
        count = yield from self._receive(memoryview(into))
        return bytes(into[:count])

    def _receive(self, into: memoryview) -> Generator[int, None, int]:
        while True:
            try:
                return self._sock.recv_into(into)
            except (BlockingIOError, ssl.SSLWantReadError):
                yield READ
            except ssl.SSLWantWriteError:
                yield WRITE


def _parsed(head: bytes) -> Reply:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not status.isdecimal() or len(status) < 3:
        raise WireError(f"no reply of HTTP: {first[:60]!r}")
    headers = {"": version}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Reply(int(status), headers)


def stays_open(reply: Reply) -> bool:
    """Whether the connection may serve another request."""
    said = reply.headers.get("connection", "").lower()
    framed = reply.chunked or reply.length is not None
    return framed and ("keep-alive" in said if reply.headers[""] == "HTTP/1.0" else "close" not in said)
