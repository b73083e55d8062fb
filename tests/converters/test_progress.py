"""Test what a conversion tells of its progress."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datafeed.converters.progress import Meter, Progress


def _clock(times: list[float]) -> Iterator[float]:
    yield from times


def test_meter_calls_ten_times_a_second_at_most() -> None:
    """Of ticks every 30 ms within 0.3 s, the first and those 100 ms after one that called do; the last always does."""
    times = _clock([0.0, *(0.03 * i for i in range(10)), 0.28])
    seen: list[Progress] = []
    meter = Meter(seen.append, 100, lambda: next(times))
    for _ in range(10):
        meter.tick()
    meter.tick(final=True)
    assert [round(progress.seconds, 2) for progress in seen] == [0.0, 0.12, 0.24, 0.28]


def test_meter_counts_rates_of_this_run_alone() -> None:
    """After a resume, totals include the earlier run's records; rates and the time left do not."""
    times = _clock([0.0, 2.0])
    seen: list[Progress] = []
    meter = Meter(seen.append, 1000, lambda: next(times))
    meter.resume(500, 5000, 2500, shards=3, done=400)
    meter.add(100, 1000, 500)
    meter.done = 600
    meter.tick()
    (progress,) = seen
    assert (progress.records, progress.raw_bytes, progress.stored_bytes, progress.shards) == (600, 6000, 3000, 3)
    assert (progress.records_per_s, progress.raw_bytes_per_s, progress.ratio) == (50, 500, 2)
    assert progress.eta_s == pytest.approx(4.0)


def test_meter_without_a_listener_is_silent() -> None:
    """Nobody listening costs nothing but the counts."""
    meter = Meter(None, 0)
    meter.tick(final=True)
    assert meter.records == 0
