"""Open a cache's directory, which must belong to this user alone."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from datafeed.cache.files import Descriptor, Files
from datafeed.errors import ConfigError

NAME = "datafeed-cache-v1"  # a later layout gets another name: nothing is misread
_PARTS = ("entries", "sessions", "tmp")
_SHARED = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}
_MEMORY = {"tmpfs", "ramfs"}
_log = logging.getLogger("datafeed.cache")


@dataclass(frozen=True, slots=True)
class Folder:
    """Hold the open directories of a cache.

    Args:
        path: Its path, for people.
        root: The cache's own directory.
        entries: Of entries, by dataset.
        sessions: Of the processes that use it.
        tmp: Of entries that are being written.
    """

    path: str
    root: Descriptor
    entries: Descriptor
    sessions: Descriptor
    tmp: Descriptor


def open_folder(path: str, files: Files) -> Folder:
    """Open, or make, the cache's own directory below a path.

    Args:
        path: A directory that exists, such as a mount point; nothing but the cache's own directory in it is touched.
        files: What does the file operations.

    Returns:
        Its open directories.

    Raises:
        ConfigError: There is no such directory, or what stands there is a link, another user's or open to others.
        OSError: The volume fails.
    """
    own = f"{path.rstrip('/')}/{NAME}"
    try:
        base = Descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise ConfigError(f"cache directory {path!r} is not there: make it, or mount its volume, first") from exc
    root = _open_private(NAME, base, own, files)
    parts = [_open_private(name, root, f"{own}/{name}", files) for name in _PARTS]
    return Folder(own, root, *parts)


def open_private(name: str, folder: Descriptor, files: Files) -> Descriptor:
    """Open a directory inside the cache, or make it."""
    return _open_private(name, folder, name, files)


def _open_private(name: str, folder: Descriptor, path: str, files: Files) -> Descriptor:
    try:
        return _checked(files.open(name, os.O_RDONLY | os.O_DIRECTORY, folder), path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise ConfigError(f"cache directory {path!r} is a link or a file: remove it, nothing was touched") from exc
        raise
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(name, 0o700, dir_fd=folder.fd)
    return _checked(files.open(name, os.O_RDONLY | os.O_DIRECTORY, folder), path)


def _checked(opened: Descriptor, path: str) -> Descriptor:
    status = os.fstat(opened.fd)
    if status.st_uid != os.geteuid():
        raise ConfigError(f"cache directory {path!r} belongs to user {status.st_uid}, this is user {os.geteuid()}")
    if stat.S_IMODE(status.st_mode) & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigError(f"cache directory {path!r} is open to others (mode {mode:o}): chmod 700 it, or remove it")
    return opened


def warn_of_volume(path: str) -> None:
    """Say what a person should know of the volume that a cache is on."""
    kind = volume_kind(path)
    if kind in _MEMORY:
        _log.warning("the cache %s is on %s: what it holds is memory of this machine", path, kind)
    elif kind in _SHARED:
        _log.warning("the cache %s is on %s: a disk of this machine is faster, and its locks are sure", path, kind)


def volume_kind(path: str) -> str:
    """Return the kind of the file system that a path is on, such as "ext4"; empty where it is unknown."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.split(" - ")
                if fields[0].split()[2] == wanted:
                    return fields[1].split()[0]
    except (OSError, IndexError):
        pass
    return ""
