"""Leave a tier that fails alone for a while, and say so once."""

from __future__ import annotations

import errno
import logging
import math
import threading
import time

_log = logging.getLogger("datafeed.cache")
RETRY_S = 60.0

_CAUSES = {
    errno.ENOSPC: "its volume is full",
    errno.EDQUOT: "the quota is used up",
    errno.EROFS: "its volume can only be read",
    errno.EIO: "its volume fails",
    errno.EMFILE: "this process has too many open files (raise `ulimit -n`)",
    errno.ENFILE: "the system has too many open files",
    errno.ENOENT: "its directory is gone",
    errno.ESTALE: "its directory is gone",
    errno.ENOLCK: "locks do not work there",
    errno.EOPNOTSUPP: "locks do not work there",
}


class Breaker:
    """Hold whether something may be tried.

    Args:
        what: What it is about, for people: "writing to the cache /mnt/nvme".
        retry_s: Seconds until it is tried again.
    """

    def __init__(self, what: str, retry_s: float = RETRY_S) -> None:
        self._what = what
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._until = -math.inf
        self._said = ""
        self._reason = ""
        self.trips = 0

    @property
    def is_off(self) -> bool:
        """Whether it is to be left alone for now."""
        return time.monotonic() < self._until

    @property
    def reason(self) -> str:
        """Why it is left alone; empty where it is not."""
        return self._reason if self.is_off else ""

    def fail(self, exc: OSError, detail: str = "") -> None:
        """Leave it alone for a while, because of an error."""
        cause = _CAUSES.get(exc.errno or 0, "")
        self.trip(f"{cause or exc.strerror or exc} {detail}".rstrip(), self._retry_s)

    def trip(self, reason: str, seconds: float, *, aloud: bool = True) -> None:
        """Leave it alone for so many seconds; the same reason is said once, until it worked again.

        Args:
            reason: Why.
            seconds: For how long.
            aloud: Whether it is said at all; another breaker may have said so.
        """
        with self._lock:
            self._until = time.monotonic() + seconds
            self.trips += 1
            self._reason = reason
            said, self._said = self._said, reason.partition(":")[0]
        if aloud and said != self._said:
            again = "for the rest of this process" if seconds == math.inf else f"and tried again after {seconds:.0f} s"
            _log.warning("%s is left out %s: %s", self._what, again, reason)

    def works(self) -> None:
        """Note that it worked."""
        if self._said and not self.is_off:
            self._said = ""
            _log.info("%s works again", self._what)
