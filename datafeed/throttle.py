"""Hold back requests after a server said that it is asked too often."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CUT = 0.7  # of the requests under way are left after the server said so
_CUT_EVERY_S = 1.0  # the replies to one burst are one sign
_LEAST = 1.0
_FREE = 256.0  # from here on nothing is held back


class Throttle:
    """Limit the requests under way: fewer after each sign of the server, slowly more after each success.

    Safe to share between threads.

    Args:
        clock: Tells monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._room = threading.Condition()
        self._under_way = 0
        self._limit = math.inf
        self._cut_at = -math.inf

    @property
    def limit(self) -> float:
        """How many requests may be under way."""
        return self._limit

    @contextmanager
    def turn(self, wait_s: float) -> Iterator[None]:
        """Wait for a turn; it ends with the block.

        Args:
            wait_s: The most seconds to wait: then the request is let through.
        """
        with self._room:
            if self._under_way >= self._limit:
                self._room.wait_for(lambda: self._under_way < self._limit, wait_s)
            self._under_way += 1
        try:
            yield
        finally:
            with self._room:
                self._under_way -= 1
                self._room.notify()

    def slow_down(self) -> None:
        """Note the server's sign."""
        with self._room:
            now = self._clock()
            if now - self._cut_at >= _CUT_EVERY_S:
                self._cut_at = now
                self._limit = max(min(self._limit, self._under_way) * _CUT, _LEAST)

    def succeeded(self) -> None:
        """Note a success."""
        if self._limit == math.inf:
            return
        with self._room:
            self._limit += 1 / self._limit
            if self._limit >= _FREE:
                self._limit = math.inf
            self._room.notify()
