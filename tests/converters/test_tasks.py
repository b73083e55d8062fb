"""Test how units become tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters.source import Unit
from datafeed.converters.tasks import cut_tasks


@given(st.lists(st.integers(0, 150), max_size=40), st.integers(1, 100))
def test_tasks_hold_every_unit_once_in_order(sizes: list[int], nbytes: int) -> None:
    """Tasks are numbered, hold all units in order, and pass the size only with a single unit."""
    units = [Unit(str(i), size) for i, size in enumerate(sizes)]
    tasks = cut_tasks(units, nbytes)
    assert [unit for task in tasks for unit in task.units] == units
    assert [task.number for task in tasks] == list(range(len(tasks)))
    assert all(task.nbytes <= nbytes or len(task.units) == 1 for task in tasks)


def test_task_is_closed_only_when_the_next_unit_passes_the_size() -> None:
    """Units of 10, 20, 30, 70 bytes at 60 bytes a task make two tasks: the first is full to the byte."""
    units = [Unit(str(size), size) for size in (10, 20, 30, 70)]
    assert [task.nbytes for task in cut_tasks(units, 60)] == [60, 70]
