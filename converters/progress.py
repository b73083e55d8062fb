"""Report how far a conversion is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

INTERVAL_S = 0.1
Phase = Literal["plan", "convert", "commit"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Describe a running conversion.

    Args:
        records: Records written so far, those of an earlier run included.
        raw_bytes: Their raw bytes.
        stored_bytes: What they take in the shards.
        shards: Shards that are finished.
        seconds: Time since this run began.
        records_per_s: The rate of this run.
        raw_bytes_per_s: The rate of this run.
        eta_s: Seconds left, estimated; None until there is something to estimate from.
        phase: What goes on: the source is read to plan, converted, or the dataset is committed.
    """

    records: int
    raw_bytes: int
    stored_bytes: int
    shards: int
    seconds: float
    records_per_s: float
    raw_bytes_per_s: float
    eta_s: float | None
    phase: Phase = "convert"

    @property
    def ratio(self) -> float:
        """Raw bytes per stored byte."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0


OnProgress = Callable[[Progress], None]


def say_planning(on_progress: OnProgress | None) -> None:
    """Say that the source is read to plan a conversion, of which nothing is known yet."""
    if on_progress is not None:
        on_progress(Progress(0, 0, 0, 0, 0.0, 0.0, 0.0, None, "plan"))


class Meter:
    """Count what was written, and call back at most every `INTERVAL_S`.

    Args:
        on_progress: Called on the conversion's own thread; None for nobody.
        total: The source's bytes, as the plan estimates them.
        clock: Seconds that only grow.
    """

    def __init__(self, on_progress: OnProgress | None, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_progress = on_progress
        self._total = total
        self._clock = clock
        self._start = self._next = clock()
        self._before = (0, 0)
        self._done_before = 0
        self.done = 0
        self.records = 0
        self.raw = 0
        self.stored = 0
        self.shards = 0
        self.phase: Phase = "convert"

    @property
    def seconds(self) -> float:
        """Time since it was made."""
        return self._clock() - self._start

    @property
    def new_records(self) -> int:
        """Records that this run wrote."""
        return self.records - self._before[0]

    def resume(self, records: int, raw: int, stored: int, *, shards: int, done: int) -> None:
        """Begin with what an earlier run wrote; it does not count for the rates."""
        self.records, self.raw, self.stored, self.shards, self.done = records, raw, stored, shards, done
        self._before = (records, raw)
        self._done_before = done

    def add(self, records: int, raw: int, stored: int) -> None:
        """Count a block."""
        self.records += records
        self.raw += raw
        self.stored += stored

    def committing(self) -> None:
        """Say that all shards are written."""
        self.phase = "commit"
        self._next = self._start
        self.tick()

    def tick(self, *, final: bool = False) -> None:
        """Call back if it is time, or if this is the last word."""
        if self._on_progress is None:
            return
        now = self._clock()
        if now >= self._next or final:
            self._next = now + INTERVAL_S
            self._on_progress(self._progress(now - self._start, final=final))

    def _progress(self, seconds: float, *, final: bool) -> Progress:
        passed = max(seconds, 1e-9)
        gone = self.done - self._done_before
        eta = 0.0 if final else seconds * (self._total - self.done) / gone if gone else None
        records, raw = self.new_records, self.raw - self._before[1]
        counts = self.records, self.raw, self.stored, self.shards
        return Progress(*counts, seconds, records / passed, raw / passed, eta, self.phase)
