"""Stand between a client and a server, for tests: by TLS, and as a proxy."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate for 127.0.0.1 that signs itself; return the files of it and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(place, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(form))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(form, serialization.PrivateFormat.PKCS8, plain))
    return str(folder / "cert.pem"), str(folder / "key.pem")


@contextmanager
def relay(target: str, tls: tuple[str, str] | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Pass each connection on to a server; one that begins with CONNECT is answered first, as a proxy does.

    Args:
        target: The server's "HOST:PORT", whatever is asked for.
        tls: Files of a certificate and its key, to speak TLS with the client.

    Yields:
        The port, and the heads of the requests that began a connection.
    """
    heads: list[bytes] = []
    host, _, port = target.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_pass, args=(client, (host, int(port)), tls, heads), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1], heads
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _pass(client: socket.socket, target: tuple[str, int], tls: tuple[str, str] | None, heads: list[bytes]) -> None:
    with suppress(OSError):
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            client = context.wrap_socket(client, server_side=True)
        with client, socket.create_connection(target) as server:
            first = client.recv(65536)
            heads.append(first.partition(b"\r\n\r\n")[0])
            if first.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(_as_for_a_server(first))
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join(10)


def _as_for_a_server(head: bytes) -> bytes:
    """Return a request as its server takes it: a proxy is asked for whole URLs."""
    method, url, rest = head.split(b" ", 2)
    return b" ".join((method, b"/" + url.split(b"/", 3)[3], rest)) if url.startswith(b"http://") else head


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
