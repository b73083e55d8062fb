"""Walk the orders one record at a time: the second implementation that the arithmetic is held against."""

from __future__ import annotations

from dataclasses import dataclass

from datafeed.order import Layout, Spec

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix(value: int) -> int:
    """Scramble 64 bits."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    return value ^ (value >> 31)


def stream(*parts: int) -> int:
    """Fold integers into a key."""
    key = 0
    for part in parts:
        key = splitmix((key + part + GOLDEN) & WORD)
    return key


def shuffled(items: list[int], key: int) -> list[int]:
    """Sort by random keys whose low bits are the index."""
    low = 1
    while low < len(items):
        low *= 2
    keys = [splitmix((index * GOLDEN + key) & WORD) // low * low + index for index in range(len(items))]
    return [items[key % low] for key in sorted(keys)]


def plain_window_order(spec: Spec, layout: Layout, epoch: int, chosen: list[int] | None = None) -> list[int]:
    """Return the record numbers of one epoch in order, of all records or of those that were chosen."""
    numbers = range(layout.records) if chosen is None else sorted(chosen)
    extents: list[list[int]] = []
    for begin, end in zip(layout.extents[:-1], layout.extents[1:], strict=True):
        low, high = int(layout.first[begin]), int(layout.first[end])
        extents.append([number for number in numbers if low <= number < high])
    turn = shuffled(list(range(len(extents))), stream(1, spec.seed))
    line = [(extent, record) for extent in turn for record in extents[extent]]
    lanes, total = [], len(line)
    for lane in range(spec.lanes):
        length = total // spec.lanes + (lane < total % spec.lanes)
        lanes.append(lane_order(spec, line[:length], epoch, lane))
        line = line[length:]
    return [lane[turn] for turn in range(len(lanes[0])) for lane in lanes if turn < len(lane)]


def plain_full_order(seed: int, records: int, epoch: int) -> list[int]:
    """Return the record numbers of one epoch of the full permutation in order."""
    half = 1
    while 4**half < records:
        half += 1
    key = stream(4, seed, epoch)
    out = []
    for position in range(records):
        value = feistel(position, half, key)
        while value >= records:
            value = feistel(value, half, key)
        out.append(value)
    return out


def feistel(value: int, half: int, key: int) -> int:
    """Permute the numbers of 2 * half bits."""
    left, right = divmod(value, 2**half)
    for turn in range(6):
        scrambled = splitmix((right * GOLDEN + stream(turn, key)) & WORD) % 2**half
        left, right = right, left ^ scrambled
    return left * 2**half + right


Sample = tuple[int, bool]


@dataclass(frozen=True)
class Ranks:
    """Say how ranks share an epoch."""

    ranks: int = 1
    batch_size: int = 1
    natural: bool = False
    drop_last: bool = False
    pad: bool = True


def plain_shares(order: list[int], start: int, how: Ranks) -> list[list[list[Sample]]]:
    """Return per rank its batches of what is left of an order: records, each with whether it is no repeat."""
    out: list[list[list[Sample]]] = [[] for _ in range(how.ranks)]
    size = how.ranks * how.batch_size
    before: list[int | None] = [None] * how.ranks
    if not how.natural:
        for position in range(start):
            before[position % how.ranks] = order[position]
    for begin in range(start, len(order), size):
        run = range(begin, min(begin + size, len(order)))
        if how.drop_last and len(run) < size:
            break
        most = -(-len(run) // how.ranks)
        for rank in range(how.ranks):
            if how.natural:
                bounds = [len(run) * turn // how.ranks for turn in (rank, rank + 1)]
                own = [order[position] for position in run[bounds[0] : bounds[1]]]
            else:
                own = [order[position] for position in run if position % how.ranks == rank]
            before[rank] = own[-1] if own else before[rank]
            batch = [(record, True) for record in own]
            if how.pad and len(own) < most:
                other = order[start] if how.natural else order[0]
                last = before[rank]
                batch.append((other if last is None else last, False))
            out[rank] += [batch] if batch else []
    return out


def lane_order(spec: Spec, piece: list[tuple[int, int]], epoch: int, lane: int) -> list[int]:
    """Permute the runs of a lane, then the records inside its windows."""
    runs: list[list[int]] = []
    previous = None
    for extent, record in piece:
        if extent != previous:
            runs.append([])
        runs[-1].append(record)
        previous = extent
    turn = shuffled(list(range(len(runs))), stream(2, spec.seed, epoch, lane))
    records = [record for run in turn for record in runs[run]]
    base, doublings = spec.window, 0
    while base >= 64:
        base, doublings = base // 2, doublings + 1
    size, number, out = base + base * lane // spec.lanes, 0, []
    while records:
        take = size if number < doublings else spec.window
        out += shuffled(records[:take], stream(3, spec.seed, epoch, lane, number))
        records, size, number = records[take:], size * 2, number + 1
    return out
