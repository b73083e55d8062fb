"""Do a disk tier's file operations: the one seam at which a test can let the n-th of them fail."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence

from typing_extensions import Buffer

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO in an entry's place must not block
_RANGE = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux


class Descriptor:
    """Own a file descriptor: closed with the last reference, and in forked children, which must hold no lock of ours.

    Attributes:
        fd: The descriptor; -1 once it is closed.
    """

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        _open.add(self)

    def close(self, _close: Callable[[int], None] = os.close) -> None:  # at the interpreter's end os is gone
        """Close it, if it is open; locks on it end."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            _close(fd)

    def __del__(self) -> None:
        self.close()


_open: weakref.WeakSet[Descriptor] = weakref.WeakSet()


def _close_inherited() -> None:
    for descriptor in list(_open):
        descriptor.close()


os.register_at_fork(after_in_child=_close_inherited)


class Files:
    """Do file operations below open directories. What each raises is the OSError of the system."""

    def open(self, name: str, flags: int, folder: Descriptor) -> Descriptor:
        """Open a file; no symbolic link is followed."""
        return Descriptor(os.open(name, flags | _ALWAYS, 0o600, dir_fd=folder.fd))

    def read(self, file: Descriptor, nbytes: int, offset: int) -> bytes:
        """Read so many bytes, fewer at the file's end."""
        return os.pread(file.fd, nbytes, offset)

    def read_into(self, file: Descriptor, into: memoryview, offset: int) -> int:
        """Read into a view; return how many bytes there were."""
        filled = 0
        while filled < into.nbytes:
            more = os.preadv(file.fd, (into[filled:],), offset + filled)
            if not more:
                break
            filled += more
        return filled

    def write(self, file: Descriptor, parts: Sequence[Buffer]) -> None:
        """Append parts, all of them."""
        for part in parts:
            view = memoryview(part).cast("B")
            while view.nbytes:
                view = view[os.write(file.fd, view) :]

    def overwrite(self, file: Descriptor, data: bytes) -> None:
        """Write a small file anew, from its first byte."""
        if os.pwrite(file.fd, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(file.fd, len(data))

    def rename(self, old: str, old_folder: Descriptor, new: str, new_folder: Descriptor) -> None:
        """Move a file to its final name."""
        os.rename(old, new, src_dir_fd=old_folder.fd, dst_dir_fd=new_folder.fd)

    def unlink(self, name: str, folder: Descriptor) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=folder.fd)

    def free(self, folder: Descriptor) -> os.statvfs_result:
        """Return the state of the volume."""
        return os.fstatvfs(folder.fd)

    def entries(self, folder: Descriptor) -> Iterator[os.DirEntry[str]]:
        """List a directory, by a descriptor of its own: a place in a listing belongs to the descriptor."""
        own = self.open(".", os.O_RDONLY | os.O_DIRECTORY, folder)
        with os.scandir(own.fd) as entries:
            yield from entries

    def try_lock(self, file: Descriptor, operation: int) -> bool:
        """Lock a whole file (`fcntl.LOCK_EX` or `LOCK_SH`); return whether nobody else is in the way."""
        try:
            fcntl.flock(file.fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_range(self, file: Descriptor, number: int) -> bool:
        """Lock one byte of a file for this descriptor; return whether nobody else holds it."""
        try:
            fcntl.fcntl(file.fd, fcntl.F_OFD_SETLK, _RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def free_range(self, file: Descriptor, number: int) -> None:
        """Let go of such a lock."""
        fcntl.fcntl(file.fd, fcntl.F_OFD_SETLK, _RANGE.pack(fcntl.F_UNLCK, os.SEEK_SET, number, 1, 0))
