"""Check choices of records against plain lists of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_order import plain_full_order, plain_window_order
from plain_subset import plain_sizes, split_by_extent, split_by_record

from datafeed.errors import ConfigError
from datafeed.order import WHOLE, FullOrder, Layout, Spec, WindowOrder, round_window
from datafeed.share import Cut, NaturalShare
from datafeed.subset import By, Choice, Listed, Part, Stretch, choose, digest, draw_rows, part_sizes, parts, shared_out


def layout_of(records: list[int], blocks_an_extent: int) -> Layout:
    """Lay out blocks of these many records."""
    first = np.concatenate(([0], np.cumsum(records))).astype(np.int64)
    extents = np.unique(np.append(np.arange(0, len(records), blocks_an_extent), len(records)))
    return Layout(first, extents.astype(np.int64))


layouts = st.builds(layout_of, st.lists(st.integers(1, 40), min_size=1, max_size=25), st.integers(1, 6))


@dataclass
class Chosen:
    """Hold records chosen twice over: by choices, and as plain lists, one a block."""

    whole: Layout
    choices: tuple[Choice, ...]
    blocks: list[list[int]]
    given: list[int]

    def layout(self) -> Layout:
        """Return where they lie."""
        layout = self.whole
        for choice in self.choices:
            layout = choice.layout(layout)
        return layout

    def choose(self, choices: tuple[Choice, ...], given: list[int]) -> Chosen:
        """Return some of them, in an order given."""
        members = [given.count(record) for record in range(self.whole.records)]
        own = [sorted(set(block)) for block in self.blocks]
        return Chosen(self.whole, choices, [[r for r in block for _ in range(members[r])] for block in own], given)


@st.composite
def chosen(draw: st.DrawFn) -> Chosen:
    """Draw up to three choices, one from what another took."""
    layout = draw(layouts)
    blocks = [list(range(low, high)) for low, high in itertools.pairwise(layout.first.tolist())]
    found = Chosen(layout, (), blocks, list(range(layout.records)))
    for kind in draw(st.lists(st.sampled_from(["slice", "list", "record", "extent"]), min_size=1, max_size=3)):
        found = draw_choice(draw, found, kind)
    return found


def draw_choice(draw: st.DrawFn, found: Chosen, kind: str) -> Chosen:
    """Draw one choice more."""
    count = len(found.given)
    if kind in ("record", "extent"):
        cut = draw(st.integers(1, count))
        seed, sizes = draw(st.integers(-(2**70), 2**70)), [cut // 2, cut - cut // 2, count - cut]
        number = draw(st.sampled_from([number for number in range(3) if sizes[number]]))
        if kind == "record":
            part = split_by_record([list(block) for block in found.blocks], sizes, seed)[number]
        else:
            pairs = itertools.pairwise(found.whole.extents.tolist())
            part = split_by_extent([found.blocks[low:high] for low, high in pairs], sizes, seed)[number]
        return found.choose((*found.choices, Part(tuple(sizes), number, seed, kind)), part)  # type: ignore[arg-type]
    if kind == "slice":
        which = draw(st.slices(count).filter(lambda which: range(count)[which]))
        return found.choose(choose(which, count, found.choices), found.given[which])
    numbers = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=30))
    return found.choose(
        choose(np.array(numbers, np.int64), count, found.choices), [found.given[number] for number in numbers]
    )


@given(chosen())
@settings(max_examples=150, deadline=None)
def test_a_choice_takes_what_a_list_takes(found: Chosen) -> None:
    """In its order; each block holds as many; one choice of another too."""
    layout = found.layout()
    assert found.choices[-1].count == layout.records == len(found.given)
    assert found.whole.numbers(layout.places(np.arange(layout.records))).tolist() == found.given
    assert np.diff(layout.first).tolist() == [len(block) for block in found.blocks]
    some = np.arange(0, layout.records, 3)[::-1]
    assert found.whole.numbers(layout.places(some)).tolist() == [found.given[number] for number in some]


@given(chosen(), st.integers(1, 20), st.integers(1, 90).map(round_window), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_orders_of_what_was_chosen_are_those_of_the_plain_walk(
    found: Chosen, lanes: int, window: int, epoch: int
) -> None:
    """As if nothing else were in the dataset; and what is left of each block is counted."""
    layout, count = found.layout(), len(found.given)
    order = WindowOrder(Spec("window", 5, lanes, window), layout, epoch)
    places = order.places(0, count)
    walked = plain_window_order(Spec("window", 5, lanes, window), found.whole, epoch, found.given)
    assert found.whole.numbers(places).tolist() == walked
    left = np.bincount((places[count // 2 :] >> np.uint64(32)).astype(np.int64), minlength=len(layout.first) - 1)
    assert order.remaining(count // 2).tolist() == left.tolist()
    full = found.whole.numbers(FullOrder(Spec("full", 5), layout, epoch).places(0, count))
    assert full.tolist() == [found.given[number] for number in plain_full_order(5, count, epoch)]
    natural = NaturalShare(layout, Cut(0, count, 3, WHOLE, drop_last=False, pad=True))
    assert found.whole.numbers(natural.places(0, count)).tolist() == found.given
    if layout.turn is None:
        assert natural.remaining(0).tolist() == np.diff(layout.first).tolist()


@given(
    layouts,
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(0, 99),
    st.sampled_from(["record", "extent"]),
)
@settings(max_examples=100, deadline=None)
def test_parts_of_a_split_are_disjoint_and_all(layout: Layout, weights: list[int], seed: int, by: By) -> None:
    """Each of its size; by record each block gives each part its share, give or take one for each part before."""
    sizes = np.diff([layout.records * end // sum(weights) for end in [0, *itertools.accumulate(weights)]])
    found = [
        layout.numbers(part.layout(layout).places(np.arange(part.count)))
        for part in parts((*sizes.tolist(), 0), seed, by)
    ]
    assert [len(numbers) for numbers in found] == sizes.tolist()
    assert sorted(np.concatenate(found).tolist()) == list(range(layout.records))
    for number, numbers in enumerate(found if by == "record" else []):
        share = np.diff(layout.first) * sizes[number] / layout.records
        assert (abs(np.histogram(numbers, layout.first)[0] - share) < number + 1).all()


def test_a_split_chooses_by_chance() -> None:
    """Each record is as likely as any other, in blocks of one record and in blocks of seven."""
    for records in ([1] * 20, [7] * 6):
        layout = layout_of(records, 2)
        for by in ("record", "extent"):
            size = layout.records // 5
            counts = np.zeros(layout.records)
            for seed in range(4000):
                part = Part((size, layout.records - size), 0, seed, by)  # type: ignore[arg-type]
                counts[layout.numbers(part.layout(layout).places(np.arange(part.count)))] += 1
            assert abs(counts / counts.mean() - 1).max() < 0.2


def test_splits_of_blocks_are_drawn_alike_however_many_are_asked_for() -> None:
    """What is drawn of one block does not depend on the others; more than 65,536 are drawn in groups."""
    layout = layout_of([2] * 70_000, 8)
    part = Part((70_000, 70_000), 0, 3, "record").layout(layout)
    whole = part.places(np.arange(70_000))
    assert [part.places(np.array([number]))[0] for number in (0, 65_535, 65_536, 69_999)] == whole[
        [0, 65_535, 65_536, 69_999]
    ].tolist()
    assert len(np.unique(whole)) == 70_000


def test_shares_of_more_records_than_64_bits_multiply() -> None:
    """They are as exact: no product wraps."""
    left = np.array([2**40, 3, 2**45, 7], np.int64)
    total = int(left.sum())
    size = total * 2 // 3
    before = [end * size // total for end in [0, *itertools.accumulate(left.tolist())]]
    assert shared_out(left, size, total).tolist() == [end - start for start, end in itertools.pairwise(before)]


@given(st.lists(st.integers(1, 200), max_size=4), st.integers(10_000, 10**12))
def test_sizes_are_those_of_the_decimals_as_written(weights: list[int], records: int) -> None:
    """A float such as 0.29 means 29 hundredths, not the binary number below it."""
    shares = [f"0.{weight:03}" for weight in [*weights, 1000 - sum(weights)]] if weights else ["1"]
    assert part_sizes([float(share) for share in shares], records) == (*plain_sizes(shares, records), 0)


def test_thirds_add_up_to_one() -> None:
    """As nearly as floats can say; 0.29 of 50 is 14.5, though the float is below it."""
    assert part_sizes([0.29, 0.71], 50) == (15, 35, 0)
    assert part_sizes([1 / 3] * 3, 10) == (3, 4, 3, 0)


def test_golden_splits_are_for_ever() -> None:
    """These may never change: a run's validation set would move into its training set."""
    layout = layout_of([5, 7, 3, 6, 4], 2)
    for by, golden in GOLDEN.items():
        found = [
            layout.numbers(part.layout(layout).places(np.arange(part.count))).tolist()
            for part in parts(part_sizes([0.6, 0.25, 0.15], 25), 42, by)
        ]
        assert found == golden
    assert draw_rows(np.array([9]), np.array([20]), np.array([0]), np.array([6]), 1).tolist() == GOLDEN_ROWS


