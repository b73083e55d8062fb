"""Run a schedule on threads, delivering its batches in order.

One engine per iterator. Its workers take the most urgent task there is: finish a batch that has begun, begin the next
batch whose blocks are all there, load the next blocks that fall due, plan further. With no workers the caller's own
thread does the same. Everything that the tasks share changes under one lock, which is never held while a task runs.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from datafeed._native import Block
from datafeed.errors import LoaderClosed
from datafeed.schedule import Step
from datafeed.work import Counters, Entry, Limits, Shared, Work

T = TypeVar("T")
Table = Sequence[Block | None]
Run = tuple[int, int]
Load = Callable[[Sequence[Run]], list[Block]]

_LOAD_BLOCKS = 8  # blocks loaded under one task where as many are due: fewer passes through lock and GIL
_PLAN_STEPS = 32  # steps planned under one task: amortises the task's two passes through the lock
_LONGEST_SILENCE_S = 600.0  # without a finished task for this long, something hangs


class Engine(Generic[T]):
    """Turn a schedule into batches.

    Args:
        steps: The schedule.
        blocks: How many blocks the dataset has.
        load: Reads runs of blocks, (first, behind the last), and returns the blocks; called on any thread.
        gather: Begins the batch of a step from the table of loaded blocks; called on any thread.
        limits: How far to run ahead, on how many threads.
        counters: What counts; None for new ones.

    Attributes:
        failed: Whether what a task or the plan raised was raised by `take`.
    """

    def __init__(
        self,
        steps: Iterator[Step],
        blocks: int,
        load: Load,
        gather: Callable[[Table, Step], Work[T]],
        limits: Limits,
        counters: Counters | None = None,
    ) -> None:
        self._steps = steps
        self._load = load
        self._gather = gather
        self._limits = limits
        self._table: list[Block | None] = [None] * blocks
        self._shared: Shared[T] = Shared(counters=counters or Counters())
        self.failed = False
        self._lock = threading.Lock()
        self._tasks = threading.Condition(self._lock)
        self._batches = threading.Condition(self._lock)
        self._threads = [
            threading.Thread(target=self._run, name=f"datafeed-{number}", daemon=True)
            for number in range(limits.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        return self._shared.counters

    def take(self) -> tuple[T, Step]:
        """Wait for the next batch; return it with its step.

        Raises:
            StopIteration: There are no more.
            LoaderClosed: The engine was closed.
            TimeoutError: `timeout_s` passed, or no task finished for ten minutes.
            BaseException: Whatever a task for this batch, or the plan, raised.
        """
        shared = self._shared
        with self._lock:
            number = shared.taken
            while not self._is_ready(number):
                if not self._threads:
                    self._help()
                else:
                    self._wait(number)
            if number not in shared.entries:
                raise StopIteration
            entry = shared.entries.pop(number)
            shared.taken += 1
            self._tasks.notify()
        if entry.error is not None:
            self.failed = True
            self.close()
            raise entry.error
        assert entry.batch is not None
        assert entry.step is not None
        return entry.batch[0], entry.step

    def close(self) -> None:
        """End the threads and let go of the blocks; waits for tasks that are running."""
        with self._lock:
            self._shared.closed = True
            self._tasks.notify_all()
            self._batches.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._table.clear()
        self._shared.entries.clear()

    def _is_ready(self, number: int) -> bool:
        shared = self._shared
        if shared.closed:
            raise LoaderClosed("this iterator was closed: call iter(loader) for a new one")
        if shared.fatal is not None:
            raise shared.fatal
        entry = shared.entries.get(number)
        if entry is None:
            return shared.planned_all and number >= shared.planned
        return entry.batch is not None or entry.error is not None

    def _wait(self, number: int) -> None:
        timeout_s, started = self._limits.timeout_s, time.monotonic()
        waited_enough = self._batches.wait_for(
            lambda: self._shared.closed or self._is_ready(number), timeout_s or _LONGEST_SILENCE_S
        )
        silent_s = time.monotonic() - max(self._shared.last_done, started)
        if waited_enough or not (timeout_s or silent_s >= _LONGEST_SILENCE_S):
            return
        entry = self._shared.entries.get(number)
        doing = "its plan" if entry is None else "its blocks" if entry.loading else "its making"
        raise TimeoutError(f"no batch {number} after {time.monotonic() - started:.0f} s: still waiting for {doing}")

    def _help(self) -> None:
        """Run one task on the caller's thread, which holds the lock."""
        task = self._next_task()
        assert task is not None, "a batch that is not ready has a task that makes it so"
        self._lock.release()
        try:
            task()
        finally:
            self._lock.acquire()

    def _run(self) -> None:
        try:
            while (task := self._wait_for_task()) is not None:
                task()
        except BaseException as exc:  # noqa: BLE001  (a fault of the engine itself; the caller must not wait for ever)
            with self._lock:
                self._shared.fatal = exc
                self._batches.notify_all()

    def _wait_for_task(self) -> Callable[[], None] | None:
        with self._lock:
            while not self._shared.closed:
                task = self._next_task()
                if task is not None:
                    return task
                self._tasks.wait()
        return None

    def _next_task(self) -> Callable[[], None] | None:
        """Choose the most urgent task and mark it as taken. The lock is held."""
        shared, limits = self._shared, self._limits
        if shared.parts:
            return partial(self._do_part, *shared.parts.popleft())
        entry = shared.entries.get(shared.gathering)
        if entry is not None and not entry.loading and shared.gathering < shared.taken + limits.depth:
            shared.gathering += 1
            return partial(self._do_gather, shared.gathering - 1, entry)
        horizon = shared.taken + limits.depth + limits.ahead
        if shared.loads and shared.loads[0][0] < horizon:
            return partial(self._do_loads, self._due_loads(horizon))
        if not shared.planning and not shared.planned_all and shared.planned <= horizon:
            shared.planning = True
            return self._do_plan
        return None

    def _do_plan(self) -> None:
        steps, ended, error = [], False, None
        try:
            # The first batch must not wait for the plan of later ones.
            for _ in range(_PLAN_STEPS if self._shared.planned else 1):
                step = next(self._steps, None)
                if step is None:
                    ended = True
                    break
                steps.append(step)
        except BaseException as exc:  # noqa: BLE001  (it travels to the caller's thread)
            error, ended = exc, True
        with self._lock:
            shared = self._shared
            for step in steps:
                shared.entries[shared.planned] = Entry(step, len(step.loads))
                shared.loads.extend((shared.planned, start, end) for start, end in step.loads)
                shared.planned += 1
            if error is not None:
                shared.entries[shared.planned] = Entry(None, 0, gathered=True, error=error)
                shared.planned += 1
            shared.planning, shared.planned_all = False, ended
            if ended:
                self._batches.notify_all()
            self._done(wake=len(self._threads))

    def _due_loads(self, horizon: int) -> list[tuple[int, int, int]]:
        """Take the next loads, a few blocks together, but none that the caller's batch does not wait for with it."""
        loads = self._shared.loads
        due = [loads.popleft()]
        blocks = due[0][2] - due[0][1]
        urgent = due[0][0] <= self._shared.taken
        while loads and not urgent and loads[0][0] < horizon and blocks < _LOAD_BLOCKS:
            due.append(loads.popleft())
            blocks += due[-1][2] - due[-1][1]
        return due

    def _do_loads(self, due: list[tuple[int, int, int]]) -> None:
        started = time.perf_counter()
        good: list[tuple[int, Block]] = []  # an order that returns to a block may load it twice in one go
        bad: dict[int, BaseException] = {}
        self._load_runs([(start, end) for _, start, end in due if not self._hold_again(start, end)], good, bad)
        with self._lock:
            shared = self._shared
            if not shared.closed:
                for block, loaded in good:
                    self._table[block] = loaded
                    shared.uses[block] = shared.uses.get(block, 0) + 1
            shared.failed.update(bad)
            shared.counters.blocks += len(good)
            for number, _, _ in due:
                entry = shared.entries.get(number)
                if entry is not None:
                    entry.loading -= 1
            shared.counters.load_s += time.perf_counter() - started
            self._done()

    def _load_runs(self, runs: Sequence[Run], good: list[tuple[int, Block]], bad: dict[int, BaseException]) -> None:
        """Load runs; where that fails, their blocks one by one, so that only the batches of bad ones fail."""
        blocks = [block for run in runs for block in range(*run)]
        try:
            good += zip(blocks, self._load(runs), strict=True)
        except BaseException as exc:  # noqa: BLE001  (it travels to the caller's thread)
            if len(blocks) == 1:
                bad[blocks[0]] = exc
                return
            for block in blocks:
                self._load_runs([(block, block + 1)], good, bad)

    def _hold_again(self, start: int, end: int) -> bool:
        """Hold a run once more where all of it is loaded, which happens to orders that return to a block."""
        uses = self._shared.uses
        if start not in uses:  # read without the lock: the usual answer, and a stale one costs a second read
            return False
        with self._lock:
            if not all(block in uses for block in range(start, end)):
                return False
            for block in range(start, end):
                uses[block] += 1
            return True

    def _do_gather(self, number: int, entry: Entry[T]) -> None:
        started, work, error = time.perf_counter(), None, None
        try:
            if entry.error is None and entry.step is not None:
                self._check_loaded(entry.step)
                work = self._gather(self._table, entry.step)
        except BaseException as exc:  # noqa: BLE001  (it travels to the caller's thread)
            error = exc
        with self._lock:
            shared = self._shared
            entry.gathered = True
            entry.error = entry.error or error
            if work is not None:
                entry.work, entry.parts_left = work, len(work.parts)
                shared.parts.extend((number, part) for part in work.parts)
            self._free_gathered()
            shared.counters.gather_s += time.perf_counter() - started
            self._tell_caller(number, entry)
            self._done(wake=max(1, entry.parts_left))
        if work is not None and not work.parts:
            self._finish(number, entry)

    def _check_loaded(self, step: Step) -> None:
        failed = self._shared.failed
        if failed:
            for block in step.to_make().blocks.tolist():
                if block in failed:
                    raise failed[block]

    def _do_part(self, number: int, part: Callable[[], None]) -> None:
        started, error = time.perf_counter(), None
        try:
            part()
        except BaseException as exc:  # noqa: BLE001  (it travels to the caller's thread)
            error = exc
        with self._lock:
            entry = self._shared.entries.get(number)
            self._shared.counters.part_s += time.perf_counter() - started
            self._done()
            if entry is None:
                return
            entry.parts_left -= 1
            entry.error = entry.error or error
            whole = entry.parts_left == 0 and entry.error is None
            self._tell_caller(number, entry)
        if whole:
            self._finish(number, entry)

    def _finish(self, number: int, entry: Entry[T]) -> None:
        assert entry.work is not None
        batch, error = None, None
        try:
            batch = (entry.work.finish(),)
        except BaseException as exc:  # noqa: BLE001  (it travels to the caller's thread)
            error = exc
        with self._lock:
            entry.batch, entry.error, entry.work = batch, error, None
            self._tell_caller(number, entry)

    def _free_gathered(self) -> None:
        """Let go of blocks behind the gathered prefix: an earlier batch on another thread may still need them."""
        shared = self._shared
        entry = shared.entries.get(shared.freed)
        while entry is not None and entry.gathered and entry.step is not None:
            for block in entry.step.frees:
                uses = shared.uses.get(block, 0) - 1
                if uses > 0:
                    shared.uses[block] = uses
                elif not uses:  # below 0: its load failed, so that nobody holds it
                    del shared.uses[block]
                    self._table[block] = None
            shared.freed += 1
            entry = shared.entries.get(shared.freed)

    def _done(self, wake: int = 1) -> None:
        """Note that a task was finished, and wake workers for those that it made possible. The lock is held."""
        self._shared.last_done = time.monotonic()
        self._tasks.notify(wake)

    def _tell_caller(self, number: int, entry: Entry[T]) -> None:
        """Wake the caller where this is the batch that it waits for. The lock is held."""
        if number == self._shared.taken and (entry.batch is not None or entry.error is not None):
            self._batches.notify_all()


def close_with(owner: object, engine: Engine[T]) -> weakref.finalize[..., object]:
    """Close the engine when its owner is dropped, and when the interpreter ends."""
    return weakref.finalize(owner, _close_in, os.getpid(), engine)


def _close_in(pid: int, engine: Engine[T]) -> None:
    """Close an engine in the process that made it: a forked child has no threads to end, but maybe a lock held."""
    if os.getpid() == pid:
        engine.close()
