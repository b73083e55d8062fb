"""Check the order of mixed datasets against a plain walk of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_mix import PlainMix
from plain_order import Ranks, plain_shares

from datafeed.mixorder import MixLayout, MixNatural, mix_layout
from datafeed.order import Layout, Mode, Share, Spec, blocks_of, rows_of
from datafeed.schedule import Step, once, within
from datafeed.share import Cut, rank_order
from datafeed.splitmix import Places

MODES: tuple[Mode, ...] = ("window", "full", "natural")


def layout_of(records: list[int], blocks_an_extent: int) -> Layout:
    """Lay out blocks of these many records."""
    first = np.concatenate(([0], np.cumsum(records))).astype(np.int64)
    return Layout(first, np.append(np.arange(0, len(records), blocks_an_extent), len(records)).astype(np.int64))


def cut_of(how: Ranks, rank: int, start: int, records: int) -> Cut:
    """Return the cut of one rank."""
    return Cut(start, records, how.batch_size, Share(rank, how.ranks), how.drop_last, how.pad)


layouts = st.builds(layout_of, st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 4))
parts = st.lists(st.tuples(layouts, st.integers(1, 90)), min_size=1, max_size=4)


def mixed(mix: PlainMix) -> MixLayout:
    """Return the layout of a mix."""
    return mix_layout(mix.layouts, mix.counts, mix.weights, mix.seed)


def mix_of(parts: list[tuple[object, int]]) -> PlainMix:
    """Mix datasets whose counts are their weights."""
    counts = [count for _, count in parts]
    weights = [Fraction(count, sum(counts)) for count in counts]
    return PlainMix([layout for layout, _ in parts], weights, counts, 3)  # type: ignore[misc]  # layouts


def named(layout: MixLayout, places: Places) -> list[tuple[int, int]]:
    """Return dataset and record of places of the mix."""
    found = []
    for block, row in zip(blocks_of(places).tolist(), rows_of(places).tolist(), strict=True):
        number = max(number for number, part in enumerate(layout.parts) if part.base <= block)
        part = layout.parts[number]
        found.append((number, int(part.layout.first[(block - part.base) % part.blocks]) + row))
    return found


def walk(steps: list[Step], *, freed: bool) -> Places:
    """Return the places of steps; each block is there when it is needed, and where all are freed, comes once."""
    held: set[int] = set()
    loaded: set[int] = set()
    found = []
    for step in steps:
        loads = {block for low, high in step.loads for block in range(low, high)}
        assert not loads & loaded
        held |= loads
        loaded |= loads
        assert set(step.blocks.tolist()) <= held
        found.append(step.blocks.astype(np.uint64) << np.uint64(32) | step.rows.astype(np.uint64))
        held -= set(step.frees)
    assert not (freed and held)
    return np.concatenate(found) if found else np.empty(0, np.uint64)


@pytest.mark.parametrize("mode", MODES)
@given(
    parts=parts,
    how=st.builds(Ranks, st.integers(1, 4), st.integers(1, 20), st.just(False), st.just(False), st.booleans()),  # noqa: FBT003
    epoch=st.integers(0, 3),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_every_rank_gets_the_batches_of_the_plain_walk(
    mode: Mode, parts: list[tuple[object, int]], how: Ranks, epoch: int, data: st.DataObject
) -> None:
    """From any position of any epoch on, through the schedule."""
    mix, layout = mix_of(parts), mixed(mix_of(parts))
    how = replace(how, natural=mode == "natural")
    spec = Spec(mode, 7, how.ranks * data.draw(st.integers(1, 5)), data.draw(st.integers(1, 40)))
    order = mix.epoch(spec, epoch)
    start = data.draw(st.integers(0, len(order)))
    expected = plain_shares(list(range(len(order))), start, how)
    for rank in range(how.ranks):
        cut = cut_of(how, rank, start, len(order))
        found, span = rank_order(spec, layout, epoch, cut)
        steps = once(found, layout, span) if mode == "window" else within(found, layout, span, 10**6)  # type: ignore[arg-type]
        positions = [position for batch in expected[rank] for position, _ in batch]
        assert named(layout, walk(list(steps), freed=mode == "window")) == [order[position] for position in positions]


@pytest.mark.parametrize("mode", MODES)
@given(parts=parts, lanes=st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_each_pass_of_a_dataset_gives_every_record_once(
    mode: Mode, parts: list[tuple[object, int]], lanes: int
) -> None:
    """Over the ends of epochs too, each of which has exactly its counts."""
    mix, layout = mix_of(parts), mixed(mix_of(parts))
    spec, records = Spec(mode, 1, lanes, 5), sum(mix.counts)
    seen: list[tuple[int, int]] = []
    for epoch in range(5):
        cut = cut_of(Ranks(1, 1, mode == "natural"), 0, 0, records)
        order, span = rank_order(spec, layout, epoch, cut)
        found = named(layout, order.places(span.start, span.end))
        assert [sum(number == one for one, _ in found) for number in range(len(parts))] == mix.counts
        seen += found
    for number, part in enumerate(layout.parts):
        own = [record for one, record in seen if one == number]
        size = part.layout.records
        for begin in range(0, len(own) - size + 1, size):
            assert sorted(own[begin : begin + size]) == list(range(size))


def test_chunks_do_not_matter() -> None:
    """However positions are asked for."""
    mix = mix_of([(layout_of([5, 9, 4, 7], 2), 60), (layout_of([3, 8], 1), 37)])
    layout, spec = mixed(mix), Spec("window", 2, 6, 12)
    for mode in MODES:
        cut = cut_of(Ranks(1, 1, mode == "natural"), 0, 0, 97)
        made = [rank_order(replace(spec, mode=mode), layout, 1, cut)[0] for _ in range(2)]
        whole = made[0].places(0, 97).tolist()
        for size in (1, 7, 10):
            chunks = [made[1].places(at, min(97, at + size)).tolist() for at in range(0, 97, size)]
            assert [place for chunk in chunks for place in chunk] == whole


def test_a_position_in_the_natural_order_names_its_pass() -> None:
    """Records that are passed over twice have blocks of their own in each pass."""
    layout = mixed(mix_of([(layout_of([2, 2], 1), 10), (layout_of([3], 1), 2)]))
    owner, turn, record = MixNatural(layout, 0).records(np.arange(12))
    own = owner == 0
    assert record[own].tolist() == [0, 1, 2, 3] * 2 + [0, 1]
    assert turn[own].tolist() == [0] * 4 + [1] * 4 + [2] * 2
    blocks = blocks_of(MixNatural(layout, 0).places(np.arange(12)))
    assert len(set(blocks[own].tolist())) == 5
    assert len(layout.first) - 1 == 4 * 2 + 2
