"""Check the order against a second implementation in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_order import plain_full_order, plain_window_order

from datafeed.order import FullOrder, Layout, Share, Spec, WindowOrder, round_window, window_bounds
from datafeed.splitmix import feistel, permutation


def layout_of(records: list[int], blocks_an_extent: int) -> Layout:
    """Lay out blocks of these many records, with extents of a fixed number of blocks."""
    first = np.concatenate(([0], np.cumsum(records))).astype(np.int64)
    extents = np.unique(np.append(np.arange(0, len(records), blocks_an_extent), len(records)))
    return Layout(first, extents.astype(np.int64))


layouts = st.builds(layout_of, st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 9))
specs = st.builds(
    Spec,
    st.just("window"),
    st.integers(-(2**70), 2**70),
    st.integers(1, 60),
    st.integers(1, 500).map(round_window),
)


@given(layouts, specs, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_window_order_equals_the_plain_one_at_every_position(layout: Layout, spec: Spec, epoch: int) -> None:
    """The arithmetic and the walk agree on every record."""
    fast = layout.numbers(WindowOrder(spec, layout, epoch).places(0, layout.records))
    assert fast.tolist() == plain_window_order(spec, layout, epoch)
    assert sorted(fast.tolist()) == list(range(layout.records))


@given(layouts, specs, st.data())
@settings(max_examples=60, deadline=None)
def test_window_order_reaches_any_part_without_what_is_before(layout: Layout, spec: Spec, data: st.DataObject) -> None:
    """A part read alone is the part of the whole, and so are the counts of what is left."""
    whole = WindowOrder(spec, layout, 0).places(0, layout.records)
    start = data.draw(st.integers(0, layout.records))
    end = data.draw(st.integers(start, layout.records))
    fresh = WindowOrder(spec, layout, 0)
    assert fresh.places(start, end).tolist() == whole[start:end].tolist()
    left = np.bincount((whole[start:] >> np.uint64(32)).astype(np.int64), minlength=len(layout.first) - 1)
    assert fresh.remaining(start).tolist() == left.tolist()


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_permutation_and_feistel_permute(count: int, key: int) -> None:
    """Each number stands there once."""
    assert sorted(permutation(count, key).tolist()) == list(range(count))
    assert sorted(feistel(np.arange(count, dtype=np.uint64), count, key).tolist()) == list(range(count))


@pytest.mark.parametrize("lane", [0, 17, 47])
def test_window_bounds_tile_the_lane(lane: int) -> None:
    """Windows follow each other without a gap, double at first, and stay at the full size after."""
    spec = Spec("window", 0, 48, round_window(1000))
    position, sizes = 0, []
    for number in range(20):
        found, start, end = window_bounds(spec, lane, position)
        assert (found, start) == (number, position)
        assert window_bounds(spec, lane, end - 1) == (number, start, end)
        sizes.append(end - start)
        position = end
    ramp = [size for size in sizes if size != spec.window]
    assert [2 * size for size in ramp[:-1]] == ramp[1:]
    assert sizes[len(ramp) :] == [spec.window] * (20 - len(ramp))


def test_full_windows_begin_apart_in_different_lanes() -> None:
    """At most two of 48 lanes begin a full window at the same position."""
    spec = Spec("window", 0, 48, round_window(3000))
    starts = {window_bounds(spec, lane, 100_000)[1] % spec.window for lane in range(48)}
    assert len(starts) >= 24


def test_epochs_keep_the_lane_of_an_extent() -> None:
    """The same lane holds the same records in every epoch, in another order."""
    layout, spec = layout_of([10] * 64, 2), Spec("window", 3, 4, round_window(50))
    epochs = [layout.numbers(WindowOrder(spec, layout, epoch).places(0, layout.records)) for epoch in (0, 1)]
    for lane in range(4):
        assert sorted(epochs[0][lane::4]) == sorted(epochs[1][lane::4])
        assert epochs[0][lane::4].tolist() != epochs[1][lane::4].tolist()


@given(st.integers(1, 300), st.integers(0, 2**64), st.integers(0, 3), st.integers(1, 5))
def test_full_order_equals_the_plain_one(records: int, seed: int, epoch: int, ranks: int) -> None:
    """Also where only one of several ranks' positions are asked for."""
    layout, plain = layout_of([records], 1), plain_full_order(seed, records, epoch)
    for rank in range(ranks):
        share = Share(rank, ranks)
        found = FullOrder(Spec("full", seed), layout, epoch, share).places(0, share.count(records))
        assert layout.numbers(found).tolist() == plain[rank::ranks]


def test_golden_orders_are_for_ever() -> None:
    """These orders may never change under this version: saved states point into them."""
    layout = layout_of([5, 7, 3, 6, 4], 2)
    spec = Spec("window", 42, 3, round_window(6))
    window = layout.numbers(WindowOrder(spec, layout, 1).places(0, 25)).tolist()
    full = layout.numbers(FullOrder(Spec("full", 42), layout, 1).places(0, 25)).tolist()
    assert window == GOLDEN_WINDOW
    assert full == GOLDEN_FULL


GOLDEN_WINDOW = [15, 1, 6, 17, 2, 4, 16, 22, 9, 13, 21, 5, 12, 0, 8, 14, 3, 7, 18, 23, 11, 20, 24, 10, 19]
GOLDEN_FULL = [7, 15, 21, 5, 24, 10, 8, 16, 22, 2, 9, 20, 4, 3, 12, 19, 18, 17, 11, 0, 23, 6, 1, 14, 13]
