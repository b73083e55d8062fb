"""Send GETs over HTTP/1.1, each as steps that never block, so that one thread can drive several."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from datafeed.httpread import READ, WRITE, Inbound, Refused, Reply, Steps, WireError, stays_open
from datafeed.sockets import Connections, Route, opened, sent

_MOST_ERROR_NBYTES = 64 * 1024  # S3's error documents take under 1 kB
# Below this a connection is as good as dead: an extent of 2 MiB would take minutes.
LEAST_BYTES_PER_S = 10_000


class Request(NamedTuple):
    """Hold a GET as it is sent.

    Attributes:
        route: Where to.
        head: All bytes, up to the empty line.
    """

    route: Route
    head: bytes


class Exchange:
    """Drive one GET: `step` goes on as far as it can without waiting.

    A thread drives it alone. Its memory is written to by `step` only.

    Args:
        connections: Where a connection comes from, and goes to.
        request: What is asked.
        accept: Takes the head of a reply of status 200 or 206, and returns the memory for its body; or raises.
        clock: Tells monotonic seconds.

    Attributes:
        filled: Bytes of the body that are in that memory.
        reply: The head, once it is there.
        started: When it began.
    """

    def __init__(
        self,
        connections: Connections,
        request: Request,
        accept: Callable[[Reply], memoryview],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._request = request
        self._accept = accept
        self._clock = clock
        self._sock: socket.socket | None = None
        self._sent = False
        self.filled = 0
        self.into = memoryview(b"")
        self.reply: Reply | None = None
        self.started = self._marked = clock()
        self._mark = 0
        self._steps = self._run()

    def step(self) -> int:
        """Go on.

        Returns:
            The events to wait for; 0 at the end.

        Raises:
            Refused: The status is neither 200 nor 206.
            WireError: The bytes are no HTTP, or end too early.
            OSError: The connection failed.
        """
        return next(self._steps, 0)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        assert self._sock is not None
        return self._sock.fileno()

    def abandon(self) -> None:
        """End it, with its connection."""
        self._steps.close()

    def patience_s(self) -> float:
        """Return the seconds until `overdue` is to be asked."""
        wiring = self._connections.wiring
        return self._marked + (wiring.read_timeout_s if self._sent else wiring.connect_timeout_s) - self._clock()

    def overdue(self) -> int:
        """Note that time has passed: too little may have come.

        Returns:
            The events to wait for.

        Raises:
            TimeoutError: Too little has come.
        """
        if self.patience_s() > 0:
            return READ if self._sent else WRITE
        wiring = self._connections.wiring
        came = self.filled - self._mark
        self._marked, self._mark = self._clock(), self.filled
        if not self._sent:  # the next address of its name may answer
            return self._steps.throw(TimeoutError(errno.ETIMEDOUT, "no connection in time"))
        if came < LEAST_BYTES_PER_S * wiring.read_timeout_s:
            self.abandon()
            raise TimeoutError(errno.ETIMEDOUT, f"{came} bytes came in {wiring.read_timeout_s:g} s")
        return READ

    def _run(self) -> Steps:
        route = self._request.route
        reusable = False
        try:
            self._sock = self._connections.take(route)
            if self._sock is None or not (yield from self._asked_again()):
                yield from opened(self._connections.wiring, route, self._begin)
                yield from self._ask()
            yield from self._body()
            assert self.reply is not None
            reusable = stays_open(self.reply) and not self._inbound.spare
        finally:
            if self._sock is not None:
                if reusable:
                    self._connections.give(route, self._sock)
                else:
                    self._sock.close()

    def _asked_again(self) -> Generator[int, None, bool]:
        """Ask over a connection that was used before; False where its server had let go of it."""
        try:
            yield from self._ask()
        except (OSError, WireError):
            assert self._sock is not None
            if self._inbound.spare or self.reply is not None:
                raise
            self._sock.close()
            self._sent = False
            return False
        return True

    def _begin(self, sock: socket.socket) -> None:
        self._sock = sock
        self._marked = self._clock()

    def _ask(self) -> Steps:
        assert self._sock is not None
        yield from sent(self._sock, self._request.head)
        self._sent = True
        self._marked = self._clock()
        self._inbound = Inbound(self._sock)
        reply = yield from self._inbound.head()
        if reply.status not in {200, 206}:
            reply.body = yield from self._inbound.collected(reply, _MOST_ERROR_NBYTES)
            raise Refused(reply)
        self.reply = reply

    def _body(self) -> Steps:
        assert self.reply is not None
        self.into = into = self._accept(self.reply)
        if self.reply.length is None:
            body = yield from self._inbound.collected(self.reply, into.nbytes + 1)
            if len(body) > into.nbytes:
                raise WireError(f"the body is longer than the {into.nbytes} bytes that it should have")
            into[: len(body)] = body
            self._count(len(body))
        else:
            yield from self._inbound.fill(into, self._count)
        if self.filled < into.nbytes:
            raise WireError(f"expected {into.nbytes} bytes, and the connection was closed after {self.filled}")

    def _count(self, filled: int) -> None:
        self.filled = filled


def wait(exchanges: Mapping[Exchange, int], timeout_s: float) -> list[Exchange]:
    """Wait until something happened to an exchange.

    Args:
        exchanges: Each, and the events that it waits for.
        timeout_s: The most seconds.

    Returns:
        Those that can go on.
    """
    poll = select.poll()
    by_fd = {}
    for exchange, events in exchanges.items():
        fd = exchange.fileno()
        by_fd[fd] = exchange
        poll.register(fd, events)
    return [by_fd[fd] for fd, _ in poll.poll(max(timeout_s, 0) * 1000)]
