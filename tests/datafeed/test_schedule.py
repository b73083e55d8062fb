"""Check that schedules load what batches need, when they need it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datafeed.order import WHOLE, FullOrder, Layout, Spec, WindowOrder, round_window
from datafeed.schedule import Blocks, Span, Step, once, within
from datafeed.share import Cut, NaturalShare


def layout_of(records: list[int], blocks_an_extent: int) -> Layout:
    """Lay out blocks of these many records."""
    first = np.concatenate(([0], np.cumsum(records))).astype(np.int64)
    extents = np.unique(np.append(np.arange(0, len(records), blocks_an_extent), len(records)))
    return Layout(first, extents.astype(np.int64))


layouts = st.builds(layout_of, st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 6))


def natural(layout: Layout) -> NaturalShare:
    """Keep the records as they were written."""
    return NaturalShare(layout, Cut(0, layout.records, 1, WHOLE, drop_last=False, pad=True))


def replay(steps: list[Step]) -> tuple[list[int], int, int]:
    """Load and free as told; return the places seen, how many loads there were, and the most blocks held."""
    held: set[int] = set()
    seen: list[int] = []
    loads = most = 0
    for step in steps:
        for start, end in step.loads:
            assert not held & set(range(start, end)), "a block is loaded that is there"
            held |= set(range(start, end))
            loads += end - start
        assert set(step.to_make().blocks.tolist()) <= held, "a batch needs a block that was not loaded"
        most = max(most, len(held))
        seen += (step.blocks.astype(np.int64) << 32 | step.rows).tolist()
        assert set(step.frees) <= held
        held -= set(step.frees)
    return seen, loads, most


@given(layouts, st.integers(1, 9), st.integers(1, 50), st.sampled_from([1, 2, 8]), st.data())
@settings(max_examples=60, deadline=None)
def test_once_loads_each_block_once_and_frees_it(
    layout: Layout, lanes: int, batch_size: int, together: int, data: st.DataObject
) -> None:
    """From any position on, every block that is left is loaded once, and none is held at the end."""
    start = data.draw(st.integers(0, layout.records))
    order = WindowOrder(Spec("window", 1, lanes, round_window(20)), layout, 0)
    want = order.places(0, layout.records)[start:].astype(np.int64)
    steps = list(once(order, layout, Span(start, layout.records, batch_size, together)))
    seen, loads, _ = replay(steps)
    assert seen == want.tolist()
    assert loads == len(np.unique(want >> 32))
    assert sum(len(step.frees) for step in steps) == loads
    starts = [step.start for step in steps]
    if together == 1:
        assert starts == list(range(start, layout.records, batch_size))
    assert not any((begin - start) % batch_size for begin in starts)


@given(layouts, st.integers(1, 9), st.integers(1, 50), st.sampled_from([once, within]), st.data())
@settings(max_examples=60, deadline=None)
def test_records_that_are_made_already_need_no_block(
    layout: Layout, lanes: int, batch_size: int, schedule: object, data: st.DataObject
) -> None:
    """Only blocks of the others are loaded, and batches hold all records with where they are kept."""
    start = data.draw(st.integers(0, layout.records))
    share = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    made = np.random.default_rng(0).random(layout.records) < share

    def find(blocks: Blocks, rows: Blocks) -> Blocks:
        numbers = layout.first[blocks] + rows
        return np.where(made[numbers], numbers, -1).astype(np.int32)

    order = WindowOrder(Spec("window", 1, lanes, round_window(20)), layout, 0)
    want = order.places(0, layout.records)[start:].astype(np.int64)
    span = Span(start, layout.records, batch_size)
    steps = list(within(order, layout, span, 10**6, find) if schedule is within else once(order, layout, span, find))
    seen, loads, _ = replay(steps)
    assert seen == want.tolist()
    blocks, rows = want >> 32, want & 0xFFFFFFFF
    assert loads == len(np.unique(blocks[~made[layout.first[blocks] + rows]]))
    for step in steps:
        assert step.slots is not None
        assert step.slots.tolist() == find(step.blocks, step.rows).tolist()
        assert len(step.to_make().rows) == (step.slots < 0).sum()
    if schedule is once:
        assert sum(len(step.frees) for step in steps) == loads


def test_once_takes_more_and_more_batches_together() -> None:
    """The first batch comes alone: what is made together comes later."""
    layout = layout_of([1000] * 40, 8)
    steps = list(once(natural(layout), layout, Span(0, 39_999, 100, 8)))
    assert [len(step.rows) for step in steps[:7]] == [100, 200, 400, 800, 800, 800, 800]
    assert sum(len(step.rows) for step in steps) == 39_999
    assert max(len(step.rows) for step in steps) == 800


def test_once_stays_within_extents_when_blocks_follow_each_other() -> None:
    """A load never crosses an extent's border: it is one read of one shard."""
    layout = layout_of([4] * 12, 3)
    steps = list(once(natural(layout), layout, Span(0, 48, 48)))
    assert steps[0].loads == ((0, 3), (3, 6), (6, 9), (9, 12))


@pytest.mark.parametrize("batch_size", [1, 100, 40_000])
def test_once_covers_the_span_for_any_batch_size(batch_size: int) -> None:
    """A batch may be longer than the chunk in which the order is planned."""
    layout = layout_of([1000] * 70, 8)
    steps = list(once(natural(layout), layout, Span(5, 69_999, batch_size)))
    seen, _, _ = replay(steps)
    assert len(seen) == 69_994
    assert all(len(step.rows) == batch_size for step in steps[:-1])


@given(layouts, st.integers(1, 40), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_within_holds_no_more_than_its_room_and_a_batch(layout: Layout, batch_size: int, room: int) -> None:
    """Every record comes, and between batches no more blocks stay than there is room for."""
    order = FullOrder(Spec("full", 9), layout, 0)
    seen, _, most = replay(list(within(order, layout, Span(0, layout.records, batch_size), room)))
    assert seen == order.places(0, layout.records).astype(np.int64).tolist()
    assert most <= room + batch_size
