"""Let one conversion at a time write to a destination."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from datafeed.errors import OutputDiffers, OutputError, OutputLocked
from datafeed.localstore import LocalStore, file_in_the_way
from datafeed.storage import Store

LOCK_NAME = ".convert.lock"
_log = logging.getLogger(__name__)


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Hold the lock of a destination.

    A local lock is the kernel's (flock) and dies with its holder. Elsewhere it is an object: best effort, since two
    that begin in the same instant do not see each other.

    Args:
        store: The destination.

    Raises:
        OutputLocked: Another conversion holds it; the message says which.
        OutputError: The destination cannot be written.
    """
    with _local(store.url) if isinstance(store, LocalStore) else _remote(store):
        yield


@contextmanager
def _local(folder: str) -> Iterator[None]:
    path = f"{folder}/{LOCK_NAME}"
    fd = _acquire(folder, path)
    try:
        before = os.pread(fd, 4096, 0)
        if before:
            _log.warning("took over the stale lock of %s: %s ended without releasing it", folder, _who(before))
        os.ftruncate(fd, 0)
        os.pwrite(fd, _mine(), 0)
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)  # before the lock is released: nobody else can hold this file's lock yet
        os.close(fd)


def _acquire(folder: str, path: str) -> int:
    while True:
        try:
            os.makedirs(folder, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            other = file_in_the_way(folder)
            if other:
                raise OutputDiffers(f"{other!r} is a file: name a new or empty directory as the destination") from exc
            text = f"cannot write to the destination: {exc.strerror}; name a directory that may be written"
            raise OutputError(exc.errno, text, folder) from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(fd, path):
                return fd
        except BlockingIOError as exc:
            held = os.pread(fd, 4096, 0)
            os.close(fd)
            raise OutputLocked(f"{folder}: output locked by {_who(held)}; wait for it, or stop it") from exc
        os.close(fd)


def _same_file(fd: int, path: str) -> bool:
    """Tell whether the locked file is still the one at the path: the holder before may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def _remote(store: Store) -> Iterator[None]:
    try:
        held: bytes | None = store.read(LOCK_NAME)
    except FileNotFoundError:
        held = None
    if held is not None:
        if not _dead(held):
            text = f"output locked by {_who(held)}; wait for it, or delete {LOCK_NAME} there if it has ended"
            raise OutputLocked(f"{store.url}: {text}")
        _log.warning("took over the stale lock of %s: %s ended without releasing it", store.url, _who(held))
    with store.writer(LOCK_NAME) as sink:
        sink.write(_mine())
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            store.delete(LOCK_NAME)


def _mine() -> bytes:
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now}).encode()


def _holder(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(data: bytes) -> str:
    """Describe a holder; its file is empty for an instant after it took the lock."""
    holder = _holder(data)
    pid, host, since = (str(holder.get(key, "unknown")) for key in ("pid", "host", "since"))
    return f"pid {pid} on host {host} since {since}"


def _dead(data: bytes) -> bool:
    holder = _holder(data)
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
