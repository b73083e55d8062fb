"""Share out the positions of an epoch among several sequences, in exact proportions.

A share of two is a floor: of the first n positions, floor(n * weight + phase) fall on the first of them. More are
halved again and again, each half sharing out its own positions. Over many lanes, position k is turn k div lanes of lane
k mod lanes, and each lane has such floors of its own, whose phases are spread evenly: by Hermite's identity the floors
of all lanes add up to one floor, so that the lanes together keep the proportions as each of them does. Any position is
reached without walking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from datafeed.splitmix import MIX, Numbers, stream

_DEPTHS = 4  # of splits, whose steps are then used again
_FINEST = 2**32  # a weight's denominator: 10^10 positions times the error of rounding to it are 10^-9 of a position


@dataclass(frozen=True, slots=True)
class _Split:
    """Share out what falls on sequences `low` to `high` between those below `middle` and the others.

    Args:
        low: The first sequence, like the others by number.
        middle: The first one of the second half.
        high: The one behind the last.
        weight: The share of the first half.
        phase: From 0 to below the weight's denominator.
        depth: How many splits stand above.
    """

    low: int
    middle: int
    high: int
    weight: Fraction
    phase: int
    depth: int

    def first(self, turns: Numbers, phases: Numbers, lanes: int) -> Numbers:
        """Return how many of the first `turns` of a lane fall on the first half, floor(turns * weight + its phase)."""
        numerator, denominator = self.weight.numerator, self.weight.denominator
        begin = int(turns.min(initial=2**62))
        whole, rest = divmod(begin * numerator * lanes + self.phase, denominator * lanes)
        found: Numbers = whole + (rest + (turns - begin) * (numerator * lanes) + phases * denominator) // (
            denominator * lanes
        )
        return found


class Shares:
    """Say how many of the first positions, of all or of a lane, fall on each of several sequences.

    Args:
        weights: Of each sequence, above 0.
        lanes: How many lanes there are.
        seed: Chooses the phases.
    """

    def __init__(self, weights: Sequence[Fraction], lanes: int, seed: int) -> None:
        self.lanes = lanes
        self._count = len(weights)
        self._splits: list[_Split] = []
        self._split(weights, 0, len(weights), seed, 0)
        self._steps = spreading_steps(lanes)

    def _split(self, weights: Sequence[Fraction], low: int, high: int, seed: int, depth: int) -> None:
        if high - low < 2:
            return
        middle = (low + high) // 2
        weight = (sum(weights[low:middle], Fraction()) / sum(weights[low:high])).limit_denominator(_FINEST)
        phase = stream(MIX, seed, low, high) % weight.denominator
        self._splits.append(_Split(low, middle, high, weight, phase, depth))
        self._split(weights, low, middle, seed, depth + 1)
        self._split(weights, middle, high, seed, depth + 1)

    def of(self, turns: Numbers, lanes: Numbers) -> Numbers:
        """Return how many of the first turns of lanes fall on each sequence.

        Args:
            turns: int64, how many turns, of any shape.
            lanes: int64, of which lane, of a shape that goes with it.

        Returns:
            int64[sequences, *shape].
        """
        turns, lanes = np.broadcast_arrays(turns, lanes)
        out = np.empty((self._count, *turns.shape), np.int64)
        out[0] = turns
        slots: dict[int, Numbers] = {0: lanes * self._steps[0] % self.lanes}  # by a group's first sequence
        for split in self._splits:
            mine, step = slots[split.low], self._steps[(split.depth + 1) % len(self._steps)]
            turned = self.lanes - 1 - mine
            group = out[split.low]
            first = split.first(group, turned, self.lanes)
            out[split.middle] = group - first
            out[split.low] = first
            slots[split.low], slots[split.middle] = mine * step % self.lanes, turned * step % self.lanes
        return out


class Runs:
    """Say the same where each turn is a run of positions of one sequence, of which every lane has as many.

    Args:
        weights: Of each sequence, above 0.
        lanes: How many lanes there are.
        seed: Chooses the phases.
        run: Positions of a run, a multiple of the lanes.
    """

    def __init__(self, weights: Sequence[Fraction], lanes: int, seed: int, run: int) -> None:
        self._shares = Shares(weights, 1, seed)
        self._turns = run // lanes

    def of(self, turns: Numbers, lanes: Numbers) -> Numbers:
        """Return how many of the first turns of lanes fall on each sequence; see `Shares.of`."""
        turns, _ = np.broadcast_arrays(turns, lanes)
        runs, rest = np.divmod(turns, self._turns)
        before, after = (self._shares.of(at, np.array(0)) for at in (runs, runs + 1))
        found: Numbers = before * self._turns + (after - before) * rest
        return found


def shares_of(weights: Sequence[Fraction], lanes: int, seed: int, run: int) -> Shares | Runs:
    """Return how positions are shared out: one by one, or in runs of more."""
    return Shares(weights, lanes, seed) if run == 1 else Runs(weights, lanes, seed, run)


def spreading_steps(lanes: int) -> list[int]:
    """Return what to multiply a lane's number by, modulo their number, at each depth of splits: see `Shares`.

    Multiples of a number spread evenly at once where its quotient by `lanes` has small partial quotients (Niederreiter:
    "Random number generation and quasi-Monte Carlo methods", 1992). So must each step and all steps so far together. A
    number that is prime to `lanes` keeps every class of lanes modulo a divisor evenly spread: those are ranks' lanes.
    """
    units = {step: _partial_quotients(step, lanes) for step in range(1, lanes + 1) if math.gcd(step, lanes) == 1}
    steps, together = [], 1
    for _ in range(_DEPTHS):
        together_with = [(max(units[step], units[together * step % lanes or 1]), step) for step in units]
        steps.append(min(together_with)[1])
        together = together * steps[-1] % lanes
    return steps


def _partial_quotients(step: int, lanes: int) -> int:
    total = 0
    while step:
        total += lanes // step
        lanes, step = step, lanes % step
    return total


class Weave:
    """Say which of several sequences has which position of an epoch, each exactly its number of times.

    All but the last positions follow from floors; those are listed, so that the numbers come out exactly.

    Args:
        weights: Of each sequence, above 0.
        counts: How many of the epoch's positions each has, about its share of them.
        lanes: How many lanes there are.
        seed: Chooses which sequence begins.
        run: How many positions in a row are of one sequence; a multiple of the lanes, or 1.

    Attributes:
        records: How many positions there are.
        ends: int64[sequences, lanes], how many of each lane's positions each sequence has.
    """

    def __init__(self, weights: Sequence[Fraction], counts: Sequence[int], lanes: int, seed: int, run: int = 1) -> None:
        self.records = sum(counts)
        self._lanes = np.arange(lanes)
        self._counts = list(counts)
        self._shares = shares_of(weights, lanes, seed, run)
        self._body, left = self._cut(self.records // lanes)
        listed = np.full((self.records - self._body * lanes + lanes - 1) // lanes * lanes, -1)
        ordered = _evenly(left)
        listed[: len(ordered)] = ordered
        is_theirs = listed.reshape(1, -1, lanes) == np.arange(len(counts)).reshape(-1, 1, 1)
        self._tail = np.zeros((len(counts), is_theirs.shape[1] + 1, lanes), np.int64)
        np.cumsum(is_theirs, axis=1, out=self._tail[:, 1:])
        self.ends = self.before(np.array(self._body + is_theirs.shape[1]), self._lanes)

    def _cut(self, turns: int) -> tuple[int, Numbers]:
        """Return how many turns of all lanes follow from floors, and what is left to each sequence then."""
        back = 1
        while True:
            left = np.array(self._counts) - self._shares.of(np.array(turns), self._lanes).sum(axis=1)
            if left.min() >= 0:
                return turns, left
            turns, back = max(0, turns - back), back * 2

    def before(self, turns: Numbers, lanes: Numbers) -> Numbers:
        """Return how many of the first turns of lanes each sequence has; see `Shares.of`."""
        turns, lanes = np.broadcast_arrays(turns, lanes)
        late = np.clip(turns - self._body, 0, self._tail.shape[1] - 1)
        found: Numbers = self._shares.of(np.minimum(turns, self._body), lanes)
        if late.any():
            found += self._tail[:, late, lanes]
        return found

    def first(self, sequence: int, count: int) -> Numbers:
        """Return how many of the first `count` positions of a sequence lie in each lane, int64[lanes]."""
        turn = self._turn(sequence, count)
        before, after = (self.before(np.array(at), self._lanes)[sequence] for at in (turn, turn + 1))
        has = after - before
        found: Numbers = before + has * (np.cumsum(has) <= count - before.sum())
        return found

    def _turn(self, sequence: int, count: int) -> int:
        """Return a turn before which a sequence has at most `count` positions, and with which it has that many."""
        low = high = count * self.records // (self._counts[sequence] * len(self._lanes))
        step = 1
        while self._total(sequence, low) > count:
            low, step = max(0, low - step), step * 2
        step, last = 1, self._body + self._tail.shape[1]
        while high < last and self._total(sequence, high + 1) < count:
            high, step = min(last, high + step), step * 2
        while low < high:
            middle = (low + high) // 2
            if self._total(sequence, middle + 1) < count:
                low = middle + 1
            else:
                high = middle
        return low

    def _total(self, sequence: int, turns: int) -> int:
        return int(self.before(np.array(turns), self._lanes)[sequence].sum())


def _evenly(counts: Numbers) -> Numbers:
    """Lay out so many of each sequence, evenly: number i of n stands at (2 i + 1) / 2 n of the way."""
    owner = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner[np.argsort((2 * rank + 1) * 2**20 // np.repeat(counts, counts), kind="stable")]
