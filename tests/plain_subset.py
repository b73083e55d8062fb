"""Choose records one at a time: the second implementation that the choices' arithmetic is held against."""

from __future__ import annotations

import itertools
from fractions import Fraction

from plain_order import GOLDEN, WORD, shuffled, splitmix, stream

Block = list[int]


def plain_sizes(shares: list[str], records: int) -> list[int]:
    """Return the sizes of parts whose shares are written as decimals: their bounds are rounded half up."""
    bounds = [(sum(map(Fraction, shares[:number]), Fraction()) * records * 2 + 1) // 2 for number in range(len(shares))]
    return [end - start for start, end in itertools.pairwise([*bounds, records])]


def split_by_record(blocks: list[Block], sizes: list[int], seed: int) -> list[list[int]]:
    """Return the records of each part: block by block in the seed's order, each part its rounded share of what is left.

    Args:
        blocks: The records of each block.
        sizes: Of the parts; together all.
        seed: Chooses.
    """
    turn = shuffled(list(range(len(blocks))), stream(6, seed))
    left = [_drawn(blocks[number], number, seed) for number in turn]
    parts = []
    for number, size in enumerate(sizes):
        total, seen, part = sum(sizes[number:]), 0, []
        for block in left:
            share = (seen + len(block)) * size // total - seen * size // total if total else 0
            seen += len(block)
            part += block[:share]
            del block[:share]
        parts.append(sorted(part))
    return parts


def _drawn(block: Block, number: int, seed: int) -> Block:
    """Sort a block's records by the 24 high bits of their keys, then by row."""
    key = splitmix((number * GOLDEN + stream(7, seed)) & WORD)
    rows = sorted(range(len(block)), key=lambda row: (splitmix((row * GOLDEN + key) & WORD) >> 40, row))
    return [block[row] for row in rows]


def split_by_extent(extents: list[list[Block]], sizes: list[int], seed: int) -> list[list[int]]:
    """Return the records of each part: extents in the seed's order, end to end, cut where the sizes say.

    Args:
        extents: The blocks of each extent.
        sizes: Of the parts; together all.
        seed: Chooses; also the order of an extent's blocks, and of a block's records.
    """
    numbered = enumerate(block for extent in extents for block in extent)
    own = [[next(numbered) for _ in extent] for extent in extents]
    turn = shuffled(list(range(sum(map(len, extents)))), stream(6, seed))
    line = [
        record
        for extent in shuffled(list(range(len(extents))), stream(8, seed))
        for number, block in sorted(own[extent], key=lambda numbered: turn.index(numbered[0]))
        for record in _drawn(block, number, seed)
    ]
    bounds = itertools.pairwise([0, *itertools.accumulate(sizes)])
    return [sorted(line[start:end]) for start, end in bounds]
