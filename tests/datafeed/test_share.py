"""Check how ranks share an epoch against a plain walk of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_order import Ranks, plain_full_order, plain_shares, plain_window_order

from datafeed.order import Layout, Mode, Share, Spec, round_window
from datafeed.schedule import once, within
from datafeed.share import Cut, rank_order

MODES: tuple[Mode, ...] = ("window", "full", "natural")


def layout_of(records: list[int], blocks_an_extent: int) -> Layout:
    """Lay out blocks of these many records."""
    first = np.concatenate(([0], np.cumsum(records))).astype(np.int64)
    extents = np.unique(np.append(np.arange(0, len(records), blocks_an_extent), len(records)))
    return Layout(first, extents.astype(np.int64))


layouts = st.builds(layout_of, st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(1, 6))
many = st.builds(Ranks, st.integers(1, 6), st.integers(1, 40), st.just(False), st.booleans(), st.booleans())  # noqa: FBT003


def plain(mode: Mode, spec: Spec, layout: Layout, epoch: int) -> list[int]:
    """Return the whole order, walked."""
    if mode == "window":
        return plain_window_order(spec, layout, epoch)
    return plain_full_order(spec.seed, layout.records, epoch) if mode == "full" else list(range(layout.records))


def cut_of(how: Ranks, rank: int, start: int, records: int) -> Cut:
    """Return the cut of one rank."""
    return Cut(start, records, how.batch_size, Share(rank, how.ranks), how.drop_last, how.pad)


@pytest.mark.parametrize("mode", MODES)
@given(layout=layouts, ranks=many, epoch=st.integers(0, 3), data=st.data())
@settings(max_examples=80)
def test_every_rank_gets_the_batches_of_the_plain_walk(
    mode: Mode, layout: Layout, ranks: Ranks, epoch: int, data: st.DataObject
) -> None:
    """From any position on, through the schedule: blocks are there when they are needed, and none stays."""
    how = Ranks(ranks.ranks, ranks.batch_size, mode == "natural", ranks.drop_last, ranks.pad)
    spec = Spec(mode, 7, how.ranks * 2 if mode == "window" else 1, round_window(9) if mode == "window" else 1)
    start = data.draw(st.integers(0, layout.records))
    together = data.draw(st.sampled_from([1, 4]))
    expected = plain_shares(plain(mode, spec, layout, epoch), start, how)
    for rank in range(how.ranks):
        cut = cut_of(how, rank, start, layout.records)
        order, span = rank_order(spec, layout, epoch, cut, together)
        steps = list(within(order, layout, span, 3) if mode == "full" else once(order, layout, span))  # type: ignore[arg-type]
        held: set[int] = set()
        found: list[int] = []
        for step in steps:
            held |= {block for low, high in step.loads for block in range(low, high)}
            assert set(step.blocks.tolist()) <= held
            found += (layout.first[step.blocks] + step.rows).tolist()
            held -= set(step.frees)
        assert mode == "full" or how.drop_last or not held
        assert found == [record for batch in expected[rank] for record, _ in batch]
        assert len(found) - cut.own(natural=how.natural) == sum(
            not real for batch in expected[rank] for _, real in batch
        )
        assert -(-len(found) // how.batch_size) == len(expected[rank])


@pytest.mark.parametrize("mode", MODES)
@given(records=st.integers(1, 300), ranks=many, start=st.integers(0, 300))
def test_padded_ranks_get_batches_of_one_number_and_size(mode: Mode, records: int, ranks: Ranks, start: int) -> None:
    """So that no rank waits in a collective for one that has no more."""
    natural, start = mode == "natural", min(start, records)
    how = Ranks(ranks.ranks, ranks.batch_size, natural, ranks.drop_last)
    cuts = [cut_of(how, rank, start, records) for rank in range(how.ranks)]
    samples = {cut.samples(natural=natural) for cut in cuts}
    assert len(samples) == 1
    assert sum(cut.own(natural=natural) for cut in cuts) == cuts[0].end - start
    assert all(0 <= cut.samples(natural=natural) - cut.own(natural=natural) <= 1 for cut in cuts)
    assert -(-samples.pop() // how.batch_size) == cuts[0].global_batches


@given(layout=layouts, seed=st.integers(0, 99), batches=st.lists(st.integers(1, 5), max_size=4), data=st.data())
@settings(max_examples=40)
@pytest.mark.parametrize("mode", MODES)
def test_a_run_on_changing_ranks_is_the_run_of_one(
    mode: Mode, layout: Layout, seed: int, batches: list[int], data: st.DataObject
) -> None:
    """Each stretch on another number of ranks: together they walk the order, and no sample comes twice or never."""
    spec = Spec(mode, seed, 24 if mode == "window" else 1, round_window(5) if mode == "window" else 1)
    order, position, found = plain(mode, spec, layout, 1), 0, []
    for number in [*batches, 10**6]:
        ranks, size = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.integers(1, 7))
        how = Ranks(ranks, size, mode == "natural")
        cuts = [cut_of(how, rank, position, layout.records) for rank in range(ranks)]
        after = cuts[0].position(number)
        stretch = []
        for cut in cuts:
            one, span = rank_order(spec, layout, 1, cut)
            count = min(cut.own(natural=how.natural), number * size)
            stretch += layout.numbers(one.places(span.start, span.start + count)).tolist()
        assert sorted(stretch) == sorted(order[position:after])
        found, position = found + stretch, after
    assert sorted(found) == list(range(layout.records))


def test_ranks_of_a_shuffled_order_read_blocks_of_their_own() -> None:
    """But for the blocks that the cuts between lanes divide."""
    layout = layout_of([50] * 480, 8)
    spec = Spec("window", 3, 48, round_window(60))
    readers = np.zeros(480, np.int64)
    for rank in range(4):
        cut = Cut(0, layout.records, 16, Share(rank, 4), drop_last=False, pad=True)
        order, span = rank_order(spec, layout, 0, cut)
        read = {block for step in once(order, layout, span) for run in step.loads for block in range(*run)}  # type: ignore[arg-type]
        readers[list(read)] += 1
    assert readers.min() == 1
    assert readers.max() <= 2
    assert (readers == 2).sum() <= 47


def test_ranks_of_the_natural_order_read_few_blocks_twice() -> None:
    """Where a batch is longer than a block."""
    layout = layout_of([10] * 300, 8)
    readers = np.zeros(300, np.int64)
    for rank in range(3):
        cut = Cut(0, layout.records, 100, Share(rank, 3), drop_last=False, pad=True)
        order, span = rank_order(Spec("natural", 0), layout, 0, cut)
        read = {block for step in once(order, layout, span) for run in step.loads for block in range(*run)}  # type: ignore[arg-type]
        readers[list(read)] += 1
    assert readers.tolist() == [1] * 300


def test_f59_a_rank_without_any_record_repeats_the_first_of_all() -> None:
    """Three records for four ranks."""
    layout, spec = layout_of([3], 1), Spec("window", 0, 4)
    alone, _ = rank_order(spec, layout, 0, Cut(0, 3, 2, Share(), drop_last=False, pad=True))
    order, span = rank_order(spec, layout, 0, Cut(0, 3, 2, Share(3, 4), drop_last=False, pad=True))
    assert (span.start, span.end) == (0, 1)
    assert order.places(0, 1).tolist() == alone.places(0, 1).tolist()
