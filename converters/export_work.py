"""Write the shards of an export in this process or on Ray."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datafeed.converters.block_runs import BlockRun, block_runs
from datafeed.converters.export_form import Form, Output, Shard
from datafeed.converters.export_journal import Entry
from datafeed.converters.pool import AHEAD, RETRIES, raised_as_ours
from datafeed.dataset import Dataset
from datafeed.errors import OutputError, SourceChanged
from datafeed.storage import open_store

if TYPE_CHECKING:
    from ray import ObjectRef

Tick = Callable[[int], None]
"""Called with the records of each run that was read."""

_CANCEL_S = 20.0


@dataclass(frozen=True, slots=True)
class Job:
    """Hold what a worker must know to write any shard.

    Args:
        dataset: The dataset; a copy opens it anew.
        digest: The digest of its manifest.
        form: What is written.
        dest: The destination.
        dest_options: Passed to its fsspec file system.
    """

    dataset: Dataset
    digest: str
    form: Form
    dest: str
    dest_options: Mapping[str, object] | None = field(repr=False)


def export_shard(job: Job, number: int, tick: Tick | None = None) -> Entry:
    """Write the files of one shard.

    Args:
        job: What is exported.
        number: The number of the shard.
        tick: Told of the progress.

    Raises:
        SourceChanged: The dataset is another one meanwhile.
        CorruptData: A block is damaged.
        OutputError: The destination failed, or is full.
    """
    dataset = job.dataset
    if dataset.manifest.digest != job.digest:
        raise SourceChanged(f"{dataset.url} changed while it was exported: export it again, to another destination")
    shards = dataset.manifest.shards
    start = sum(shard.blocks for shard in shards[:number])
    runs = block_runs(dataset, start, start + shards[number].blocks, job.form.schema)
    out = Output(open_store(job.dest, job.dest_options))
    facts = job.form.write(out, Shard(number, shards[number].records), _ticking(runs, tick))
    return Entry(number, shards[number].records, out.files, facts)


def _ticking(runs: Iterator[BlockRun], tick: Tick | None) -> Iterator[BlockRun]:
    for run in runs:
        yield run
        if tick is not None:
            tick(run.rows)


def export_inline(job: Job, numbers: Sequence[int], tick: Tick) -> Generator[Entry]:
    """Write shards one after the other, on the caller's thread."""
    for number in numbers:
        yield export_shard(job, number, tick)


def export_on_ray(job: Job, numbers: Sequence[int], workers: int, tick: Tick) -> Generator[Entry]:
    """Write shards on the Ray cluster that this process is connected to; a lost worker's shard is written again.

    Args:
        job: What is exported.
        numbers: The numbers of the shards.
        workers: How many to write at once.
        tick: Told of the progress.

    Yields:
        The shards as they are finished, in any order.

    Raises:
        WorkerLost: A shard lost its worker again and again.
        OutputError: What a worker wrote is not seen here, or the destination failed.
        DatafeedError: Whatever else `export_shard` raises.
    """
    import ray

    work = ray.remote(num_cpus=1, max_retries=RETRIES)(_export_there)
    shared = ray.put(job)
    waiting = deque(numbers)
    running: dict[ObjectRef, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers + AHEAD:
                number = waiting.popleft()
                running[work.remote(shared, number)] = number
            (done,), _ = ray.wait(list(running), num_returns=1)
            with raised_as_ours(f"shard {running[done]}"):
                host, entry = ray.get(done)
            del running[done]
            _check_seen(job, entry, host)
            tick(entry.records)
            yield entry
    finally:
        for one in running:
            with suppress(ray.exceptions.RayError):  # the cluster may be what failed
                ray.cancel(one)
        with suppress(ray.exceptions.RayError):
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_CANCEL_S)


def _export_there(job: Job, number: int) -> tuple[str, Entry]:
    return socket.gethostname(), export_shard(job, number)


def _check_seen(job: Job, entry: Entry, host: str) -> None:
    """Make sure that a worker elsewhere wrote to the same place that is seen here."""
    store = open_store(job.dest, job.dest_options)
    for name, nbytes in list(entry.files.items())[:1]:
        if not store.exists(name) or store.size(name) != nbytes:
            raise OutputError(
                None,
                f"host {host} wrote {name!r}, which is not seen here: name a destination that all nodes share",
                store.url,
            )
