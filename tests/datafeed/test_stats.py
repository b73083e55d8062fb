"""Check that the figures of a loader add up."""

from __future__ import annotations

import time
from pathlib import Path

import forms
import pytest

from datafeed import ImageOptions, Loader
from datafeed.stats import LoaderStats, Meter
from datafeed.work import Counters


def test_the_stall_leaves_out_the_start() -> None:
    """Waiting for the first batch counts for the rate, not for the stall."""
    stats = LoaderStats(samples=100, batches=10, wait_s=3.0, step_s=2.0, first_batch_s=1.0)
    assert stats.samples_per_s == 20.0
    assert stats.stall_percent == 50.0


def test_zeros_before_the_first_batch() -> None:
    """Nothing is divided by nothing."""
    assert (LoaderStats().samples_per_s, LoaderStats().stall_percent) == (0.0, 0.0)
    assert LoaderStats(batches=1, samples=4, wait_s=1.0, first_batch_s=1.0).stall_percent == 0.0


def test_waits_and_steps_add_up_to_the_time_that_passed() -> None:
    """A wait that ended in an error is no step; what came before the first batch is waiting."""
    began = time.perf_counter()
    meter = Meter()
    meter.ask()
    meter.get()
    time.sleep(0.01)
    for _ in range(3):
        meter.ask()
        time.sleep(0.002)
        meter.get()
        meter.count(5)
        time.sleep(0.004)
    meter.ask()
    stats = meter.stats(Counters())
    assert stats.wait_s + stats.step_s <= time.perf_counter() - began
    assert stats.step_s >= 3 * 0.004
    assert stats.first_batch_s >= 0.012
    assert stats.wait_s >= stats.first_batch_s + 2 * 0.002
    assert (stats.samples, stats.batches) == (15, 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_counts_what_it_handed_out(tmp_path: Path, workers: int) -> None:
    """Samples, batches, blocks, and the seconds of each kind of work."""
    url = forms.write(tmp_path, forms.IMAGES, 50, per_block=5, shards=1)
    loader = Loader(url, 8, shuffle=True, num_workers=workers, image=ImageOptions(8))
    assert loader.stats() == LoaderStats()
    began = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    assert (loader.stats().batches, loader.stats().samples) == (1, 8)
    assert len(list(iterator)) == 6
    stats = loader.stats()
    assert (stats.batches, stats.samples, stats.blocks) == (7, 50, 10)
    assert min(stats.load_s, stats.gather_s, stats.transform_s, stats.first_batch_s) > 0
    assert stats.wait_s + stats.step_s <= time.perf_counter() - began
    assert 0 <= stats.stall_percent <= 100


def test_the_figures_are_those_of_the_newest_iterator(tmp_path: Path) -> None:
    """They outlive it, and `set_epoch`; the next one begins at zero."""
    loader = Loader(forms.write(tmp_path, records=20), 8, num_workers=1)
    list(loader)
    loader.set_epoch(1)
    assert loader.stats().samples == 20
    iterator = iter(loader)
    assert loader.stats().samples == 0
    next(iterator)
    assert loader.stats().samples == 8
