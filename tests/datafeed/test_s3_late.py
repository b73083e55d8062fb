"""Test the store of S3 when replies come late, or for a while not at all, each fault by its number."""

from __future__ import annotations

import faulthandler
import logging
import os
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from s3_faulty import DATA, served

from datafeed.faults import Ask, Fault
from datafeed.faultserver import FaultServer


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """End a test that hangs, with all stacks."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_f41_a_straggler_is_asked_for_a_second_time() -> None:
    """One of many takes long, at its head or inside its body: another GET brings it, and nothing is written late."""
    for nbytes in (0, 50_000):
        slow = Fault("stall", nbytes, seconds=20)
        with served(
            lambda ask, slow=slow: slow if ask.start == 500_000 and not ask.nth else None, config_kwargs={}
        ) as (_, store):
            for i in range(100):
                store.read_range("a", i, i + 90_000)
            into = bytearray(90_000)
            store.read_into("a", 500_000, memoryview(into))
            assert into == DATA[500_000:590_000]
            into[:] = bytes(90_000)
            assert store.stats().hedge_wins >= 1
            assert into == bytes(90_000)


def test_f41_hedging_can_be_turned_off() -> None:
    """A straggler is then only retried when it times out."""
    slow = Fault("stall", 0, seconds=20)
    with served(lambda ask: slow if ask.start == 500_000 and not ask.nth else None, hedge=False) as (_, store):
        for i in range(100):
            store.read_range("a", i, i + 90_000)
        assert store.read_range("a", 500_000, 590_000) == DATA[500_000:590_000]
        assert (store.stats().hedges, store.stats().retries) == (0, 1)


def test_f42_f87_an_outage_is_waited_for_and_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has answered, the server may be gone for a while: reads stall, a warning says why, and they go on."""
    monkeypatch.setattr("datafeed.retry._TELL_AFTER_S", 0.2)
    with served() as (server, store):
        store.read_range("a", 0, 10)
        port = int(server.url.rpartition(":")[2])
        server.close()
        back: list[FaultServer] = []
        timer = threading.Timer(1.0, lambda: back.append(FaultServer({"bucket/d/a": DATA}, port=port)))
        timer.start()
        with caplog.at_level(logging.WARNING):
            assert store.read_range("a", 10, 20) == DATA[10:20]
        timer.join()
        back[0].close()
        assert "no answer for" in caplog.text
        assert "refused" in caplog.text


def test_f60_f89_a_forked_child_reads_by_itself() -> None:
    """After the parent has read, and while another of its threads reads."""
    with served(lambda ask: Fault("stall", 0, seconds=0.3) if ask.start == 7 else None, config_kwargs={}) as (_, store):
        store.read_range("a", 0, 10)
        busy = threading.Thread(target=store.read_range, args=("a", 7, 9))
        busy.start()
        time.sleep(0.05)
        pid = os.fork()
        if not pid:
            os._exit(0 if store.read_range("a", 5, 500_000) == DATA[5:500_000] else 1)
        assert os.waitpid(pid, 0)[1] == 0
        busy.join()
        assert store.read_range("a", 5, 500_000) == DATA[5:500_000]


def test_f87_one_get_in_ten_fails_in_every_way() -> None:
    """503, resets and closed connections at random, on eight threads: every byte is right."""
    kinds = (
        Fault("status"),
        Fault("reset", 3000),
        Fault("close", 9000),
        Fault("status", status=500, code="InternalError"),
    )

    def script(ask: Ask) -> Fault | None:
        return random.Random(ask.number).choice(kinds) if ask.number % 10 == 3 else None

    def read(i: int) -> bool:
        return store.read_range("a", i * 3000, i * 3000 + 20_000) == DATA[i * 3000 : i * 3000 + 20_000]

    with served(script, retry_deadline=30) as (_, store), ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(300)))
        assert store.stats().retries > 10


def test_reads_go_over_few_connections_and_without_copies() -> None:
    """A connection serves many GETs, and a read's memory is the caller's own."""
    with served() as (server, store):
        into = bytearray(900_000)
        for _ in range(50):
            store.read_into("a", 5, memoryview(into))
        assert len(server._open) == 1
        tracemalloc.start()
        store.read_into("a", 6, memoryview(into))
        assert tracemalloc.get_traced_memory()[1] < 300_000
        tracemalloc.stop()
        assert into == DATA[6:900_006]
