"""Open connections to servers and through proxies, and keep them for the next request."""

from __future__ import annotations

import base64
import errno
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from datafeed.httpread import READ, WRITE, Inbound, Refused, Steps


class Route(NamedTuple):
    """Say where connections go: a proxy's place, where there is one, else the server's."""

    scheme: str
    host: str
    port: int
    proxy: str


@dataclass(frozen=True, slots=True)
class Wiring:
    """Say how connections are made.

    Attributes:
        connect_timeout_s: Seconds for a connection, for each address that a name has.
        read_timeout_s: Seconds in which at least LEAST_BYTES_PER_S must come.
        proxies: Proxy URLs by the scheme of what is asked through them.
        tls: For https.
        idle: Connections that are kept open while nobody uses them.
    """

    connect_timeout_s: float = 5.0
    read_timeout_s: float = 15.0
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)  # one may hold a password
    tls: ssl.SSLContext | None = None
    idle: int = 64


class _Socket(socket.socket):
    """Close when the last reference goes, without a word: an idle connection has no other end."""

    def __del__(self) -> None:
        self.close()


class _SecureSocket(ssl.SSLSocket):
    """As `_Socket`, over TLS."""

    def __del__(self) -> None:
        self.close()


class Connections:
    """Keep open sockets for the next request; safe to share between threads of one process.

    Args:
        wiring: How they are made.
    """

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self._lock = threading.Lock()
        self._idle: dict[Route, list[socket.socket]] = {}

    def route(self, url: str) -> Route:
        """Return where a URL's requests go."""
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return Route(parts.scheme, parts.hostname or "", port, self.wiring.proxies.get(parts.scheme, ""))

    def take(self, route: Route) -> socket.socket | None:
        """Return an open connection, where there is one that the server has not closed."""
        while True:
            with self._lock:
                sockets = self._idle.get(route)
                if not sockets:
                    return None
                sock = sockets.pop()
            if not _readable(sock):  # whatever there is to read, an end too, answers no request
                return sock
            sock.close()

    def give(self, route: Route, sock: socket.socket) -> None:
        """Take back a connection whose reply was read to its end."""
        with self._lock:
            sockets = self._idle.setdefault(route, [])
            if len(sockets) < self.wiring.idle:
                sockets.append(sock)
                return
        sock.close()


def proxy_header(user: str | None, password: str | None) -> str:
    """Return the line that names a proxy's user; none where there is none."""
    if user is None:
        return ""
    said = base64.b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()
    return f"Proxy-Authorization: Basic {said}\r\n"


def _readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, READ)
    return bool(poll.poll(0))


def opened(wiring: Wiring, route: Route, started: Callable[[socket.socket], None]) -> Steps:
    """Open a connection that does not block; each address of the server's name is tried.

    Args:
        wiring: How.
        route: Where to.
        started: Told of the socket whose events are waited for: the last one is the connection.

    Raises:
        OSError: There is none.
        Refused: A proxy does not let it through.
    """
    proxy = urlsplit(route.proxy)
    host, port = (proxy.hostname or "", proxy.port or 80) if route.proxy else (route.host, route.port)
    error: OSError = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = _Socket(family, kind, protocol)
        started(sock)
        try:
            yield from _connected(sock, address)
            break
        except OSError as exc:
            sock.close()
            error = exc
    else:
        raise error
    if route.scheme == "https":
        if route.proxy:
            yield from _tunnel(sock, route, proxy.username, proxy.password)
        assert wiring.tls is not None
        wiring.tls.sslsocket_class = _SecureSocket
        secure = wiring.tls.wrap_socket(sock, server_hostname=route.host, do_handshake_on_connect=False)
        started(secure)
        yield from _handshaken(secure)


def sent(sock: socket.socket, data: bytes) -> Steps:
    """Send all of it."""
    left = memoryview(data)
    while left:
        try:
            left = left[sock.send(left) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            yield WRITE
        except ssl.SSLWantReadError:
            yield READ


def _tunnel(sock: socket.socket, route: Route, user: str | None, password: str | None) -> Steps:
    """Have the proxy connect to the server."""
    place = f"{route.host}:{route.port}"
    yield from sent(sock, f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{proxy_header(user, password)}\r\n".encode())
    reply = yield from Inbound(sock).head()
    if reply.status != 200:
        raise Refused(reply)


def _connected(sock: socket.socket, address: object) -> Steps:
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    error = sock.connect_ex(address)  # type: ignore[arg-type]  # what getaddrinfo gave
    if error == errno.EINPROGRESS:
        yield WRITE
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def _handshaken(sock: ssl.SSLSocket) -> Steps:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            yield READ
        except ssl.SSLWantWriteError:
            yield WRITE
        else:
            return
