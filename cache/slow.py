"""Make a disk tier's look-ups slow where somebody asked for it, to see what a run does on such a disk.

The file `chaos-slow` in the cache's own directory holds the delay in seconds, as text. It is read when a tier opens.
"""

from __future__ import annotations

import logging
import math
import os
import time

from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import NAME

MARK = "chaos-slow"
_log = logging.getLogger("datafeed.cache")


class SlowFiles(Files):
    """Wait before each entry that is opened.

    Args:
        delay_s: How long.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def open(self, name: str, flags: int, folder: Descriptor) -> Descriptor:
        """Open a file, an entry after a while."""
        if name.isdecimal() and not flags & (os.O_WRONLY | os.O_RDWR):
            time.sleep(self._delay_s)
        return super().open(name, flags, folder)


def files_at(path: str) -> Files:
    """Return what does the file operations of a tier in a directory: slow ones where it is marked so."""
    delay_s = read_delay(f"{path}/{NAME}")
    if not delay_s:
        return Files()
    _log.warning("each look-up in the cache %s takes %g s more: `datafeed chaos slow --undo` ends it", path, delay_s)
    return SlowFiles(delay_s)


def read_delay(own: str) -> float:
    """Return the delay that a cache's own directory is marked with, in seconds; 0 where it is not."""
    try:
        fd = os.open(f"{own}/{MARK}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # of a volume that fails the directory itself tells
        return 0.0
    try:
        delay_s = float(os.read(fd, 64))
    except (OSError, ValueError):
        return 0.0
    finally:
        os.close(fd)
    return delay_s if math.isfinite(delay_s) and delay_s > 0 else 0.0
