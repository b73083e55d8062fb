"""Offer the toy data that the benchmarks' tests share."""

from __future__ import annotations

import pytest

from datafeed.bench.case import Case
from datafeed.bench.prepare import prepare


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A case at toy size; its folder is empty at first."""
    return Case(str(tmp_path_factory.mktemp("bench") / "toy"), workers=2, batch_size=16, seconds=0, toy=True)


@pytest.fixture(scope="session")
def checksums(case: Case) -> dict[str, int]:
    """The digests of the case's workloads, which are made and converted."""
    return dict(prepare(case, lambda _text: None))
