"""Test how units become tasks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters.source import Unit
from datafeed.converters.tasks import Task, cut_tasks


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


def test_units_that_take_longer_than_their_size_says_make_tasks_of_few() -> None:
    """Text is some hundred times as much work as its ids are bytes."""
    units = [Unit(str(number), 10, work=40) for number in range(4)]
    assert [(len(task.units), task.nbytes) for task in cut_tasks(units, 90)] == [(2, 20), (2, 20)]


class _Made(Sequence[Unit]):
    """Make units when they are asked for, and count how often."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int | slice) -> Any:
        assert isinstance(place, int)
        if place >= self.count:
            raise IndexError(place)
        self.made += 1
        return Unit(str(place), 10)


def test_units_are_made_when_a_task_is_sent() -> None:
    """Cutting asks for each once and holds none; a task is pickled with its own units, not with all."""
    units = _Made(100)
    tasks = cut_tasks(units, 50)
    assert units.made == 100
    assert sum(task.nbytes for task in tasks) == 1000
    assert units.made == 100
    copy = pickle.loads(pickle.dumps(tasks[3]))  # noqa: S301  (its own)
    assert copy == Task(3, tuple(Unit(str(place), 10) for place in range(15, 20)), 50)
    assert units.made == 105
    assert [unit.name for unit in tasks[3].units[1:3]] == ["16", "17"]
