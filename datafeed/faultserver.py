"""Serve objects as S3 does, slowly and with faults, to try how a client bears it.

In a program, or a test::

    with FaultServer({"bucket/a": data}, script=lambda ask: Fault("reset", 1000) if ask.nth == 0 else None) as server:
        store = open_store("s3://bucket", {"endpoint_url": server.url, "anon": True})

At a terminal, for the objects in DIR/BUCKET::

    python -m datafeed.faultserver DIR --latency p50=120ms,p99=1s,0.0001=5s --bandwidth 100MB --fail 0.01
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from datafeed.errors import ConfigError
from datafeed.faults import Ask, Bandwidth, Fault, Latency, Script, parse_latency, shares
from datafeed.sizes import parse_size

_STEP_NBYTES = 2**20
_CAPPED_STEP_NBYTES = 2**16
_PAGE = b"<html><body>Please log in</body></html>"
_REASONS = {200: "OK", 206: "Partial Content", 403: "Forbidden", 404: "Not Found", 412: "Precondition Failed"}


@dataclass(frozen=True, slots=True)
class _Object:
    """Name an object's bytes: in memory, or a file's."""

    data: bytes | None
    path: str
    size: int
    etag: str


class FaultServer:
    """Serve GET, HEAD and listings on loopback, path-style, whatever the signature; a thread for each connection.

    Args:
        objects: A folder of buckets, or objects by "bucket/key"; may be changed while it runs.
        latency: Before each answer.
        bandwidth: Bytes a second over all connections; None for no limit.
        script: What goes wrong.
        port: To listen on; 0 for a free one.

    Attributes:
        url: Its address, for `endpoint_url`.
        asked: How often each (method, key, start, end) was asked for.
        sent: Bytes of bodies that were sent.
    """

    def __init__(
        self,
        objects: Mapping[str, bytes] | str | os.PathLike[str],
        *,
        latency: Latency | None = None,
        bandwidth: float | None = None,
        script: Script | None = None,
        port: int = 0,
    ) -> None:
        self.objects = objects
        self.latency = latency or Latency()
        self.bandwidth = Bandwidth(bandwidth)
        self.script = script
        self.asked: Counter[tuple[str, str, int | None, int | None]] = Counter()
        self.sent = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="faultserver", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and end all connections."""
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    @property
    def gets(self) -> int:
        """How many GETs of objects came."""
        with self._lock:
            return sum(count for (method, *_), count in self.asked.items() if method == "GET")

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock, suppress(OSError):
                spare = b""
                while not self._closing.is_set():
                    head, end, spare = spare.partition(b"\r\n\r\n")
                    while not end:
                        more = sock.recv(65536)
                        if not more:
                            return
                        head, end, spare = (head + more).partition(b"\r\n\r\n")
                    if not self._answer(sock, head):
                        return
        finally:
            with self._lock:
                self._open.discard(sock)

    def _answer(self, sock: socket.socket, head: bytes) -> bool:
        """Answer a request; False where that ended the connection."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        parts = urlsplit(target)
        key = unquote(parts.path).strip("/") if "/" not in parts.path.strip("/") else unquote(parts.path)[1:]
        query = parse_qs(parts.query, keep_blank_values=True)
        if "/" not in key:
            self._closing.wait(self.latency.draw())
            return self._whole(sock, 200, self._listing(key, query), {"Content-Type": "application/xml"})
        ask = self._noted(method, key, headers)
        fault = self.script(ask) if self.script else None
        self._closing.wait(self.latency.draw())
        return _Answer(self, sock, ask).give(fault)

    def _noted(self, method: str, key: str, headers: Mapping[str, str]) -> Ask:
        start, end = None, None
        said = headers.get("range", "")
        if said.startswith("bytes="):
            first, _, last = said.removeprefix("bytes=").partition("-")
            start, end = int(first), int(last) + 1 if last else None
        with self._lock:
            number = self.asked.total()
            nth = self.asked[method, key, start, end]
            self.asked[method, key, start, end] += 1
        return Ask(method, key, start, end, number, nth, headers)

    def found(self, key: str) -> _Object | None:
        """Return an object; None where there is none."""
        if isinstance(self.objects, Mapping):
            data = self.objects.get(key)
            return None if data is None else _Object(data, "", len(data), f'"{hashlib.md5(data).hexdigest()}"')  # noqa: S324  (what S3 gives)
        root = os.path.realpath(self.objects)
        path = os.path.realpath(os.path.join(root, key))
        if not path.startswith(f"{root}/") or not os.path.isfile(path):
            return None
        status = os.stat(path)
        return _Object(None, path, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"')

    def count(self, nbytes: int) -> None:
        """Note bytes of a body that were sent."""
        with self._lock:
            self.sent += nbytes

    def _keys(self) -> list[str]:
        if isinstance(self.objects, Mapping):
            return sorted(self.objects)
        root = os.path.realpath(self.objects)
        return sorted(
            os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names
        )

    def _listing(self, bucket: str, query: Mapping[str, Sequence[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        contents, folders = [], set()
        for key in (key.removeprefix(f"{bucket}/") for key in self._keys() if key.startswith(f"{bucket}/{prefix}")):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            found = self.found(f"{bucket}/{key}")
            if found is not None:
                contents.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{found.size}</Size><ETag>{escape(found.etag)}</ETag></Contents>"
                )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        body = f"<Name>{escape(bucket)}</Name><IsTruncated>false</IsTruncated>{''.join(contents)}{common}"
        return f'<?xml version="1.0"?><ListBucketResult>{body}</ListBucketResult>'.encode()

    def _whole(self, sock: socket.socket, status: int, body: bytes, headers: Mapping[str, str]) -> bool:
        sock.sendall(head_of(status, {**headers, "Content-Length": str(len(body))}) + body)
        return True


class _Answer:
    """Answer one request for an object."""

    def __init__(self, server: FaultServer, sock: socket.socket, ask: Ask) -> None:
        self._server = server
        self._sock = sock
        self._ask = ask

    def give(self, fault: Fault | None) -> bool:
        """Send it; False where that ended the connection."""
        if fault is not None and fault.kind in {"status", "html", "garbage"}:
            return self._instead(fault)
        found = self._server.found(self._ask.key)
        if found is None:
            return self._error(Fault("status", status=404, code="NoSuchKey"))
        etag = '"another"' if fault is not None and fault.kind == "etag" else found.etag
        if self._ask.headers.get("if-match", etag) != etag:
            return self._error(Fault("status", status=412, code="PreconditionFailed"))
        whole = self._ask.start is None or (fault is not None and fault.kind == "whole")
        start, end = 0 if whole else self._ask.start or 0, found.size if whole else self._ask.end or found.size
        if start >= found.size and not whole:
            headers = {"Content-Range": f"bytes */{found.size}"}
            return self._error(Fault("status", status=416, code="InvalidRange", headers=headers))
        return self._bytes(replace(found, etag=etag), 200 if whole else 206, (start, min(end, found.size)), fault)

    def _bytes(self, found: _Object, status: int, span: tuple[int, int], fault: Fault | None) -> bool:
        start, end = span
        kind = fault.kind if fault is not None else ""
        told = end - start
        if fault is not None:
            told += {"short": -fault.nbytes, "long": fault.nbytes}.get(kind, 0)
        shift = 1 if kind == "range" else 0
        headers = {"Content-Length": str(told), "ETag": found.etag, "Accept-Ranges": "bytes"}
        if status == 206:
            headers["Content-Range"] = f"bytes {start + shift}-{end - 1 + shift}/{found.size}"
        self._sock.sendall(head_of(status, headers))
        if self._ask.method == "HEAD":
            return True
        if fault is not None and kind in {"reset", "close", "stall", "trickle"}:
            return self._broken(found, span, fault)
        self._send(found, start, min(end, start + told))
        if told > end - start:
            self._sock.sendall(b"\0" * (told - (end - start)))
        return True

    def _broken(self, found: _Object, span: tuple[int, int], fault: Fault) -> bool:
        start, end = span
        if fault.kind == "trickle":
            while start < end and not self._server._closing.wait(0.05):  # noqa: SLF001  (its own part)
                step = max(int(fault.nbytes * 0.05), 1)
                self._send(found, start, min(start + step, end))
                start += step
            return True
        cut = min(start + fault.nbytes, end)
        self._send(found, start, cut)
        if fault.kind == "stall":
            self._server._closing.wait(fault.seconds)  # noqa: SLF001  (its own part)
            self._send(found, cut, end)
            return True
        if fault.kind == "reset":
            time.sleep(0.05)  # a reset discards what the other side has not read yet
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _send(self, found: _Object, start: int, end: int) -> None:
        server = self._server
        step = _STEP_NBYTES if server.bandwidth.bytes_per_s is None else _CAPPED_STEP_NBYTES
        fd = -1 if found.data is not None else os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                count = min(step, end - start)
                server.bandwidth.take(count)
                if found.data is not None:
                    self._sock.sendall(memoryview(found.data)[start : start + count])
                else:
                    count = os.sendfile(self._sock.fileno(), fd, start, count)
                    if not count:
                        raise OSError(f"{found.path} became shorter while it was sent")
                start += count
                server.count(count)
        finally:
            if fd >= 0:
                os.close(fd)

    def _instead(self, fault: Fault) -> bool:
        if fault.kind == "garbage":
            self._sock.sendall(b"SSH-2.0-none\r\n")
            return False
        if fault.kind == "html":
            headers = {"Content-Type": "text/html", "Content-Length": str(len(_PAGE))}
            self._sock.sendall(head_of(200, headers) + _PAGE)
            return True
        return self._error(fault)

    def _error(self, fault: Fault) -> bool:
        fields = {
            "Code": fault.code,
            "Message": f"{fault.code} was asked for",
            "RequestId": f"R{self._ask.number}",
            **fault.extra,
        }
        body = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
        sent = b"" if self._ask.method == "HEAD" else f"<Error>{body}</Error>".encode()
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(sent)), **fault.headers}
        self._sock.sendall(head_of(fault.status, headers) + sent)
        return True


def head_of(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the head of a reply."""
    date = {"Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), "Server": "datafeed-faultserver"}
    lines = [f"{name}: {value}" for name, value in {**date, **headers}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}", *lines, "", ""]).encode()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a folder of buckets until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m datafeed.faultserver", description="Serve DIR/BUCKET as S3, with faults."
    )
    parser.add_argument("folder", metavar="DIR", help="a folder of buckets")
    parser.add_argument("--port", type=int, default=0, help="to listen on, on loopback; a free one by default")
    parser.add_argument("--latency", default="p50=0s", help="p50=120ms,p99=1s,0.0001=5s")
    parser.add_argument("--bandwidth", help="bytes a second over all connections, such as 100MB")
    parser.add_argument("--fail", type=float, default=0.0, help="the share of GETs that get 503 SlowDown")
    parser.add_argument("--reset", type=float, default=0.0, help="the share that is reset after 64 KiB")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(argv)
    try:
        latency = parse_latency(said.latency, said.seed)
        bandwidth = None if said.bandwidth is None else float(parse_size(said.bandwidth))
        if not Path(said.folder).is_dir():
            raise ConfigError(f"expected a folder of buckets, found {said.folder!r}")  # noqa: TRY301  (told as the others)
    except ConfigError as exc:
        parser.error(str(exc))
    script = shares([(Fault("status"), said.fail), (Fault("reset", 65536), said.reset)], said.seed)
    with FaultServer(said.folder, latency=latency, bandwidth=bandwidth, script=script, port=said.port) as server:
        print(f"serving {said.folder} at {server.url}: endpoint_url={server.url}, anon=True", flush=True)  # noqa: T201  (a command)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
