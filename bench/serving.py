"""Serve datasets as S3 does from a process of its own, which tells what it was asked for.

Run as a program, it prints its address, then its counts as a line of JSON for each line that it reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from datafeed.faults import parse_latency
from datafeed.faultserver import FaultServer
from datafeed.sizes import parse_size

Range = tuple[str, int | None, int | None]
KEYS = {"key": "k", "secret": "s"}


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold what a server was asked for.

    Args:
        sent: Bytes of bodies.
        gets: How often each range of each object ("bucket/key", first byte, byte behind the last) was asked for.
    """

    sent: int
    gets: Counter[Range]

    def since(self, before: Counts) -> Counts:
        """Return what came after an earlier count."""
        return Counts(self.sent - before.sent, self.gets - before.gets)

    def shard_nbytes(self) -> int:
        """Return how many bytes of shards were asked for."""
        return sum(((end or 0) - (start or 0)) * count for (_, start, end), count in self.shards().items())

    def shards(self) -> Counter[Range]:
        """Return the ranges of shards alone."""
        return Counter({asked: count for asked, count in self.gets.items() if ".tfrecord" in asked[0]})


class Server:
    """Speak with a server in another process.

    Args:
        child: The process, which has told its address.
        url: The address.
    """

    def __init__(self, child: subprocess.Popen[str], url: str) -> None:
        self._child = child
        self.url = url

    @property
    def storage_options(self) -> dict[str, object]:
        """What `Dataset` and `Loader` take to reach it."""
        return {**KEYS, "endpoint_url": self.url}

    def counts(self) -> Counts:
        """Return what it was asked for so far."""
        send, receive = _pipes(self._child)
        send.write("\n")
        send.flush()
        said = json.loads(receive.readline())
        return Counts(said["sent"], Counter({(key, start, end): count for key, start, end, count in said["gets"]}))


def _pipes(child: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert child.stdin is not None
    assert child.stdout is not None
    return child.stdin, child.stdout


@contextmanager
def served(folder: Path, *, latency: str = "p50=0s", bandwidth: str = "") -> Iterator[Server]:
    """Serve a folder of buckets, and end the server by its own process.

    Args:
        folder: Its subfolders are buckets.
        latency: As `datafeed.faults.parse_latency` reads it.
        bandwidth: Bytes a second over all connections; empty for no limit.
    """
    command = [sys.executable, "-m", __name__, str(folder), latency, bandwidth]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        send, receive = _pipes(child)
        try:
            yield Server(child, receive.readline().strip())
        finally:
            send.close()  # at which it ends
            child.wait()


def _serve(folder: str, latency: str, bandwidth: str) -> None:
    most = float(parse_size(bandwidth)) if bandwidth else None
    with FaultServer(folder, latency=parse_latency(latency), bandwidth=most) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            asked = server.asked.copy()
            gets = [[key, start, end, count] for (method, key, start, end), count in asked.items() if method == "GET"]
            print(json.dumps({"sent": server.sent, "gets": gets}), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
