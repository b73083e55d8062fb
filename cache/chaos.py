"""Do to a cache directory what bad disks do, so that people can try what a run makes of it."""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from datafeed.cache.directory import Directory
from datafeed.cache.evict import Listed
from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import Folder
from datafeed.cache.slow import MARK, read_delay
from datafeed.errors import ConfigError, OutputError
from datafeed.sizes import format_size

BALLAST = "chaos-ballast"
_PART = 2**30  # allocated at a time, so that an interrupt is heard


@dataclass(frozen=True, slots=True)
class Hurt:
    """Say what was done to an entry.

    Args:
        dataset: Its dataset's id.
        name: Its file's name.
        text: What was done.
    """

    dataset: str
    name: str
    text: str


def corrupt(directory: Directory, count: int, seed: int) -> list[Hurt]:
    """Flip the bits of one byte of some entries.

    Args:
        directory: The cache.
        count: Of how many.
        seed: Chooses them, and the bytes.

    Raises:
        ConfigError: There are not so many.
        OSError: The volume fails.
    """

    def flip(file: Descriptor, nbytes: int, rng: random.Random) -> str:
        offset = rng.randrange(nbytes)
        found = os.pread(file.fd, 1, offset)[0]
        os.pwrite(file.fd, bytes([found ^ 0xFF]), offset)
        return f"byte {offset:,} of {nbytes:,} was {found:#04x} and is {found ^ 0xFF:#04x}"

    return _hurt(directory, count, seed, flip)


def truncate(directory: Directory, count: int, seed: int) -> list[Hurt]:
    """Cut some entries short, as `corrupt` chooses them."""

    def cut(file: Descriptor, nbytes: int, rng: random.Random) -> str:
        length = rng.randrange(nbytes)
        os.ftruncate(file.fd, length)
        return f"cut from {nbytes:,} bytes to {length:,}"

    return _hurt(directory, count, seed, cut)


def _hurt(
    directory: Directory, count: int, seed: int, act: Callable[[Descriptor, int, random.Random], str]
) -> list[Hurt]:
    rng, files = random.Random(seed), Files()  # noqa: S311  (a choice, no secret)
    entries = sorted(directory.entries(), key=lambda entry: (entry.dataset, entry.name))
    if count > len(entries):
        raise ConfigError(f"{directory.folder.path} has {len(entries):,} entries, not {count:,}: take fewer")
    return [_hurt_one(directory, entry, files, rng, act) for entry in rng.sample(entries, count)]


def _hurt_one(
    directory: Directory,
    entry: Listed,
    files: Files,
    rng: random.Random,
    act: Callable[[Descriptor, int, random.Random], str],
) -> Hurt:
    folder = files.open(entry.dataset, os.O_RDONLY | os.O_DIRECTORY, directory.folder.entries)
    file = files.open(entry.name, os.O_RDWR, folder)
    status = os.fstat(file.fd)
    if status.st_nlink > 1 or not stat.S_ISREG(status.st_mode) or not status.st_size:
        return Hurt(entry.dataset, entry.name, "left alone: it is empty, or has another name elsewhere")
    text = act(file, status.st_size, rng)
    os.utime(file.fd, ns=(status.st_atime_ns, status.st_mtime_ns))  # a bad disk does not renew it, either
    return Hurt(entry.dataset, entry.name, text)


def slow(directory: Directory, delay_s: float) -> None:
    """Make look-ups slow in the runs that begin from now on; 0 ends it.

    Raises:
        OSError: The volume fails.
    """
    files, root = Files(), directory.folder.root
    with suppress(FileNotFoundError):
        files.unlink(MARK, root)
    if delay_s:
        files.write(files.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, root), [f"{delay_s!r}\n".encode()])


def fill(directory: Directory, leave: int) -> int:
    """Take room of the volume by a file in the cache's own directory, until so many bytes are free.

    Args:
        directory: The cache.
        leave: The bytes.

    Returns:
        The bytes taken.

    Raises:
        ConfigError: No more is free even now.
        OutputError: The volume has no room for it in a way that its free bytes do not tell.
        OSError: The volume fails.
    """
    files, root = Files(), directory.folder.root
    unfill(directory.folder)
    nbytes = directory.free() - leave
    if nbytes <= 0:
        raise ConfigError(f"{directory.folder.path}: {format_size(directory.free())} are free, not above what to leave")
    file = files.open(BALLAST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, root)
    try:
        for start in range(0, nbytes, _PART):
            os.posix_fallocate(file.fd, start, min(_PART, nbytes - start))
    except BaseException as exc:
        unfill(directory.folder)
        if isinstance(exc, OSError) and exc.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            left = f"{format_size(nbytes)} could not be taken of {format_size(directory.free())} that are free"
            raise OutputError(f"{directory.folder.path}: {left}: {exc.strerror}") from exc
        raise
    return nbytes


def unfill(folder: Folder) -> int:
    """Give that room back; return how many bytes it was, 0 where there was none."""
    nbytes = _ballast(folder.path)
    with suppress(FileNotFoundError):
        Files().unlink(BALLAST, folder.root)
    return nbytes


def traces(own: str) -> list[str]:
    """Return what was done to a cache's own directory and is not undone, for people."""
    delay_s, nbytes = read_delay(own), _ballast(own)
    found = [f"each look-up takes {delay_s:g} s more (`datafeed chaos slow --undo`)"] if delay_s else []
    return found + ([f"{format_size(nbytes)} of ballast (`datafeed chaos full --undo`)"] if nbytes else [])


def _ballast(own: str) -> int:
    try:
        return os.lstat(f"{own}/{BALLAST}").st_size
    except FileNotFoundError:
        return 0
