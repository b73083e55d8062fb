"""Walk all stored bytes of a shard in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from datafeed.seektable import U32
from datafeed.storage import Store

_RUN_NBYTES = 8 * 2**20  # four extents a read
_Feed = Callable[[memoryview], object]


def scan_blocks(store: Store, name: str, stored: U32, feed: _Feed) -> Iterator[memoryview]:
    """Yield each block's stored bytes, and hand the same bytes on.

    Args:
        store: Where the shard is.
        name: The shard.
        stored: Each block's stored bytes.
        feed: Called with all bytes in order, as a hash's `update` is.

    Yields:
        Views that stay valid.

    Raises:
        TruncatedShard: The shard ends too early; the blocks before were yielded.
    """
    start = 0
    for run in _runs(stored.tolist()):
        # A run cut by the end of the file is read block by block, so that whole ones are still seen.
        whole = start + sum(run) <= store.size(name)
        for part in [run] if whole else [[nbytes] for nbytes in run]:
            data = memoryview(store.read_range(name, start, start + sum(part)))
            feed(data)
            yield from _cut(data, part)
            start += data.nbytes


def scan_rest(store: Store, name: str, start: int, feed: _Feed) -> int:
    """Hand on all bytes from `start` to the shard's end, and return its size."""
    nbytes = store.size(name)
    for begin in range(start, nbytes, _RUN_NBYTES):
        feed(memoryview(store.read_range(name, begin, min(begin + _RUN_NBYTES, nbytes))))
    return nbytes


def _runs(sizes: list[int]) -> Iterator[list[int]]:
    """Cut the sizes of blocks into runs that are read at once."""
    run: list[int] = []
    total = 0
    for nbytes in sizes:
        run.append(nbytes)
        total += nbytes
        if total >= _RUN_NBYTES:
            yield run
            run, total = [], 0
    if run:
        yield run


def _cut(data: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size
