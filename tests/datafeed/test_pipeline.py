"""Check that the engine delivers every batch in order, whatever its threads do."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pytest

from datafeed._native import Block
from datafeed.errors import LoaderClosed
from datafeed.pipeline import Engine, Run, Table, close_with
from datafeed.schedule import Step
from datafeed.work import Limits, Work

EMPTY = Block(b"", 0)


def steps(count: int) -> Iterator[Step]:
    """Schedule batches of one row; batch i loads block i, and frees block i - 3."""
    for number in range(count):
        frees = (number - 3,) if number >= 3 else ()
        blocks = np.arange(max(0, number - 2), number + 1, dtype=np.int32)
        yield Step(number, blocks, np.zeros(len(blocks), np.int32), ((number, number + 1),), frees)


class Maker:
    """Make batch i the number i, and remember what was going on."""

    def __init__(self, parts: int = 0, delays: int = 0) -> None:
        self.parts = parts
        self.rng = np.random.default_rng(delays) if delays else None
        self.lock = threading.Lock()
        self.loaded: list[int] = []
        self.most_held = 0

    def pause(self) -> None:
        """Wait for up to a millisecond, so that threads overtake each other."""
        if self.rng is not None:
            with self.lock:
                seconds = float(self.rng.random()) / 1000
            time.sleep(seconds)

    def load(self, runs: Sequence[Run]) -> list[Block]:
        """Load blocks."""
        self.pause()
        blocks = [block for run in runs for block in range(*run)]
        with self.lock:
            self.loaded += blocks
        return [EMPTY] * len(blocks)

    def gather(self, table: Table, step: Step) -> Work[int]:
        """Begin a batch; every block that it needs must be there."""
        self.pause()
        held = [block is not None for block in table]
        assert all(held[block] for block in step.blocks)
        with self.lock:
            self.most_held = max(self.most_held, sum(held))
        done: list[int] = []
        return Work([lambda: self.part(done)] * self.parts, lambda: self.finish(done, step.start))

    def part(self, done: list[int]) -> None:
        """Do a part."""
        self.pause()
        done.append(1)

    def finish(self, done: list[int], number: int) -> int:
        """Finish a batch, all of whose parts are done."""
        assert len(done) == self.parts
        return number


def drain(engine: Engine[int]) -> list[int]:
    """Take all batches."""
    out = []
    while True:
        try:
            out.append(engine.take()[0])
        except StopIteration:
            return out


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
@pytest.mark.parametrize("parts", [0, 1, 5])
def test_every_batch_comes_once_in_order(workers: int, parts: int) -> None:
    """Delays of all kinds change nothing, each block is loaded once, and none is held for long."""
    maker = Maker(parts, delays=workers + 1)
    engine = Engine(steps(120), 120, maker.load, maker.gather, Limits(workers, 3, 4))
    assert drain(engine) == list(range(120))
    assert sorted(maker.loaded) == list(range(120))
    assert maker.most_held <= 3 + 3 + 4 + 2 * max(1, workers)
    engine.close()


def test_a_schedule_without_steps_ends_at_once() -> None:
    """Zero batches are no error."""
    maker = Maker()
    engine = Engine(steps(0), 0, maker.load, maker.gather, Limits(2, 2, 2))
    assert drain(engine) == []
    engine.close()


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("where", ["plan", "load", "gather", "part", "finish"])
def test_f64_an_error_reaches_the_caller_at_its_batch(where: str, workers: int) -> None:
    """What was raised on a thread is raised by `take`, after the batches before it, with its traceback."""

    class Failing(Maker):
        def load(self, runs: Sequence[Run]) -> list[Block]:
            self.fail_at("load", *(block for block, _ in runs))
            return super().load(runs)

        def gather(self, table: Table, step: Step) -> Work[int]:  # noqa: ARG002  (the interface)
            self.fail_at("gather", step.start)
            return Work([lambda: self.fail_at("part", step.start)] * 2, lambda: self.end(step.start))

        def end(self, number: int) -> int:
            self.fail_at("finish", number)
            return number

        def fail_at(self, stage: str, *numbers: int) -> None:
            if stage == where and 7 in numbers:
                raise ZeroDivisionError(stage)

    def failing_steps() -> Iterator[Step]:
        yield from steps(7)
        if where == "plan":
            raise ZeroDivisionError(where)
        yield from list(steps(20))[7:]

    maker = Failing()
    engine = Engine(failing_steps(), 20, maker.load, maker.gather, Limits(workers, 3, 4))
    assert [engine.take()[0] for _ in range(7)] == list(range(7))
    with pytest.raises(ZeroDivisionError, match=where) as caught:
        engine.take()
    assert caught.traceback[-1].name in ("fail_at", "failing_steps")
    with pytest.raises(LoaderClosed):
        engine.take()


def test_f64_a_block_that_a_batch_does_not_need_cannot_fail_it() -> None:
    """Of a block that cannot be loaded, records that are made already come; one that is to be made does not."""
    zero, kept = np.zeros(1, np.int32), np.array([5], np.int32)
    plan = [Step(0, zero, zero, ((0, 1),), (), kept), Step(1, zero, zero, (), (0,), -kept)]

    def load(_: Sequence[Run]) -> list[Block]:
        raise OSError("no such block")

    with closing(Engine(iter(plan), 1, load, lambda _, step: Work([], lambda: step.start), Limits(0, 1, 0))) as engine:
        assert engine.take()[0] == 0
        with pytest.raises(OSError, match="no such block"):
            engine.take()


def test_f64_dropping_the_owner_ends_the_threads() -> None:
    """No thread outlives the iterator."""

    class Owner:
        """Stand for an iterator."""

    before = threading.active_count()
    maker, owner = Maker(delays=1), Owner()
    engine = Engine(steps(1000), 1000, maker.load, maker.gather, Limits(4, 3, 4))
    close_with(owner, engine)
    engine.take()
    assert threading.active_count() == before + 4
    del owner, engine
    gc.collect()
    assert threading.active_count() == before


def test_a_batch_that_never_comes_is_told_when_there_is_a_timeout() -> None:
    """The message says what is waited for."""
    maker, gate = Maker(), threading.Event()

    def stuck(runs: Sequence[Run]) -> list[Block]:
        gate.wait(30)
        return maker.load(runs)

    engine = Engine(steps(3), 3, stuck, maker.gather, Limits(1, 2, 2, timeout_s=0.05))
    with pytest.raises(TimeoutError, match=r"no batch 0 after .* still waiting for its blocks"):
        engine.take()
    gate.set()
    assert drain(engine) == [0, 1, 2]
    engine.close()


def test_the_engine_runs_no_further_ahead_than_told() -> None:
    """Without a caller, only `depth` batches are made and the blocks of `ahead` more are loaded."""
    maker = Maker()
    engine = Engine(steps(500), 500, maker.load, maker.gather, Limits(2, 3, 4))
    deadline = time.monotonic() + 10
    while len(maker.loaded) < 7 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(maker.loaded) == 3 + 4
    engine.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_f61_a_fault_of_the_engine_itself_reaches_the_caller(workers: int) -> None:
    """A worker that dies of it does not leave the caller waiting."""
    engine = Engine(steps(3), 3, lambda *_: 7, Maker().gather, Limits(workers, 2, 2))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError):
        engine.take()
    engine.close()