GOLDEN: dict[str, list[list[int]]] = {
    "record": [[0, 1, 3, 6, 8, 9, 10, 11, 12, 13, 16, 17, 19, 23, 24], [2, 5, 7, 14, 20, 21], [4, 15, 18, 22]],
    "extent": [[0, 1, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24], [2, 3, 4, 6, 8, 9], [5, 7, 10, 11]],
}
GOLDEN_ROWS = [0, 3, 7, 10, 13, 18]


def test_names_tell_choices_apart() -> None:
    """A state of one subset is not taken for one of another."""
    choices: list[tuple[Choice, ...]] = [
        (), (Stretch(0, 1, 5),), (Stretch(0, 1, 4),), (Stretch(1, 1, 5),), (Stretch(0, 2, 5),),
        (Listed(np.arange(5)),), (Listed(np.arange(5)[::-1]),),
        *((part,) for part in parts((5, 4, 0), 0, "record")), *((part,) for part in parts((5, 4, 0), 0, "extent")),
        *((part,) for part in parts((5, 4, 0), 1, "record")), (Stretch(0, 1, 5), Stretch(0, 1, 5)),
    ]  # fmt: skip
    assert len({digest("abc", choice) for choice in choices}) == len(choices)
    assert digest("abc", ()) == "abc"
    assert digest("abc", (Stretch(0, 1, 5),)) == "abc, subset c18c63fe0a61c4ee196122cae8f048cb"


@pytest.mark.parametrize(
    ("fractions", "named"),
    [
        ([0.5, 0.4], "must add up to 1, found"),
        ([0.5, 0.6], "must add up to 1, found"),
        ([], "must add up to 1, found"),
        ([8, 1, 1], "a fraction above 0 and up to 1, found 8"),
        ([1.0, 0.0], "a fraction above 0 and up to 1, found 0.0"),
        ([float("nan"), 1.0], "a fraction above 0 and up to 1, found nan"),
        (["0.5", "0.5"], "a fraction above 0 and up to 1, found '0.5'"),
        ([True], "a fraction above 0 and up to 1, found True"),
        ([0.999, 0.001], "a part of 0.001 of 100 records would hold none"),
    ],
)
def test_bad_fractions_are_refused(fractions: list[float], named: str) -> None:
    """With what was found."""
    with pytest.raises(ConfigError, match=named):
        part_sizes(fractions, 100)
