"""Walking the stored bytes of a shard."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from datafeed.errors import TruncatedShard
from datafeed.scan import _RUN_NBYTES, scan_blocks, scan_rest
from datafeed.storage import open_store


class _Counted(int):
    """A size that counts how often it is added."""

    added = 0

    def __add__(self, other: int) -> int:
        _Counted.added += 1
        return int(self) + other

    __radd__ = __add__


def _bytes(nbytes: int) -> bytes:
    return np.random.default_rng(0).bytes(nbytes)


@pytest.mark.parametrize("sizes", [[], [5], [1] * 1000, [_RUN_NBYTES - 1, 1, 7], [3, 2 * _RUN_NBYTES, 4, 5]])
def test_blocks_come_as_they_are_stored(tmp_path: Path, sizes: list[int]) -> None:
    """However they fall into reads; the same bytes are handed on once, in order."""
    data = _bytes(sum(sizes) + 100)
    (tmp_path / "shard").write_bytes(data)
    store, fed = open_store(tmp_path), hashlib.sha256()
    found = [bytes(block) for block in scan_blocks(store, "shard", np.array(sizes, np.uint32), fed.update)]
    ends = np.cumsum(sizes, dtype=int).tolist()
    assert found == [data[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert scan_rest(store, "shard", sum(sizes), fed.update) == len(data)
    assert fed.digest() == hashlib.sha256(data).digest()


def test_a_shard_of_many_small_blocks_takes_linear_work(tmp_path: Path) -> None:
    """Each size is added a few times, not once for every block of its run."""
    sizes = np.array([_Counted(2)] * 3000, object)
    (tmp_path / "shard").write_bytes(bytes(6000))
    _Counted.added = 0
    assert len(list(scan_blocks(open_store(tmp_path), "shard", sizes, len))) == 3000
    assert 3000 <= _Counted.added <= 5 * 3000


def test_f44_whole_blocks_before_a_cut_are_seen(tmp_path: Path) -> None:
    """The run that the end of the file cuts is read block by block."""
    (tmp_path / "shard").write_bytes(_bytes(25))
    blocks = scan_blocks(open_store(tmp_path), "shard", np.array([10, 10, 10], np.uint32), len)
    assert [next(blocks).nbytes, next(blocks).nbytes] == [10, 10]
    with pytest.raises(TruncatedShard, match="the file ends at 25"):
        next(blocks)
