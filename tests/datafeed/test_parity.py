"""Check that over torch Datasets all that a caller sees is as with torch's own DataLoader."""

from __future__ import annotations

import pytest
from parity import arguments, collation, faults, iterables, iterating, loaders, maps, starts, workers
from parity.compare import CASES, outcome
from parity.data import Numbers
from torch.utils.data import DataLoader

from datafeed import Loader

THEMES = (arguments, collation, faults, iterables, iterating, loaders, maps, starts, workers)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's, of iterators half made
@pytest.mark.parametrize("name", list(CASES))
def test_a_caller_sees_the_same(name: str) -> None:
    """The result with its types, the exception, the warnings."""
    assert outcome(CASES[name], Loader) == outcome(CASES[name], DataLoader)


def test_the_table_is_whole() -> None:
    """Every theme has its cases."""
    assert len(CASES) >= 120
    assert {name.partition(".")[0] for name in CASES} == {theme.__name__.partition(".")[2] for theme in THEMES}


class Sorted(DataLoader[object]):
    """Differ from torch."""

    def __iter__(self) -> object:  # type: ignore[override]
        return iter(sorted(super().__iter__(), reverse=True))


def test_the_comparison_can_fail() -> None:
    """A loader in another order, one of other types, and one that warns, are found."""
    theirs = outcome(lambda make: list(make(Numbers())), DataLoader)
    assert theirs == outcome(lambda make: list(make(Numbers())), DataLoader)
    assert theirs != outcome(lambda make: list(make(Numbers())), Sorted)
    assert theirs != outcome(lambda make: tuple(make(Numbers())), DataLoader)
    assert theirs != outcome(lambda make: list(make(Numbers(), pin_memory=True)), DataLoader)
    assert theirs != outcome(lambda make: list(make(Numbers(), batch_size=0)), DataLoader)
