"""Test the store of S3 against a real server: the contract, versions, parts, and what each error says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3_server import make_bucket, options, s3_server
from store_contract import StoreContract

from datafeed.s3store import S3Store
from datafeed.storage import Store, open_store

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a server for the module."""
    with s3_server() as found:
        make_bucket(found, "bucket")
        yield found


@pytest.fixture
def store(address: str, request: pytest.FixtureRequest) -> Store:
    """Give an empty folder of a bucket."""
    return open_store(f"s3://bucket/{request.node.name}/deep", options(address))


class TestS3Store(StoreContract):
    """A bucket keeps the contract."""

    @pytest.fixture
    def store(self, store: Store) -> Store:
        """Give an empty folder of a bucket."""
        assert isinstance(store, S3Store)
        return store
