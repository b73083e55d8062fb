"""Cut the units of a source into tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from datafeed.converters.source import Unit

TASK_NBYTES = 24 * 10**6  # about 0.2 s of work: long beside what Ray spends on a task (1 ms), short beside a shard's


class Run(Sequence[Unit]):
    """Refer to consecutive units of a source, which may make them when they are asked for; pickled as the units.

    Args:
        units: All units of the source.
        start: The first one.
        end: The one behind the last.
    """

    def __init__(self, units: Sequence[Unit], start: int, end: int) -> None:
        self._units = units
        self._places = range(start, end)

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (list(self),)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Unit: ...

    @overload
    def __getitem__(self, place: slice) -> list[Unit]: ...

    def __getitem__(self, place: int | slice) -> Unit | list[Unit]:
        if isinstance(place, slice):
            return [self._units[number] for number in self._places[place]]
        return self._units[self._places[place]]


@dataclass(frozen=True, slots=True)
class Task:
    """Name what one worker encodes in one go; blocks end at its end.

    Args:
        number: Its number in the plan.
        units: Consecutive units of the source.
        nbytes: Their size as raw records, estimated.
    """

    number: int
    units: Sequence[Unit]
    nbytes: int


def cut_tasks(units: Sequence[Unit], nbytes: int = TASK_NBYTES) -> list[Task]:
    """Group consecutive units: a task takes units until one more would pass `nbytes`, at least one.

    Args:
        units: The source's units, in order; each is asked for once, and not held.
        nbytes: Raw bytes of a task, or what takes as long.

    Returns:
        The tasks, in order: the same for the same units.
    """
    tasks: list[Task] = []
    start = size = work = 0
    for place, unit in enumerate(units):
        if place > start and work + (unit.work or unit.nbytes) > nbytes:
            tasks.append(Task(len(tasks), Run(units, start, place), size))
            start, size, work = place, 0, 0
        size += unit.nbytes
        work += unit.work or unit.nbytes
    if len(units) > start:
        tasks.append(Task(len(tasks), Run(units, start, len(units)), size))
    return tasks
