"""Serve an object by a server that misbehaves, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from datafeed.faults import Fault, Script
from datafeed.faultserver import FaultServer
from datafeed.s3store import S3Store

DATA = random.Random(1).randbytes(1_000_000)
KEYS = {"key": "AKIASOMEKEY", "secret": "do-not-tell", "token": "nor-this"}


@contextmanager
def served(script: Script | None = None, **given: object) -> Iterator[tuple[FaultServer, S3Store]]:
    """Give a server of one object, and a store there."""
    timeouts = {"read_timeout": 0.5, "connect_timeout": 0.5}
    with FaultServer({"bucket/d/a": DATA, "bucket/d/empty": b""}, script=script) as server:
        asked = {**KEYS, "endpoint_url": server.url, "config_kwargs": timeouts, "retry_deadline": 5, **given}
        yield server, S3Store("s3://bucket/d", asked)


def once(fault: Fault) -> Script:
    """Meet the first GET with a fault."""
    return lambda ask: fault if ask.number == 0 else None


def always(fault: Fault) -> Script:
    """Meet every request with a fault."""
    return lambda _: fault
