"""Count what a cache directory holds, for all processes that share it.

The file `ledger`, little-endian: u32 length, u32 CRC32C, then JSON of that length: bytes by dataset, and a counter that
every admission raises. Whoever changes it holds the kernel's lock on it, which ends with its holder.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from datafeed._native import crc32c
from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import Folder

_HEAD = struct.Struct("<II")
_LARGEST = 2**24
_POLL_S = 0.002


@dataclass(slots=True)
class Usage:
    """Hold what a cache directory holds.

    Args:
        used: Bytes by dataset id.
        turn: How many admissions there were.
    """

    used: dict[str, int] = field(default_factory=dict)
    turn: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all datasets."""
        return sum(self.used.values())

    def add(self, dataset: str, nbytes: int) -> None:
        """Count bytes that come, or go where they are negative."""
        self.used[dataset] = max(0, self.used.get(dataset, 0) + nbytes)
        if not self.used[dataset]:
            del self.used[dataset]


class Ledger:
    """Give one process after the other the usage of a cache directory, to read and to change.

    Args:
        folder: The directory.
        files: What does the file operations.
        scan: Counts anew what the directory holds, where the file is missing or damaged.
    """

    def __init__(self, folder: Folder, files: Files, scan: Callable[[], dict[str, int]]) -> None:
        self._files = files
        self._scan = scan
        self._path = folder.path
        self._thread = threading.Lock()
        self._file: Descriptor = files.open("ledger", os.O_RDWR | os.O_CREAT, folder.root)

    @contextmanager
    def locked(self, timeout_s: float) -> Iterator[Usage]:
        """Hold the lock; what the usage was changed to is written at the end, also after an exception.

        Args:
            timeout_s: How long to wait for it.

        Raises:
            TimeoutError: Others held it for so long.
            OSError: The volume fails.
        """
        if not self._thread.acquire(timeout=timeout_s):
            raise TimeoutError(f"{self._path}/ledger: another thread held it for {timeout_s:.0f} s")
        try:
            self._wait(timeout_s)
            try:
                usage, written = self._read()
                try:
                    yield usage
                finally:
                    data = _encode(usage)
                    if data != written:
                        self._files.overwrite(self._file, data)
            finally:
                fcntl.flock(self._file.fd, fcntl.LOCK_UN)
        finally:
            self._thread.release()

    def recount(self, timeout_s: float) -> None:
        """Count anew what the directory holds."""
        with self.locked(timeout_s) as usage:
            usage.used = self._scan()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _wait(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while not self._files.try_lock(self._file, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise TimeoutError(f"{self._path}/ledger: another process held it for {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def _read(self) -> tuple[Usage, bytes]:
        head = self._files.read(self._file, _HEAD.size, 0)
        if len(head) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            text = self._files.read(self._file, min(length, _LARGEST), _HEAD.size)
            if len(text) == length and crc32c(text) == checksum:
                found = json.loads(text)
                return Usage(found["used"], found["turn"]), head + text
        return Usage(self._scan(), int(time.time())), b""  # above every turn before, so that stamps stay in order


def _encode(usage: Usage) -> bytes:
    text = json.dumps({"used": usage.used, "turn": usage.turn}).encode()
    return _HEAD.pack(len(text), crc32c(text)) + text
