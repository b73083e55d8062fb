"""Walk the window order one record at a time: the second implementation that the arithmetic is held against."""

from __future__ import annotations

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


def plain_window_order(spec: Spec, layout: Layout, epoch: int) -> list[int]:
    """Return the record numbers of one epoch in order."""
    extents = []
    for begin, end in zip(layout.extents[:-1], layout.extents[1:], strict=True):
        extents.append(list(range(int(layout.first[begin]), int(layout.first[end]))))
    turn = shuffled(list(range(len(extents))), stream(1, spec.seed))
    line = [(extent, record) for extent in turn for record in extents[extent]]
    lanes, total = [], len(line)
    for lane in range(spec.lanes):
        length = total // spec.lanes + (lane < total % spec.lanes)
        lanes.append(lane_order(spec, line[:length], epoch, lane))
        line = line[length:]
    return [lane[turn] for turn in range(len(lanes[0])) for lane in lanes if turn < len(lane)]


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
