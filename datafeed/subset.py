"""Choose some of the records of a dataset.

A choice says how many records it takes, and gives the layout of those from the layout that it takes them from. It is
plain arithmetic on the blocks: nothing but a list of numbers that a caller gave is kept per record.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from datafeed.errors import ConfigError
from datafeed.order import Layout
from datafeed.sizes import whole_number
from datafeed.splitmix import GOLDEN, SPLIT_BLOCKS, SPLIT_EXTENTS, SPLIT_ROWS, Numbers, mix, permutation, stream

By = Literal["record", "extent"]

_ROW_MASK = 2**24 - 1
_MOST_BLOCKS = 2**16  # of which rows are drawn at a time


@dataclass(frozen=True, slots=True)
class Stretch:
    """Take every `step`-th record.

    Args:
        start: The first one's number.
        step: At least 1.
        count: How many.
    """

    start: int
    step: int
    count: int

    def facts(self) -> object:
        """Return what names the choice, as JSON values."""
        return ["slice", self.start, self.step, self.count]

    def layout(self, whole: Layout) -> Layout:
        """Return where the records lie that it takes of those of a layout."""
        first = np.clip(-((self.start - whole.first) // self.step), 0, self.count)
        return Layout(first, whole.extents, partial(self._rows, whole, first))

    def _rows(self, whole: Layout, first: Numbers, blocks: Numbers, rows: Numbers) -> Numbers:
        numbers = self.start + self.step * (first[blocks] + rows)
        return _within(whole, blocks, numbers - whole.first[blocks])


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Take records by number, in the order given; a number given twice is taken twice.

    Args:
        numbers: int64[count], not negative.
    """

    numbers: Numbers

    @property
    def count(self) -> int:
        """How many records it takes."""
        return len(self.numbers)

    def facts(self) -> object:
        """Return what names the choice, as JSON values."""
        return ["numbers", hashlib.sha256(self.numbers.astype("<i8").tobytes()).hexdigest()]

    def layout(self, whole: Layout) -> Layout:
        """Return where the records lie that it takes of those of a layout."""
        numbers, turn = self.numbers, None
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, turn = numbers[order], np.empty(len(order), np.int64)
            turn[order] = np.arange(len(order))
        first = np.searchsorted(numbers, whole.first)
        return Layout(first, whole.extents, partial(_listed_rows, whole, first, numbers), turn)


