"""Share what the tests of the write path need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datafeed.converters.pool import ray_cluster


@pytest.fixture(scope="session")
def ray_workers() -> Iterator[int]:
    """Start one local Ray for all tests, as a conversion would: it takes seconds."""
    with ray_cluster(None, 3) as workers:
        yield workers
