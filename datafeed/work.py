"""Hold what the threads of an engine share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from datafeed.schedule import Step

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """Hold a batch in the making.

    Args:
        parts: What is left to do, in any order, on any threads.
        finish: What to call once all parts are done; gives the batch.
    """

    parts: Sequence[Callable[[], None]]
    finish: Callable[[], T]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bound what an engine does ahead of its caller.

    Args:
        workers: Threads; 0 for the caller's own.
        depth: Batches begun or ready and not yet taken, at least 1.
        ahead: Batches beyond `depth` whose blocks may be loaded already.
        timeout_s: How long the caller waits for a batch before it is told; 0 for as long as tasks finish at all.
    """

    workers: int
    depth: int
    ahead: int
    timeout_s: float = 0.0


@dataclass(slots=True)
class Counters:
    """Count what the tasks of an engine did; seconds are summed over threads."""

    blocks: int = 0
    load_s: float = 0.0
    gather_s: float = 0.0
    part_s: float = 0.0


@dataclass(slots=True)
class Entry(Generic[T]):
    """Follow one step from plan to batch."""

    step: Step | None
    loading: int
    work: Work[T] | None = None
    parts_left: int = 0
    gathered: bool = False
    batch: tuple[T] | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class Shared(Generic[T]):
    """Hold what the lock guards. Numbers count batches from the iterator's first."""

    entries: dict[int, Entry[T]] = field(default_factory=dict)
    loads: deque[tuple[int, int, int]] = field(default_factory=deque)
    parts: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    uses: dict[int, int] = field(default_factory=dict)
    failed: dict[int, BaseException] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    planned: int = 0
    gathering: int = 0
    freed: int = 0
    taken: int = 0
    planning: bool = False
    planned_all: bool = False
    closed: bool = False
    fatal: BaseException | None = None
    last_done: float = field(default_factory=time.monotonic)
