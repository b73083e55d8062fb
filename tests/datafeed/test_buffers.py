"""The buffer pool: nothing that is still seen is lent again."""

from __future__ import annotations

import threading

import numpy as np

from datafeed._native import Block
from datafeed.buffers import ArrayPool, BufferPool


def test_buffer_comes_back_when_its_view_dies() -> None:
    """The next loan has the same memory, and the free ones are counted."""
    pool = BufferPool(100)
    view = pool.take(60)
    assert view.nbytes == 60
    view[0] = 7
    free = pool.free
    del view
    assert pool.free == free + 1
    assert pool.take(100)[0] == 7
    assert pool.free == free + 1


def test_derived_views_keep_a_buffer() -> None:
    """A slice, a cast, a numpy array or a Block's record outlives the view that was lent."""
    raw = bytes.fromhex("0000000000000000 29039807 d8ea82a2")
    makers = (
        lambda view: view[2:5],
        lambda view: view.toreadonly().cast("B")[1:],
        lambda view: np.frombuffer(view, np.uint8)[3:],
        Block,
        lambda view: Block(view).record(0),
    )
    for make in makers:
        pool = BufferPool(16)
        view = pool.take(16)
        view[:] = raw
        derived = make(view)
        free = pool.free
        del view
        assert pool.free == free
        del derived
        assert pool.free == free + 1


def test_a_pool_keeps_no_more_than_told() -> None:
    """What comes back beyond that is freed."""
    pool = BufferPool(1000, 2)
    views = [pool.take(1000) for _ in range(5)]
    assert len({np.frombuffer(view, np.uint8).ctypes.data for view in views}) == 5
    assert pool.free == 0
    del views
    assert pool.free == 2


def test_long_buffers_are_not_kept() -> None:
    """What is longer than the pool's size is made afresh and dropped."""
    pool = BufferPool(10)
    assert pool.take(11).nbytes == 11
    assert pool.free == 0


def test_pool_holds_what_was_lent_at_once() -> None:
    """A burst's memory serves the next one: no more is made."""
    pool = BufferPool(2**20)
    views = [pool.take(1) for _ in range(50)]
    held = pool.free + 50
    del views
    views = [pool.take(1) for _ in range(50)]
    assert pool.free + len(views) == held


def test_threads_never_share_a_loan() -> None:
    """Eight threads that write and check their own loans see nobody else's bytes."""
    pool = BufferPool(64)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(2000):
            held = [pool.take(64) for _ in range(3)]
            for view in held:
                view[:] = bytes([number]) * 64
            if any(view != bytes([number]) * 64 for view in held):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.free % 1024 == 0, "slabs of 1024 buffers are whole again: every loan came back"


def test_arrays_use_memory_again_once_no_view_of_them_lives() -> None:
    """Of any dtype and shape; what is still seen is not lent, and a shorter array takes a longer one's place."""
    pool = ArrayPool()
    first = pool.empty((100, 500), np.uint16)
    assert (first.shape, first.dtype) == ((100, 500), np.uint16)
    first[:] = 7
    row = first[3]
    del first
    second = pool.empty((25, 1000), np.int32)
    second[:] = 9
    assert (row == 7).all()
    at = row.ctypes.data
    del row
    again = pool.empty((99, 500), np.uint16)
    assert again.ctypes.data == at - 3 * 1000
    assert (second == 9).all()


def test_small_arrays_are_made_afresh() -> None:
    """Malloc keeps memory for them; empty ones and zero-dimensional sizes are fine."""
    pool = ArrayPool(2)
    assert pool.empty((0, 5), np.float32).shape == (0, 5)
    assert pool.empty(10, np.uint8).nbytes == 10
    assert not pool._pools
