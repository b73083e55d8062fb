"""Count what a store's GETs did."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from datafeed.hedge import quantile

_KEPT = 4096  # latencies


@dataclass(frozen=True, slots=True)
class S3Stats:
    """Hold what a store's GETs did in this process.

    Attributes:
        gets: GETs sent, repeated and second ones among them.
        nbytes: Bytes given to callers.
        retries: Attempts after a failure.
        throttled: Replies that said that the server is asked too often.
        hedges: Second GETs, sent because the first was late.
        hedge_wins: Those that were whole first.
        p50_s: The median of the seconds that recent reads took.
        p95_s: What 95 % of them did not exceed.
        p99_s: What 99 % of them did not exceed.
    """

    gets: int = 0
    nbytes: int = 0
    retries: int = 0
    throttled: int = 0
    hedges: int = 0
    hedge_wins: int = 0
    p50_s: float = 0.0
    p95_s: float = 0.0
    p99_s: float = 0.0


class Counts:
    """Count. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("gets", "nbytes", "retries", "throttled", "hedges", "hedge_wins"), 0)
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, name: str, count: int = 1) -> None:
        """Add to a figure of `S3Stats`."""
        with self._lock:
            self._counts[name] += count

    def read(self, nbytes: int, seconds: float) -> None:
        """Note that a read is done."""
        with self._lock:
            self._counts["nbytes"] += nbytes
            self._seconds.append(seconds)

    def stats(self) -> S3Stats:
        """Return the figures so far."""
        with self._lock:
            counts, ordered = dict(self._counts), sorted(self._seconds)
        p50, p95, p99 = (quantile(ordered, share) for share in (0.5, 0.95, 0.99))
        return S3Stats(**counts, p50_s=p50, p95_s=p95, p99_s=p99)
