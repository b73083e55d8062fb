"""Set what holds for every test, and give the programs of others that read and write with ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from peer import Peer

# How long an example takes says more about the machine than about the code.
settings.register_profile("datafeed", deadline=None)
settings.load_profile("datafeed")


@pytest.fixture(scope="session")
def tensorflow() -> Iterator[Peer]:
    """TensorFlow, in a process of its own."""
    with Peer("tensorflow") as peer:
        yield peer


@pytest.fixture(scope="session")
def tfrecord() -> Iterator[Peer]:
    """The `tfrecord` package, which cannot share a process with TensorFlow."""
    with Peer("tfrecord") as peer:
        yield peer


@pytest.fixture(scope="session")
def shard_writer() -> Iterator[Peer]:
    """Torch, which the writers of MosaicML Streaming and LitData need (`shard_writers`), in a process of its own."""
    with Peer("torch") as peer:
        yield peer


@pytest.fixture(scope="session", autouse=True)
def _peers_at_once(request: pytest.FixtureRequest) -> None:
    """Start the peers that the selected tests need, so that they import while other tests run."""
    needed = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    for name in ("tensorflow", "tfrecord", "shard_writer"):
        if name in needed:
            request.getfixturevalue(name)
