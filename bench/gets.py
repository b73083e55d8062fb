"""Compare ways to read ranges of S3 objects: throughput, and processor time.

Run as a program, it measures one reader in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import click
import numpy as np

from datafeed.bench.figures import Figure, Setting, in_process
from datafeed.bench.serving import KEYS, served
from datafeed.s3store import S3Store

_RANGE_NBYTES = 2 * 2**20
_OBJECT_NBYTES, _TOY_NBYTES = 100 * 2**20, 8 * 2**20
_THREADS, _TOY_THREADS = (1, 4, 16), (4,)
_GETS = 400
_BUCKET = "ranges"
_CHECKED = 3  # the range whose bytes are compared

Read = Callable[[int], bytes | memoryview]


class _Kept(threading.local):
    """Hold a thread's buffer: the same for each reader that fills one."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_RANGE_NBYTES))


_kept = _Kept()


def _ours(endpoint: str) -> Read:
    store = S3Store(f"s3://{_BUCKET}", {**KEYS, "endpoint_url": endpoint})

    def read(start: int) -> memoryview:
        store.read_into("object", start, _kept.view)
        return _kept.view

    return read


def _boto3(endpoint: str) -> Read:
    """Read the body into memory that is there, which is boto3's fastest way."""
    import boto3
    from botocore.config import Config

    config = Config(max_pool_connections=64, response_checksum_validation="when_required")
    keys = {"aws_access_key_id": KEYS["key"], "aws_secret_access_key": KEYS["secret"]}
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint, config=config, **keys)

    def read(start: int) -> memoryview:
        asked = f"bytes={start}-{start + _RANGE_NBYTES - 1}"
        body = client.get_object(Bucket=_BUCKET, Key="object", Range=asked)["Body"]
        filled = 0
        while filled < _RANGE_NBYTES:
            filled += body.readinto(_kept.view[filled:])
        return _kept.view

    return read


def _s3fs(endpoint: str) -> Read:
    import s3fs

    made = s3fs.S3FileSystem(
        **KEYS, endpoint_url=endpoint, config_kwargs={"max_pool_connections": 64}, skip_instance_cache=True
    )
    return lambda start: made.cat_file(f"{_BUCKET}/object", start=start, end=start + _RANGE_NBYTES)


READERS: dict[str, Callable[[str], Read]] = {"datafeed": _ours, "boto3": _boto3, "s3fs": _s3fs}


def measure_gets(setting: Setting) -> Iterator[Figure]:
    """Read ranges of 2 MiB with each reader on 1, 4 and 16 threads.

    Args:
        setting: Where the data are, and how many rounds.
    """
    path = setting.data / _BUCKET / "object"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbytes = _TOY_NBYTES if setting.toy else _OBJECT_NBYTES
    data = np.random.default_rng(0).bytes(nbytes)
    path.write_bytes(data)
    start = _CHECKED * _RANGE_NBYTES % nbytes
    expected = int(np.frombuffer(data, np.uint8, _RANGE_NBYTES, start).sum(dtype=np.int64))
    gets = 8 if setting.toy else _GETS
    names = [name for name in READERS if _is_there(name)]
    for threads in _TOY_THREADS if setting.toy else _THREADS:
        with served(setting.data) as server:
            rounds = [
                {name: in_process(__name__, [name, server.url, threads, gets, nbytes]) for name in names}
                for _ in range(setting.rounds)
            ]
        for name in names:
            samples = [one[name] for one in rounds]
            assert {one["sum"] for one in samples} == {expected}, f"{name} read other bytes"
            rate, cpu = (statistics.median(one[key] for one in samples) for key in ("rate", "cpu_s_per_gb"))
            facts = {"CPU-s/GB": cpu, "samples": samples}
            yield Figure(f"GETs of 2 MiB on {threads} threads, {name}", rate / 1e6, "MB/s", facts=facts)


def _is_there(name: str) -> bool:
    there = name == "datafeed" or find_spec(name) is not None
    if not there:
        click.echo(f"NOT MEASURED: {name} is not installed", err=True)
    return there


def _measure(name: str, endpoint: str, threads: int, gets: int, nbytes: int) -> dict[str, float]:
    read = READERS[name](endpoint)
    starts = [number * _RANGE_NBYTES % nbytes for number in range(gets)]
    checked = np.frombuffer(read(_CHECKED * _RANGE_NBYTES % nbytes), np.uint8).sum(dtype=np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, starts[: 2 * threads]))
        cpu, begun = time.process_time(), time.perf_counter()
        for _ in pool.map(read, starts):
            pass
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    total = gets * _RANGE_NBYTES
    return {"rate": total / seconds, "cpu_s_per_gb": cpu / total * 1e9, "sum": int(checked)}


if __name__ == "__main__":
    print(json.dumps(_measure(*map(json.loads, sys.argv[1:]))))
