"""Measure what second GETs do to late ones, and what they cost.

Run as a program, it reads with or without them in a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from datafeed.bench.figures import Figure, Setting, in_process
from datafeed.bench.serving import Server, served
from datafeed.hedge import quantile
from datafeed.s3store import S3Store

_LATENCY = "p50=120ms,p99=1s,0.0001=5s"
_GETS, _TOY_GETS = 40_000, 200
_THREADS = 256  # 1,300 GETs a second: the latencies are the server's, not the processor's
_NBYTES = 4096  # of a GET: the distribution says how long it takes
_BUCKET = "late"


def measure_hedging(setting: Setting) -> Iterator[Figure]:
    """Read ranges whose latency is drawn, with second GETs and without.

    Args:
        setting: Where the data are.
    """
    folder = setting.data / _BUCKET
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "object").write_bytes(bytes(2**20))
    gets = _TOY_GETS if setting.toy else _GETS
    found = {}
    for hedge in (True, False):
        with served(setting.data, latency=_LATENCY) as server:
            found[hedge] = _run(server, gets, hedge=hedge)
    for hedge, name in ((True, "hedged"), (False, "not hedged")):
        facts = {key: value for key, value in found[hedge].items() if key != "p99.9_s"}
        judge = "at most" if hedge else ""
        yield Figure(f"p99.9 of a GET, {name}", found[hedge]["p99.9_s"], "s", judge, 1.5, facts)  # type: ignore[arg-type]  # a literal
    yield Figure("GETs beyond one each, hedged", found[True]["extra_percent"], "%", "at most", 6.0)


def _run(server: Server, gets: int, *, hedge: bool) -> dict[str, float]:
    found = in_process(__name__, [{**server.storage_options, "hedge": hedge}, gets])
    asked = server.counts().gets.total()
    return {**found, "extra_percent": 100 * (asked - gets) / gets}


def _read(storage_options: dict[str, object], gets: int) -> dict[str, float]:
    store = S3Store(f"s3://{_BUCKET}", storage_options)

    def read(number: int) -> float:
        begun = time.perf_counter()
        store.read_range("object", number % 1000, number % 1000 + _NBYTES)
        return time.perf_counter() - begun

    with ThreadPoolExecutor(_THREADS) as pool:
        ordered = sorted(pool.map(read, range(gets)))
    stats = store.stats()
    shares = {f"p{100 * share:g}_s": quantile(ordered, share) for share in (0.5, 0.95, 0.99, 0.999)}
    return {**shares, "most_s": ordered[-1], "hedges": stats.hedges, "hedges_won": stats.hedge_wins}


if __name__ == "__main__":
    print(json.dumps(_read(*map(json.loads, sys.argv[1:]))))
