"""Write the shards of a plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from datafeed.commit import commit
from datafeed.converters.assemble import Assembler, Target
from datafeed.converters.destination import check_on_error
from datafeed.converters.encode import Recipe
from datafeed.converters.journal import BadLine, Finished, Journal, bad_lines
from datafeed.converters.plan import Plan
from datafeed.converters.pool import Encoded, encode_inline, encode_on_ray, ray_cluster, worth_ray
from datafeed.converters.progress import Meter
from datafeed.converters.report import SHOWN_REASONS, ConvertReport, RanOn
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.tasks import Task
from datafeed.errors import EmptySource
from datafeed.footer import Run
from datafeed.manifest import Manifest
from datafeed.seektable import BlockColumns
from datafeed.sizes import counted
from datafeed.storage import Store


@dataclass(frozen=True, slots=True)
class Ran:
    """Hold where tasks were encoded."""

    ran_on: RanOn
    workers: int


NOTHING = Ran("nothing", 0)


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """Hold the dataset to which shards are appended.

    Args:
        manifest: Its manifest.
        blocks: The blocks of each of its shards.
    """

    manifest: Manifest
    blocks: tuple[BlockColumns, ...]


def run_plan(
    made: Plan, store: Store, options: ConvertOptions, meter: Meter, *, again: bool, base: Base | None = None
) -> ConvertReport:
    """Write the shards of a plan, and commit.

    Args:
        made: The plan.
        store: The destination, locked.
        options: How to convert.
        meter: Counts what is written.
        again: Whether an earlier run of the same plan may have finished shards.
        base: The dataset to which they are appended; None for a new one.

    Returns:
        What was done.

    Raises:
        DatafeedError: As `convert` raises it.
    """
    store.sweep()
    target = _target(made, options, base)
    journal = Journal(store, made.header, target.header, target.first)
    before = journal.finished() if again else []
    check_on_error(before, options.on_error, store.url)
    if not again:
        journal.begin()
    _resume(meter, before, made.tasks)
    with Assembler(store, journal, target, before, meter) as assembler:
        run = NOTHING if _whole(before) else _encode(made, options, assembler, meter)
        finished = assembler.finish()
        skipped = assembler.skipped
    lines = bad_lines(finished) or assembler.bad
    if options.on_error == "quarantine" and lines:
        _write_index(store, f"{target.quarantine}/index.jsonl", lines)
    if not finished:
        raise EmptySource(_all_bad(made.name, skipped, lines))
    meter.committing()
    manifest = _commit(store, target, finished, base)
    journal.remove(len(finished))
    meter.tick(final=True)
    return report(made, store, manifest, run, (lines, len(before), meter))


def _target(made: Plan, options: ConvertOptions, base: Base | None) -> Target:
    sizes = options.shard_nbytes, options.limit, options.on_error
    if base is None:
        return Target(made.header, *sizes)
    run = Run(len(base.manifest.appended) + 1, made.header.provenance)
    return Target(base.manifest.header, *sizes, len(base.manifest.shards), run)


def _commit(store: Store, target: Target, finished: Sequence[Finished], base: Base | None) -> Manifest:
    infos, blocks = [done.info for done in finished], [done.blocks for done in finished]
    if base is None:
        return commit(store, target.header, "zstd", infos, blocks)
    before = base.manifest
    appended = [*before.appended, target.run.provenance]
    return commit(store, target.header, "zstd", [*before.shards, *infos], [*base.blocks, *blocks], appended)


def _encode(made: Plan, options: ConvertOptions, assembler: Assembler, meter: Meter) -> Ran:
    tasks, first = made.tasks[assembler.at.task :], assembler.at.block
    meter.tick()  # the source is read to convert it now, of which nothing may be done for a while
    recipe = Recipe(made.source, made.schema, made.header.block_size, made.level, options.on_error, options.limit)
    if len(tasks) == 1 or not worth_ray(options.workers, options.ray_address, made.raw_bytes, made.seconds):
        _assemble(encode_inline(recipe, tasks, first), assembler, meter)
        return Ran("inline", 1)
    with ray_cluster(options.ray_address, options.workers) as workers:
        _assemble(encode_on_ray(recipe, tasks, first, workers), assembler, meter)
    return Ran("ray", workers)


def _assemble(parts: Encoded, assembler: Assembler, meter: Meter) -> None:
    before: Task | None = None
    with closing(parts):
        for task, part in parts:
            if before is not None and task is not before:
                meter.done += before.nbytes
            before = task
            assembler.take(task.number, part)
            meter.tick()
            if assembler.complete:
                return


def _resume(meter: Meter, before: Sequence[Finished], tasks: Sequence[Task]) -> None:
    if before:
        infos = [done.info for done in before]
        counts = [sum(values) for values in zip(*((i.records, i.raw_bytes, i.nbytes) for i in infos), strict=True)]
        done = sum(task.nbytes for task in tasks[: before[-1].end.task])
        meter.resume(counts[0], counts[1], counts[2], shards=len(before), done=done)


def _whole(finished: Sequence[Finished]) -> bool:
    return bool(finished) and finished[-1].last


def _all_bad(name: str, skipped: int, bad: Sequence[BadLine]) -> str:
    reasons = "".join(f"; {line.where}: {line.reason}" for line in bad[:SHOWN_REASONS])
    passed = f": {counted(skipped, 'bad item')} passed over{reasons}" if skipped else ""
    return f"{name} holds no sample{passed}"


def _write_index(store: Store, name: str, lines: Sequence[BadLine]) -> None:
    with store.writer(name) as sink:
        for line in lines:
            fields = {"where": line.where, "reason": line.reason, "file": line.file or None}
            sink.write(json.dumps(fields).encode() + b"\n")


def report(
    made: Plan, store: Store, manifest: Manifest, run: Ran, rest: tuple[Sequence[BadLine], int, Meter]
) -> ConvertReport:
    """Return what was done.

    Args:
        made: The plan.
        store: The destination.
        manifest: The dataset that stands there now.
        run: Where tasks were encoded.
        rest: The bad items, how many shards an earlier run had finished, what was counted.
    """
    lines, resumed, meter = rest
    return ConvertReport(
        dest=store.url,
        dataset_id=manifest.dataset_id,
        records=manifest.records,
        shards=len(manifest.shards),
        raw_bytes=manifest.raw_bytes,
        stored_bytes=manifest.nbytes,
        skipped=manifest.skipped,
        reasons=tuple(f"{line.where}: {line.reason}" for line in lines[:SHOWN_REASONS]),
        level=manifest.header.level,
        seconds=meter.seconds,
        ran_on=run.ran_on,
        workers=run.workers,
        resumed=resumed,
        notes=made.notes,
        new_records=meter.new_records,
    )
