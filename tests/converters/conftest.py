"""Share what the tests of the write path need."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from datafeed.converters.pool import ray_cluster


@pytest.fixture(scope="session")
def ray_workers() -> Iterator[int]:
    """Start one local Ray for all tests, as a conversion would: it takes seconds."""
    with ray_cluster(None, 3) as workers:
        yield workers


@pytest.fixture(scope="session")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The library itself, offline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        import datasets

        datasets.disable_progress_bars()
        yield datasets
