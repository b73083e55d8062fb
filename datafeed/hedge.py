"""Ask a second time for what comes late, and take whichever is whole first."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from datafeed.wire import Exchange, wait

_KEPT = 512  # GETs of a size that are remembered
_LEAST = 20  # of them before a quantile means something
_EVERY = 16  # GETs between two looks at them
_SHARE = 0.05  # of the GETs may be asked a second time
_SAVED = 10.0  # second GETs that may be saved up: an outage must not double the load
_FLOOR = 3.0  # times the median


class Latencies:
    """Keep what recent GETs took, those of like sizes together. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[int, deque[float]] = {}
        self._late: dict[int, float] = {}
        self._count = 0

    def add(self, nbytes: int, seconds: float) -> None:
        """Note that a GET of so many bytes took so long; or longer, where a second one was faster."""
        size = nbytes.bit_length() // 2
        with self._lock:
            kept = self._seconds.setdefault(size, deque(maxlen=_KEPT))
            kept.append(seconds)
            self._count += 1
            if len(kept) == _LEAST or (len(kept) > _LEAST and self._count % _EVERY == 0):
                ordered = sorted(kept)
                self._late[size] = max(quantile(ordered, 0.95), _FLOOR * quantile(ordered, 0.5))

    def late_s(self, nbytes: int) -> float:
        """Return the seconds after which a GET of so many bytes is late; infinite while too few are known."""
        return self._late.get(nbytes.bit_length() // 2, math.inf)

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return quantiles over all sizes, in seconds; zeros before the first GET."""
        with self._lock:
            ordered = sorted(seconds for kept in self._seconds.values() for seconds in kept)
        return [quantile(ordered, share) for share in shares]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of sorted values does not exceed; 0 of none."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0


class Budget:
    """Allow second GETs for a small share of the first ones. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved = 1.0

    def earn(self) -> None:
        """Note a first GET."""
        with self._lock:
            self._saved = min(self._saved + _SHARE, _SAVED)

    def spend(self) -> bool:
        """Take a second GET from what is saved; False where too little is."""
        with self._lock:
            if self._saved < 1:
                return False
            self._saved -= 1
            return True


def race(
    first: Exchange,
    second: Callable[[], Exchange | None],
    late_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Exchange:
    """Drive an exchange to its end, and beside it a second one once it is late.

    One thread drives both, each into memory of its own: when this returns, nothing writes to either any more.

    Args:
        first: What was begun.
        second: Begins another, or None where it may not; called once at most.
        late_s: Seconds after its start from which the first is late.
        clock: Tells monotonic seconds.

    Returns:
        The one that is whole; the other was ended.

    Raises:
        Exception: What the first one raised, where none is left to become whole.
    """
    waiting: dict[Exchange, int] = {}
    due = first.started + late_s
    failed: list[Exception] = []
    try:
        ready = [first]
        while True:
            whole = _advance(ready, waiting, failed)
            if whole is not None:
                return whole
            patience_s = min(exchange.patience_s() for exchange in waiting)
            ready = wait(waiting, min(patience_s, due - clock()))
            if not ready and clock() >= due:
                due = math.inf
                joined = second()
                ready = [] if joined is None else [joined]
            elif not ready:
                _expire(waiting, failed)
    finally:
        for exchange in waiting:
            exchange.abandon()


def _advance(ready: list[Exchange], waiting: dict[Exchange, int], failed: list[Exception]) -> Exchange | None:
    """Drive those that can go on; return one that is whole."""
    for exchange in ready:
        try:
            waiting[exchange] = exchange.step()
        except Exception as exc:  # noqa: BLE001  (the other may become whole; else it is raised)
            _drop(exchange, waiting, failed, exc)
            continue
        if not waiting[exchange]:
            return exchange
    return None


def _expire(waiting: dict[Exchange, int], failed: list[Exception]) -> None:
    for exchange in list(waiting):
        try:
            waiting[exchange] = exchange.overdue()
        except Exception as exc:  # noqa: BLE001  (as above)
            _drop(exchange, waiting, failed, exc)


def _drop(exchange: Exchange, waiting: dict[Exchange, int], failed: list[Exception], error: Exception) -> None:
    waiting.pop(exchange, None)
    failed.append(error)
    if not waiting:
        raise failed[0]
