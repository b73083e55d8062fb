"""Mix datasets one position at a time: the second implementation that the mix's arithmetic is held against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from plain_order import lane_order, plain_full_order, shuffled, stream

from datafeed.order import Layout, Spec, round_window

MIX = 10
Owners = list[int]


@dataclass(frozen=True)
class PlainMix:
    """Say what is mixed.

    Args:
        layouts: Of each dataset.
        weights: Of each; together 1.
        counts: Of each, its positions of an epoch.
        seed: Of the mix.
        run: Positions in a row of one dataset.
    """

    layouts: list[Layout]
    weights: list[Fraction]
    counts: list[int]
    seed: int
    run: int = 1

    def owners(self, lanes: int) -> Owners:
        """Return which dataset has each position of an epoch."""
        return owners(self.weights, self.counts, lanes, self.seed, self.run)

    def epoch(self, spec: Spec, epoch: int) -> list[tuple[int, int]]:
        """Return which record of which dataset stands at each position of an epoch."""
        lanes = 1 if spec.mode == "natural" else spec.lanes
        owner = self.owners(lanes)
        per_dataset = [
            iter(self._records(number, spec, epoch, [k % lanes for k in range(len(owner)) if owner[k] == number]))
            for number in range(len(self.layouts))
        ]
        return [(number, next(per_dataset[number])) for number in owner]

    def _records(self, number: int, spec: Spec, epoch: int, lanes: list[int]) -> list[int]:
        """Return the records of a dataset in one epoch, whose positions lie in these lanes."""
        records = self.layouts[number].records
        count = len(lanes)
        found = []
        for turn in range(epoch * count // records, (epoch + 1) * count // records + 1):
            of_pass = [lanes[at % count] for at in range(turn * records, (turn + 1) * records)]
            order = self._pass(number, spec, turn, of_pass)
            found += [(turn * records + at, record) for at, record in enumerate(order)]
        return [record for at, record in found if epoch * count <= at < (epoch + 1) * count]

    def _pass(self, number: int, spec: Spec, turn: int, lanes: list[int]) -> list[int]:
        """Return the records of one pass, in the order of its positions."""
        layout, mode = self.layouts[number], spec.mode
        if mode == "natural":
            return list(range(layout.records))
        seed = stream(MIX, spec.seed, number)
        window = round_window(spec.window * self.counts[number] // sum(self.counts))
        own = Spec(mode, seed, spec.lanes, window)
        line = _line(own, layout, turn)
        pieces = []
        for lane in range(spec.lanes):
            piece, line = line[: lanes.count(lane)], line[lanes.count(lane) :]
            inside = lane_order(own, piece, turn, lane) if mode == "window" else [record for _, record in piece]
            pieces.append(iter(inside))
        return [next(pieces[lane]) for lane in lanes]


def _line(spec: Spec, layout: Layout, turn: int) -> list[tuple[int, int]]:
    """Return what is cut into lanes: extents and records."""
    if spec.mode == "full":
        return [(0, record) for record in plain_full_order(spec.seed, layout.records, turn)]
    bounds = layout.first[layout.extents].tolist()
    extents = shuffled(list(range(len(bounds) - 1)), stream(1, spec.seed))
    return [(extent, record) for extent in extents for record in range(bounds[extent], bounds[extent + 1])]


def owners(weights: list[Fraction], counts: list[int], lanes: int, seed: int, run: int = 1) -> Owners:
    """Return which dataset has each position of an epoch."""
    if run > 1:
        of_runs = [choose(weights, 0, seed, (turn, 0), (1, [1])) for turn in range(-(-sum(counts) // run))]
        return [of_runs[position // run] for position in range(sum(counts))]
    steps = spreading(lanes)
    turns, back = sum(counts) // lanes, 1
    while True:
        given = [
            choose(weights, 0, seed, (turn, lane * steps[0] % lanes), (lanes, steps))
            for turn in range(turns)
            for lane in range(lanes)
        ]
        left = [count - given.count(number) for number, count in enumerate(counts)]
        if min(left) >= 0:
            break
        turns, back = max(0, turns - back), back * 2
    late = [((2 * i + 1) * 2**20 // n, number) for number, n in enumerate(left) for i in range(n)]
    return given + [number for _, number in sorted(late)]


def choose(
    weights: list[Fraction], low: int, seed: int, at: tuple[int, int], how: tuple[int, list[int]], depth: int = 0
) -> int:
    """Return which of the datasets from `low` on has a turn of a lane, halving them until one is left."""
    if len(weights) == 1:
        return low
    (turn, slot), (lanes, steps) = at, how
    half = len(weights) // 2
    share = sum(weights[:half], Fraction()) / sum(weights)
    phase = Fraction(stream(MIX, seed, low, low + len(weights)) % share.denominator, share.denominator)
    turned = lanes - 1 - slot
    before, after = (math.floor(n * share + (phase + turned) / lanes) for n in (turn, turn + 1))
    step = steps[(depth + 1) % len(steps)]
    if after > before:
        return choose(weights[:half], low, seed, (before, slot * step % lanes), how, depth + 1)
    return choose(weights[half:], low + half, seed, (turn - before, turned * step % lanes), how, depth + 1)


def spreading(lanes: int) -> list[int]:
    """Return the multiplier of each of four depths."""
    units = [unit for unit in range(1, lanes + 1) if math.gcd(unit, lanes) == 1]
    steps, together = [], 1
    for _ in range(4):
        worst = {unit: max(quotients(unit, lanes), quotients(together * unit % lanes or 1, lanes)) for unit in units}
        steps.append(min(units, key=lambda unit: (worst[unit], unit)))
        together = together * steps[-1] % lanes
    return steps


def quotients(unit: int, lanes: int) -> int:
    """Add up the partial quotients of a fraction."""
    return 0 if unit == 0 else lanes // unit + quotients(lanes % unit, unit)
