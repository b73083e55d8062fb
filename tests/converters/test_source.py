"""Test the parts that sources are described with."""

from __future__ import annotations

import pickle

from datafeed.converters.source import Stamp, Unit


def test_unit_comes_back_from_a_pickle() -> None:
    """A unit travels whole, its stamps as stamps."""
    unit = Unit("a#1", 5, (Stamp("a", 1, 2), Stamp("b", 3, 4)), {"rows": (1, 2)})
    again = pickle.loads(pickle.dumps(unit, 5))  # noqa: S301  (our own)
    assert again == unit
    assert again.files[1].version == 4
