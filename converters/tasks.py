"""Cut the units of a source into tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from datafeed.converters.source import Unit

TASK_NBYTES = 24 * 10**6  # about 0.2 s of work: long beside what Ray spends on a task (1 ms), short beside a shard's


@dataclass(frozen=True, slots=True)
class Task:
    """Name what one worker encodes in one go; blocks end at its end.

    Args:
        number: Its number in the plan.
        units: Consecutive units of the source.
    """

    number: int
    units: tuple[Unit, ...]

    @property
    def nbytes(self) -> int:
        """Its size as raw records, estimated."""
        return sum(unit.nbytes for unit in self.units)


def cut_tasks(units: Iterable[Unit], nbytes: int = TASK_NBYTES) -> list[Task]:
    """Group consecutive units: a task takes units until one more would pass `nbytes`, at least one.

    Args:
        units: The source's units, in order.
        nbytes: Raw bytes of a task.

    Returns:
        The tasks, in order: the same for the same units.
    """
    tasks: list[Task] = []
    held: list[Unit] = []
    size = 0
    for unit in units:
        if held and size + unit.nbytes > nbytes:
            tasks.append(Task(len(tasks), tuple(held)))
            held, size = [], 0
        held.append(unit)
        size += unit.nbytes
    if held:
        tasks.append(Task(len(tasks), tuple(held)))
    return tasks
