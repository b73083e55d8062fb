"""Offer extents, and file operations that fail when told, to the tests of the cache."""

from __future__ import annotations

import logging
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from typing_extensions import Buffer

from datafeed.cache.directory import DiskOptions
from datafeed.cache.disk import DiskTier
from datafeed.cache.entry import HEADER_NBYTES, ExtentKey
from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import NAME

_DONE = {"renamed", "unlinked"}  # points to die at; what has succeeded cannot fail
DATASET = "ab" * 16
OTHER = "cd" * 16
NBYTES = 3000
FILE = NBYTES + HEADER_NBYTES


def extent(number: int, dataset: str = DATASET, nbytes: int = NBYTES) -> tuple[ExtentKey, memoryview]:
    """Return a key and the bytes that belong to it."""
    data = random.Random(f"{dataset} {number}").randbytes(nbytes)
    return ExtentKey(dataset, "ef" * 32, number, number * nbytes, nbytes), memoryview(data)


def tier(path: Path, budget: int = 100 * FILE, files: Files | None = None, **options: object) -> DiskTier:
    """Open a tier over a directory, which leaves nothing of the volume to others."""
    return DiskTier("nvme", DiskOptions(str(path), budget, **{"keep_free": 0, **options}), files)  # type: ignore[arg-type]


def held(disk: DiskTier, key: ExtentKey) -> bytes | None:
    """Return the stored bytes of an extent, None where it is not kept."""
    file = disk.find(key)
    return None if file is None else os.pread(file.fd, key.nbytes, HEADER_NBYTES)


def entry_path(path: Path, key: ExtentKey) -> Path:
    """Return where an entry lies."""
    return path / NAME / "entries" / key.dataset / key.name


def on_disk(path: Path) -> int:
    """Return the bytes of all entries and unfinished ones."""
    found = [*(path / NAME / "entries").glob("*/[0-9]*"), *(path / NAME / "tmp").iterdir()]
    return sum(file.stat().st_size for file in found)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Watched(Files):
    """Call a function before every operation that changes or opens something, with its name and number."""

    def __init__(self, act: Callable[[str, int], None]) -> None:
        self._act = act
        self._count = 0

    def _note(self, operation: str) -> None:
        self._count += 1
        self._act(operation, self._count)

    def open(self, name: str, flags: int, folder: Descriptor) -> Descriptor:
        """Open a file."""
        self._note("open")
        return super().open(name, flags, folder)

    def read(self, file: Descriptor, nbytes: int, offset: int) -> bytes:
        """Read bytes."""
        self._note("read")
        return super().read(file, nbytes, offset)

    def write(self, file: Descriptor, parts: Sequence[Buffer]) -> None:
        """Write the first half, then the rest: between them something may happen."""
        self._note("write")
        whole = b"".join(bytes(memoryview(part)) for part in parts)
        super().write(file, [whole[: len(whole) // 2]])
        self._note("write the rest")
        super().write(file, [whole[len(whole) // 2 :]])

    def overwrite(self, file: Descriptor, data: bytes) -> None:
        """Write a small file."""
        self._note("overwrite")
        super().overwrite(file, data)

    def rename(self, old: str, old_folder: Descriptor, new: str, new_folder: Descriptor) -> None:
        """Rename a file."""
        self._note("rename")
        super().rename(old, old_folder, new, new_folder)
        self._note("renamed")

    def unlink(self, name: str, folder: Descriptor) -> None:
        """Remove a name."""
        self._note("unlink")
        super().unlink(name, folder)
        self._note("unlinked")

    def free(self, folder: Descriptor) -> os.statvfs_result:
        """Return the state of the volume."""
        self._note("free")
        return super().free(folder)

    def entries(self, folder: Descriptor) -> Iterator[os.DirEntry[str]]:
        """List a directory."""
        self._note("entries")
        return super().entries(folder)

    def try_lock(self, file: Descriptor, operation: int) -> bool:
        """Lock a file."""
        self._note("lock")
        return super().try_lock(file, operation)


def failing(number: int, code: int, *, times: int = 1, only: str = "") -> Watched:
    """Return file operations of which the n-th, and `times` - 1 after it, fail; with `only`, of those of that name."""
    seen = 0

    def act(operation: str, _: int) -> None:
        nonlocal seen
        if operation not in _DONE and only in ("", operation):
            seen += 1
            if number <= seen < number + times:
                raise OSError(code, os.strerror(code))

    return Watched(act)


def killing(number: int) -> Watched:
    """Return file operations of which the n-th kills the process."""

    def act(_: str, count: int) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return Watched(act)
