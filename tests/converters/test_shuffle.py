"""Test shuffling a source as it is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from numbered import Numbered, digests, rows_of

from datafeed.converters import shuffle
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.shuffle import Shuffled
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.errors import BadItem

ASKED = ConvertOptions(shard_size=4000, block_size=700, workers=1, shuffle_all=True)


def order(rows: int, seed: int, bad: frozenset[int] = frozenset(), found: list[BadItem] | None = None) -> list[int]:
    """Return the numbers of the rows as they are given out."""
    source = Shuffled(Numbered(rows, claim=1000, bad=bad), seed)
    on_bad = [].append if found is None else found.append
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, on_bad)]
    for chunk in chunks:
        numbers = chunk.columns["x"].values.tolist()
        assert [chunk.where(row) for row in range(chunk.rows)] == [f"rows:{x}" for x in numbers]
    return [int(row) for chunk in chunks for row in chunk.columns["x"].values]


@pytest.mark.parametrize("window", [1, 2500, 10**9])
def test_every_row_comes_once_in_an_order_of_the_seed(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """Whatever the window; each row still tells where it came from."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", window)
    found = order(530, 7)
    assert sorted(found) == list(range(530))
    assert found == order(530, 7)
    assert found not in ([*range(530)], order(530, 8))


def test_a_source_that_fits_in_a_window_is_shuffled_exactly() -> None:
    """Rows of one unit end anywhere, and that is said."""
    places = {row: place for place, row in enumerate(order(1000, 1))}
    first = sorted(places[row] for row in range(50))
    assert first[0] < 100
    assert first[-1] > 900
    assert Shuffled(Numbered(1000, claim=1000), 1).notes() == ["shuffled exactly"]


def test_windows_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person should know that it is no exact shuffle; a window takes units from anywhere."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 5_000_000)
    source = Shuffled(Numbered(1000, claim=1_000_000), 1)
    assert len(source.units()) == 4
    assert source.notes() == ["shuffled within windows of 5 MB: 4 of them, each of units from anywhere"]
    details = [unit.detail for unit in source.units()]
    assert all(isinstance(detail, tuple) and len(detail[1]) == 5 for detail in details)


def test_bad_rows_are_passed_on() -> None:
    """With the place that they have in the source."""
    bad: list[BadItem] = []
    assert sorted(order(200, 3, frozenset({60, 61}), bad)) == [row for row in range(200) if row not in {60, 61}]
    assert sorted(item.where for item in bad) == ["rows:60", "rows:61"]


@dataclasses.dataclass(frozen=True)
class Torn(Numbered):
    """Offer units whose second half cannot be read."""

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read the first chunk of a unit."""
        yield next(super().read(unit, on_bad))
        raise BadItem(unit.name, "it ends here")


def test_a_unit_that_cannot_be_read_takes_no_other_with_it() -> None:
    """Each is one bad item; the rows before it, and those of the rest of the window, are kept."""
    source = Shuffled(Torn(200, claim=1000), 3)
    bad: list[BadItem] = []
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    numbers = sorted(int(row) for chunk in chunks for row in chunk.columns["x"].values)
    assert numbers == [start + row for start in range(0, 200, 50) for row in range(17)]
    assert sorted(item.where for item in bad) == [f"rows#{number}" for number in range(4)]


def test_a_unit_too_large_to_hold_is_shuffled_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed tar is one unit, of any size: no more of it is held than the limit, and that is said."""
    monkeypatch.setattr(shuffle, "HELD_NBYTES", 1000)
    source = Shuffled(Numbered(400, unit_rows=400, claim=20_000), 5)
    (unit,) = source.units()
    chunks = list(source.read(unit, [].append))
    assert max(chunk.rows for chunk in chunks) == 17  # a chunk of the source alone is more than the limit
    numbers = [int(row) for chunk in chunks for row in chunk.columns["x"].values]
    assert numbers[:17] != list(range(17))
    assert sorted(numbers[:17]) == list(range(17))
    assert sorted(numbers) == list(range(400))
    assert source.notes()[-1].endswith("shuffled by runs of that size alone: 1")


@pytest.mark.usefixtures("ray_workers")
def test_the_order_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    """Byte for byte, on Ray too."""
    source = Numbered(3000)
    convert(source, tmp_path / "1", ASKED)
    report = convert(source, tmp_path / "2", dataclasses.replace(ASKED, workers=2))
    assert report.ran_on == "ray"
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert sorted(rows_of(str(tmp_path / "1"))) == [(row, source.expected(row)) for row in range(3000)]
