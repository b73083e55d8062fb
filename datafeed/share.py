"""Cut an epoch into global batches, and those into the batches of ranks.

A global batch is the same run of the order for every number of ranks. Of the shuffled orders rank r of R takes the
positions k with k mod R == r, which lie in lanes of its own. Of the natural order it takes a run of each global batch:
neighbours lie in one block, which then few ranks read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from datafeed.mixorder import MixLayout, MixNatural, MixOrder
from datafeed.order import WHOLE, Counts, FullOrder, Layout, Share, Spec, WindowOrder, blocks_of
from datafeed.schedule import Span
from datafeed.splitmix import Numbers, Places


@dataclass(frozen=True, slots=True)
class Cut:
    """Say which batches a rank gets of what is left of an epoch.

    Args:
        start: The first position that is left.
        records: How many records the epoch has.
        batch_size: Samples a batch of one rank.
        share: Which rank, of how many.
        drop_last: Whether a global batch that is not full is dropped.
        pad: Whether a rank repeats a sample where others have one more, so that all get batches of one size.
    """

    start: int
    records: int
    batch_size: int
    share: Share
    drop_last: bool
    pad: bool

    @property
    def global_size(self) -> int:
        """Samples of a full batch over all ranks."""
        return self.batch_size * self.share.ranks

    @property
    def global_batches(self) -> int:
        """How many batches the ranks get together, the last one maybe not full."""
        left = self.records - self.start
        return left // self.global_size if self.drop_last else -(-left // self.global_size)

    @property
    def end(self) -> int:
        """The position behind the last batch."""
        return self.position(self.global_batches)

    def position(self, batches: int) -> int:
        """Return the position after so many global batches."""
        return min(self.records, self.start + batches * self.global_size)

    @property
    def full(self) -> int:
        """How many of the global batches are full."""
        return (self.end - self.start) // self.global_size

    @property
    def rest(self) -> int:
        """How many samples the last global batch holds where it is not full."""
        return (self.end - self.start) % self.global_size

    def own(self, *, natural: bool) -> int:
        """Return how many records this rank gets, without repeats.

        Args:
            natural: Whether the order is the natural one.
        """
        if not natural:
            return self.share.count(self.end) - self.share.count(self.start)
        low, high = self.run()
        return self.full * self.batch_size + high - low

    def run(self) -> tuple[int, int]:
        """Return the rank's run of a last global batch that is not full, within it."""
        rank, ranks = self.share.rank, self.share.ranks
        return rank * self.rest // ranks, (rank + 1) * self.rest // ranks

    def samples(self, *, natural: bool) -> int:
        """Return how many samples this rank gets, with the repeated one."""
        if not self.pad:
            return self.own(natural=natural)
        return self.full * self.batch_size + -(-self.rest // self.share.ranks)


class NaturalShare:
    """Take a rank's runs of the global batches of the natural order.

    Args:
        layout: Where the records lie.
        cut: Which batches; positions are numbered from its start, over the rank's records alone.
    """

    def __init__(self, layout: Layout | MixNatural, cut: Cut) -> None:
        self._layout = layout
        self._cut = cut

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end of the rank's records."""
        cut = self._cut
        batch, row = np.divmod(np.arange(start, end, dtype=np.int64), cut.batch_size)
        within = np.where(batch < cut.full, cut.share.rank * cut.batch_size, cut.run()[0])
        return self._layout.places(cut.start + batch * cut.global_size + within + row)

    def remaining(self, position: int) -> Counts:
        """Return, per block, how many of the rank's records stand at `position` or after it."""
        assert isinstance(self._layout, Layout), "a mix may return to any block at any time"
        before = np.maximum(self._below(self._layout.first), position)
        return (before[1:] - before[:-1]).astype(np.int32)

    def _below(self, numbers: Numbers) -> Numbers:
        """Return how many of the rank's records have numbers below those given."""
        cut = self._cut
        batch, row = np.divmod(np.clip(numbers, cut.start, cut.end) - cut.start, cut.global_size)
        low, high = cut.run()
        first = np.where(batch < cut.full, cut.share.rank * cut.batch_size, low)
        most = np.where(batch < cut.full, cut.batch_size, high - low)
        below: Numbers = batch * cut.batch_size + np.clip(row - first, 0, most)
        return below


RankOrder = WindowOrder | FullOrder | MixOrder | NaturalShare


class Repeated:
    """Put one more record behind the last of an order.

    Args:
        order: The order.
        end: The position behind the order's last.
        place: The place of the record that stands at `end`.
    """

    def __init__(self, order: RankOrder, end: int, place: Places) -> None:
        self._order = order
        self._end = end
        self._place = place

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end."""
        if end <= self._end:
            return self._order.places(start, end)
        return np.concatenate((self._order.places(start, self._end), self._place))

    def remaining(self, position: int) -> Counts:
        """Return, per block, how many of its records stand at `position` or after it."""
        assert not isinstance(self._order, FullOrder), "it returns to any block at any time"
        counts = self._order.remaining(position)
        counts[blocks_of(self._place)] += 1
        return counts


def rank_order(
    spec: Spec, layout: Layout, epoch: int, cut: Cut, together: int = 1
) -> tuple[RankOrder | Repeated, Span]:
    """Return the order of the samples of one rank, and which of its positions are left.

    Args:
        spec: The order over all ranks.
        layout: Where the records lie.
        epoch: Which epoch, from 0.
        cut: Which batches the rank gets.
        together: Batches a step, at the most.
    """
    natural = spec.mode == "natural"
    start = 0 if natural else cut.share.count(cut.start)
    end, samples = start + cut.own(natural=natural), cut.samples(natural=natural)
    span = Span(start, start + samples, cut.batch_size, together)
    order = _order(spec, layout, epoch, cut)
    if span.end == end:
        return order, span
    # A rank repeats the record before, which it has read; one that got none takes another's.
    place = order.places(end - 1, end) if end else _order(spec, layout, epoch, replace(cut, share=WHOLE)).places(0, 1)
    return Repeated(order, end, place), span


def _order(spec: Spec, layout: Layout, epoch: int, cut: Cut) -> RankOrder:
    if isinstance(layout, MixLayout):
        if spec.mode == "natural":
            return NaturalShare(MixNatural(layout, epoch), cut)
        return MixOrder(spec, layout, epoch, cut.share)
    if spec.mode == "natural":
        return NaturalShare(layout, cut)
    kind = FullOrder if spec.mode == "full" else WindowOrder
    return kind(spec, layout, epoch, cut.share)
