"""Know which processes read which datasets through a cache directory, from locks that end with them.

A session is a file whose owner holds the kernel's lock on it: JSON of the dataset and the process, a newline, then a
bit for each extent that the process will read again (all of them, where there are none). All of it happens under the
ledger's lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import Folder

Needed = npt.NDArray[np.bool_]
_LARGEST = 2**26


@dataclass(frozen=True, slots=True)
class Reader:
    """Hold who reads what.

    Args:
        dataset: The dataset's id.
        pid: The process.
        host: Its machine.
        needed: By extent, whether it will be read again; None for all.
    """

    dataset: str
    pid: int
    host: str
    needed: Needed | None


class Sessions:
    """Take part as one session, and see the others.

    Args:
        folder: The cache directory.
        files: What does the file operations.

    Attributes:
        name: The name of this session.
    """

    def __init__(self, folder: Folder, files: Files) -> None:
        self._files = files
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._file: Descriptor = files.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, folder.sessions)
        files.try_lock(self._file, fcntl.LOCK_EX)

    def publish(self, dataset: str, needed: Needed | None) -> None:
        """Say what this process reads.

        Args:
            dataset: The dataset's id.
            needed: By extent, whether it will be read again; None for all.
        """
        head = json.dumps({"dataset": dataset, "pid": os.getpid(), "host": socket.gethostname()}).encode()
        bits = b"" if needed is None else np.packbits(needed).tobytes()
        self._files.overwrite(self._file, head + b"\n" + bits)

    def live(self) -> dict[str, Needed | None]:
        """Return the datasets that are read now, each with the extents that its readers need; None for all."""
        found: dict[str, Needed | None] = {}
        for reader in self.readers():
            known = reader.dataset in found
            found[reader.dataset] = _union(found[reader.dataset], reader.needed) if known else reader.needed
        return found

    def readers(self) -> list[Reader]:
        """Return who reads now, this process too; who has not said what, is not among them."""
        found = []
        for entry in self._files.entries(self._folder.sessions):
            with suppress(FileNotFoundError):
                file = self._files.open(entry.name, os.O_RDONLY, self._folder.sessions)
                if entry.name == self.name or not self._is_stale(file):
                    found += _decode(self._files.read(file, _LARGEST, 0))
        return found

    def sweep(self) -> bool:
        """Remove what sessions that were killed left behind; return whether there was any."""
        stale = set(self._stale())
        alive = {entry.name for entry in self._files.entries(self._folder.sessions)} - stale
        left = [
            entry.name for entry in self._files.entries(self._folder.tmp) if entry.name.rpartition("-")[0] not in alive
        ]
        for name in left:
            with suppress(FileNotFoundError):
                self._files.unlink(name, self._folder.tmp)
        for name in stale:
            with suppress(FileNotFoundError):
                self._files.unlink(name, self._folder.sessions)
        return bool(stale or left)

    def close(self) -> None:
        """Leave; the file goes."""
        with suppress(FileNotFoundError):
            self._files.unlink(self.name, self._folder.sessions)
        self._file.close()

    def _stale(self) -> Iterator[str]:
        for entry in self._files.entries(self._folder.sessions):
            if entry.name != self.name:
                with suppress(FileNotFoundError):
                    if self._is_stale(self._files.open(entry.name, os.O_RDONLY, self._folder.sessions)):
                        yield entry.name

    def _is_stale(self, file: Descriptor) -> bool:
        return self._files.try_lock(file, fcntl.LOCK_SH)


def _decode(data: bytes) -> list[Reader]:
    head, _, bits = data.partition(b"\n")
    try:
        said = json.loads(head)
        dataset, pid, host = str(said["dataset"]), int(said["pid"]), str(said["host"])
    except (ValueError, KeyError, TypeError):  # it has published nothing yet
        return []
    needed = np.unpackbits(np.frombuffer(bits, np.uint8)).astype(np.bool_) if bits else None
    return [Reader(dataset, pid, host, needed)]


def _union(one: Needed | None, other: Needed | None) -> Needed | None:
    if one is None or other is None:
        return None
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    out = longer.copy()
    out[: len(shorter)] |= shorter
    return out