@dataclass(frozen=True, slots=True)
class Part:
    """Take one part of a random split, of exactly its size.

    Args:
        sizes: Records of each part, then those in none; together all there are.
        number: Which part, from 0.
        seed: Chooses the split.
        by: "record": each block gives each part its share, rounded. "extent": parts are whole extents, but for those
            that a bound between two divides.
    """

    sizes: tuple[int, ...]
    number: int
    seed: int
    by: By

    @property
    def count(self) -> int:
        """How many records it takes."""
        return self.sizes[self.number]

    def facts(self) -> object:
        """Return what names the choice, as JSON values."""
        return ["part", self.number, *self.sizes, self.seed, self.by]

    def layout(self, whole: Layout) -> Layout:
        """Return where the records lie that it takes of those of a layout.

        Raises:
            ConfigError: A block has too many records to be divided.
        """
        sizes = np.diff(whole.first)
        if int(sizes.max(initial=0)) > _ROW_MASK:
            raise ConfigError(f"a block of more than {_ROW_MASK:,} records cannot be divided at random")
        turn = self._turn(whole)
        low, counts = np.empty_like(sizes), np.empty_like(sizes)
        share = self._cut if self.by == "extent" else self._share_out
        low[turn], counts[turn] = share(sizes[turn])
        drawing = _Drawing(whole, sizes, low, counts, stream(SPLIT_ROWS, self.seed))
        return Layout(np.concatenate(([0], np.cumsum(counts))), whole.extents, drawing.rows)

    def _turn(self, whole: Layout) -> Numbers:
        """Return the blocks in the order of the seed; by extent, those of one stay together."""
        turn = permutation(len(whole.first) - 1, stream(SPLIT_BLOCKS, self.seed)).astype(np.int64)
        if self.by == "record":
            return turn
        count = len(whole.extents) - 1
        place = np.empty(count, np.int64)
        place[permutation(count, stream(SPLIT_EXTENTS, self.seed)).astype(np.int64)] = np.arange(count)
        of_block = np.repeat(place, np.diff(whole.extents))
        return turn[np.argsort(of_block[turn], kind="stable")]

    def _cut(self, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Lay blocks end to end and cut them; of each, how many earlier parts take, and how many this one."""
        start = sum(self.sizes[: self.number])
        begins = np.cumsum(sizes) - sizes
        low = np.clip(start - begins, 0, sizes)
        return low, np.clip(start + self.count - begins, 0, sizes) - low

    def _share_out(self, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Give each part its share of every block; of each, how many earlier parts take, and how many this one."""
        left, total = sizes, sum(self.sizes)
        for size in self.sizes[: self.number]:
            left, total = left - shared_out(left, size, total), total - size
        return sizes - left, shared_out(left, self.count, total)


@dataclass(frozen=True, slots=True, eq=False)
class _Drawing:
    """Draw records of blocks; see `draw_rows`.

    Args:
        whole: Where those lie that are drawn from.
        sizes: int64[blocks], as in `draw_rows`, like what follows.
        low: int64[blocks].
        counts: int64[blocks].
        key: Chooses the records.
    """

    whole: Layout
    sizes: Numbers
    low: Numbers
    counts: Numbers
    key: int

    def rows(self, blocks: Numbers, rows: Numbers) -> Numbers:
        """Return the rows of records given by what they are among those drawn of their block."""
        divided = np.flatnonzero(self.counts[blocks] < self.sizes[blocks])
        if len(divided):
            rows[divided] = self._drawn(blocks[divided], rows[divided])
        return _within(self.whole, blocks, rows)

    def _drawn(self, blocks: Numbers, rows: Numbers) -> Numbers:
        used = np.sort(blocks)
        used = used[np.append(True, used[1:] != used[:-1])]  # not np.unique: its first call imports for 0.1 s
        groups = [used[start : start + _MOST_BLOCKS] for start in range(0, len(used), _MOST_BLOCKS)]
        drawn = [draw_rows(group, self.sizes[group], self.low[group], self.counts[group], self.key) for group in groups]
        begins = np.cumsum(self.counts[used]) - self.counts[used]
        found: Numbers = np.concatenate(drawn)[begins[np.searchsorted(used, blocks)] + rows]
        return found


Choice = Stretch | Listed | Part


def choose(which: slice | range | Numbers, records: int, before: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the choices after one more.

    Args:
        which: A slice, a range within the records, or numbers from 0 to below `records`.
        records: How many records there are to choose from.
        before: What chose those.

    Raises:
        ConfigError: It takes no record.
    """
    taken = range(records)[which] if isinstance(which, slice) else which
    if not len(taken):
        raise ConfigError(f"the subset {which!r:.100} of {records:,} records holds none")
    if before and isinstance(before[-1], Listed):
        chosen = before[-1].numbers[which if isinstance(which, slice) else np.asarray(which)]
        return (*before[:-1], Listed(chosen))
    if isinstance(taken, range) and taken.step > 0:
        return (*before, Stretch(taken.start, taken.step, len(taken)))
    return (*before, Listed(np.asarray(taken, np.int64)))


def part_sizes(fractions: Sequence[float], records: int, *, whole: bool = True) -> tuple[int, ...]:
    """Return the records of each part, and those that are left: the bounds between parts are rounded, half up.

    Args:
        fractions: Of each part, above 0.
        records: How many records there are.
        whole: Whether they must add up to 1.

    Raises:
        ConfigError: They are no fractions, do not add up to 1, or a part would hold no record.
    """
    shares = [_exact(share) for share in fractions]
    total = sum(shares, Fraction()) if whole else Fraction(1)
    if abs(total - 1) > Fraction(1, 10**6):
        raise ConfigError(f"the fractions of a split must add up to 1, found {[*fractions]!r:.100}: {float(total):g}")
    bounds = [int(sum(shares[:number]) * records / total + Fraction(1, 2)) for number in range(len(shares) + 1)]
    sizes = [end - start for start, end in itertools.pairwise(bounds)]
    if 0 in sizes:
        share = fractions[sizes.index(0)]
        raise ConfigError(f"a part of {share!r} of {records:,} records would hold none: give it more")
    return (*sizes, records - bounds[-1])


def parts(sizes: tuple[int, ...], seed: object, by: str) -> list[Part]:
    """Return the parts of a random split.

    Raises:
        ConfigError: `seed` is no integer, or `by` is unknown.
    """
    if by not in ("record", "extent"):
        raise ConfigError(f"by must be 'record' or 'extent', found {by!r}")
    return [Part(sizes, number, whole_number("seed", seed), by) for number in range(len(sizes) - 1)]  # type: ignore[arg-type]  # one of By


def digest(dataset: str, choices: Sequence[Choice]) -> str:
    """Return what names some records of a dataset, and their order."""
    if not choices:
        return dataset
    facts = json.dumps([choice.facts() for choice in choices])
    return f"{dataset}, subset {hashlib.sha256(facts.encode()).hexdigest()[:32]}"


def shared_out(left: Numbers, size: int, total: int) -> Numbers:
    """Take `size` of the `total` records that are left in blocks, from each its share, rounded so that they add up."""
    ends = np.concatenate(([0], np.cumsum(left)))
    if size * total >= 2**63:
        ends = ends.astype(object)
    shares: Numbers = np.diff(ends * size // max(1, total)).astype(np.int64)
    return shares


def draw_rows(blocks: Numbers, sizes: Numbers, low: Numbers, counts: Numbers, key: int) -> Numbers:
    """Draw rows of blocks: those that stand at `low` and after it where a block's rows are sorted by random keys.

    The keys depend on block, row and `key` alone, so what is drawn of one block does not depend on the others.

    Args:
        blocks: int64[n], the blocks, at most 2^16.
        sizes: int64[n], their records, each at most 2^24.
        low: int64[n], how many of their rows stand before.
        counts: int64[n], how many to draw.
        key: Chooses the keys.

    Returns:
        int64[counts.sum()], block by block, ascending in each.
    """
    keys = mix(blocks.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(key))
    starts = np.cumsum(sizes) - sizes
    which = np.repeat(np.arange(len(blocks), dtype=np.uint64), sizes)
    row = np.arange(len(which), dtype=np.uint64) - np.repeat(starts, sizes).astype(np.uint64)
    # Which block, 24 bits of the row's key, the row: one plain sort, which numpy does at 20 ns an item, lexsort at 250.
    packed = mix(row * np.uint64(GOLDEN) + keys[which]) >> np.uint64(40) << np.uint64(24) | row
    packed |= which << np.uint64(48)
    packed.sort()
    ends = np.cumsum(counts)
    taken = packed[np.arange(int(counts.sum())) + np.repeat(starts + low - (ends - counts), counts)]
    taken &= np.uint64(~(_ROW_MASK << 24) & 2**64 - 1)
    taken.sort()
    rows: Numbers = (taken & np.uint64(_ROW_MASK)).astype(np.int64)
    return rows


def _listed_rows(whole: Layout, first: Numbers, numbers: Numbers, blocks: Numbers, rows: Numbers) -> Numbers:
    return _within(whole, blocks, numbers[first[blocks] + rows] - whole.first[blocks])


def _within(whole: Layout, blocks: Numbers, rows: Numbers) -> Numbers:
    """Return rows of the dataset's blocks from rows among those that a layout chose of them."""
    return rows if whole.chosen is None else whole.chosen(blocks, rows)


def _exact(share: object) -> Fraction:
    """Return a fraction as it was written."""
    if isinstance(share, (float, int, np.floating)) and not isinstance(share, bool) and 0 < share <= 1:
        return Fraction(str(float(share)))
    raise ConfigError(f"expected a fraction above 0 and up to 1, found {share!r:.100}")
