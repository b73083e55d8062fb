"""Test the server of faults: what it serves, how late, and its command."""

from __future__ import annotations

import http.client
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from processes import wait_until

from datafeed.errors import ConfigError
from datafeed.faults import Fault, Latency, parse_latency, seconds, shares
from datafeed.faultserver import FaultServer, main
from datafeed.storage import open_store


def test_a_folder_and_a_dict_are_served_alike(tmp_path: Path) -> None:
    """Ranges, sizes and listings; what lies outside of the folder is not served."""
    objects = {"bucket/d/a": bytes(range(256)), "bucket/d/e/b &c": b"b", "bucket/f": b""}
    for name, data in objects.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path.parent / "secret").write_bytes(b"s")
    for source in (objects, tmp_path):
        with FaultServer(source) as server:
            store = open_store("s3://bucket/d", {"endpoint_url": server.url, "anon": True})
            assert (store.names(), store.folders()) == (["a"], ["e"])
            assert open_store("s3://bucket/d/e", {"endpoint_url": server.url, "anon": True}).names() == ["b &c"]
            assert store.read_range("a", 10, 20) == bytes(range(10, 20))
            assert store.size("a") == 256
            assert store.read("e/b &c") == b"b"
            assert server.asked["GET", "bucket/d/a", 10, 20] == 1
            wait_until(lambda server=server: server.sent == 12)  # the body is counted after it is sent
            link = http.client.HTTPConnection(server.url.removeprefix("http://"))
            link.request("GET", "/bucket/../../secret")
            assert link.getresponse().status == 404
            link.close()


def test_latencies_are_drawn_as_they_are_described() -> None:
    """Median, 99th percentile and tail, the same for the same seed."""
    latency = parse_latency("p50=120ms,p99=1s,0.01=5s", seed=3)
    drawn = sorted(latency.draw() for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(0.12, rel=0.1)
    assert drawn[int(20_000 * 0.98)] == pytest.approx(0.9, rel=0.25)
    assert 100 < drawn.count(5.0) < 300
    again = parse_latency("p50=120ms,p99=1s,0.01=5s", seed=3)
    assert sorted(again.draw() for _ in range(20_000)) == drawn
    assert Latency().draw() == 0


@pytest.mark.parametrize("text", ["p50=x", "p50=2s,p99=1s", "p50=1s,p98=2s", "1=5s", "p50=1s,0.1=2s,0.2=3s", "p50=-1s"])
def test_what_is_no_latency_is_refused(text: str) -> None:
    """With what was found."""
    with pytest.raises(ConfigError, match="expected"):
        parse_latency(text)


def test_seconds_reads_times() -> None:
    """With a unit, or without for seconds."""
    assert (seconds("120ms"), seconds("1.5s"), seconds("2")) == (0.12, 1.5, 2.0)


def test_shares_meets_a_share_of_gets() -> None:
    """Drawn by the seed; the rest is sound."""
    with FaultServer({"bucket/a": b"a"}, script=shares([(Fault("status"), 0.3)], seed=1)) as server:
        found = 0
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{server.url}/bucket/a", timeout=10):  # noqa: S310  (loopback)
                    found += 1
            except urllib.error.HTTPError as exc:
                exc.close()
        assert 110 < found < 170


def test_the_command_serves_until_it_is_ended(tmp_path: Path) -> None:
    """It says its address; what it cannot do is told."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "a").write_bytes(b"hello")
    command = [
        sys.executable,
        "-m",
        "datafeed.faultserver",
        str(tmp_path),
        "--latency",
        "p50=1ms",
        "--bandwidth",
        "10MB",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().partition("endpoint_url=")[2].partition(",")[0]
        assert open_store("s3://bucket", {"endpoint_url": url, "anon": True}).read("a") == b"hello"
        child.terminate()
    for wrong in (["gone"], [str(tmp_path), "--latency", "p50=x"], [str(tmp_path), "--bandwidth", "10QB"]):
        with pytest.raises(SystemExit):
            main(wrong)
