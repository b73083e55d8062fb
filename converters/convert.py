"""Convert a raw data set into a dataset of shards."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from datafeed.commit import commit
from datafeed.converters.assemble import Assembler, Target
from datafeed.converters.callables import Fn
from datafeed.converters.destination import (
    QUARANTINE_INDEX,
    begun,
    check_on_error,
    check_same_on_error,
    committed,
)
from datafeed.converters.encode import Recipe
from datafeed.converters.journal import JOURNAL, BadLine, Finished, Journal, bad_lines, read_plan
from datafeed.converters.lock import LOCK_NAME, locked
from datafeed.converters.opening import RawData, for_dest, one, open_parts
from datafeed.converters.plan import Plan, make_plan
from datafeed.converters.pool import Encoded, cores, encode_inline, encode_on_ray, ray_cluster
from datafeed.converters.progress import Meter, OnProgress, Progress
from datafeed.converters.report import ConvertReport, RanOn, joined
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.tasks import Task
from datafeed.errors import EmptySource, OutputLocked
from datafeed.manifest import Manifest
from datafeed.schema import Schema
from datafeed.storage import Store, open_store

__all__ = ["ConvertOptions", "ConvertReport", "Plan", "Progress", "convert", "plan", "plans"]

INLINE_NBYTES = 64 * 10**6  # raw bytes under which even workers that were asked for would only wait for Ray
RAY_START_S = 6.0  # what a local Ray takes to start and stop
_SHOWN_REASONS = 5
_DEFAULT = ConvertOptions()


@dataclass(frozen=True, slots=True)
class _Run:
    """Hold where tasks were encoded."""

    ran_on: RanOn
    workers: int


def plans(
    source: RawData,
    dest: str | os.PathLike[str],
    options: ConvertOptions = _DEFAULT,
    *,
    fn: Fn | None = None,
    schema: Schema | None = None,
) -> dict[str, Plan]:
    """Say what `convert` would do, without writing anything.

    Args:
        source: A path, URL or pattern, several of them, a source that is open already, or the inputs of `fn`.
        dest: The destination, a path or any URL that fsspec knows.
        options: How to convert.
        fn: As `convert` takes it.
        schema: As `convert` takes it.

    Returns:
        A plan for each part of the split, with estimates of records, bytes and shards; one named "" where there is
        none.

    Raises:
        ConfigError: Options exclude each other, or source and destination are not apart.
        SourceError: The source cannot be read, or it is empty.
    """
    found = open_parts(source, dest, options, fn, schema)
    return {part: make_plan(opened, name, options) for part, (opened, name) in found.items()}


def plan(
    source: RawData,
    dest: str | os.PathLike[str],
    options: ConvertOptions = _DEFAULT,
    *,
    fn: Fn | None = None,
    schema: Schema | None = None,
) -> Plan:
    """Return the plan of a conversion that is not split; see `plans`."""
    return make_plan(*one(open_parts(source, dest, options, fn, schema)), options)


def convert(
    source: RawData,
    dest: str | os.PathLike[str],
    options: ConvertOptions = _DEFAULT,
    *,
    fn: Fn | None = None,
    schema: Schema | None = None,
    on_progress: OnProgress | None = None,
) -> ConvertReport:
    """Convert a raw data set into a dataset.

    The dataset is the same, byte for byte, for any number of workers, on Ray or not, and after any crash and rerun: the
    same call goes on after the last finished shard. A dataset that is complete already is left as it is.

    Args:
        source: A path, URL or pattern, several of them, a source that is open already, or the inputs of `fn`.
        dest: The destination, a path or any URL that fsspec knows: absent, empty, or begun by the same call.
        options: How to convert.
        fn: Makes samples of one input: of each file that `source` names, given as its path, or of each item, where it
            is a sequence of anything picklable. It returns a sample (a mapping from names to values), an iterable of
            several, or None for none, and must give the same for the same input. It travels to Ray's workers.
        schema: What `fn` makes; by default it is drawn from the samples of the first inputs.
        on_progress: Called on the caller's thread, ten times a second at most.

    Returns:
        What was done; where the data is split, of all parts.

    Raises:
        ConfigError: Options or paths exclude each other.
        MissingExtra: Several workers are wanted and Ray is not installed, or a kind of source needs a package.
        SourceError: The source cannot be read, is empty, changed meanwhile, or has a bad item (`on_error="raise"`).
        RecordTooLarge: A record passes the format's limit (`on_error="raise"`).
        WorkerLost: A task kills every worker that takes it.
        OutputError: The destination cannot be written, is full, is locked, or holds something else.
        ShardMissing: The dataset stands there already, but a shard of it is gone.
    """
    storage = for_dest(options, dest, source)
    base = os.fspath(dest).rstrip("/")
    reports: dict[str, ConvertReport] = {}
    for part, (opened, name) in open_parts(source, dest, options, fn, schema).items():
        made = make_plan(opened, name, options)
        reports[part] = _convert_at(made, f"{base}/{part}" if part else os.fspath(dest), storage, options, on_progress)
    return reports[""] if "" in reports else joined(os.fspath(dest), reports)


def _convert_at(
    made: Plan,
    dest: str,
    storage: Mapping[str, object] | None,
    options: ConvertOptions,
    on_progress: OnProgress | None,
) -> ConvertReport:
    store = open_store(dest, storage)
    meter = Meter(on_progress, sum(task.nbytes for task in made.tasks))
    manifest = committed(store, made.header)
    if manifest is not None:
        check_same_on_error(manifest, store, options.on_error)
        _clean(store, manifest)
        return _report(made, store, manifest, _Run("nothing", 0), ([], 0, meter))
    with locked(store):
        manifest = committed(store, made.header)
        if manifest is not None:  # by the holder before
            check_same_on_error(manifest, store, options.on_error)
            return _report(made, store, manifest, _Run("nothing", 0), ([], 0, meter))
        again = begun(store, open_store(f"{dest.rstrip('/')}/{JOURNAL}", storage), made.header)
        return _convert(made, store, options, meter, again=again)


def _convert(made: Plan, store: Store, options: ConvertOptions, meter: Meter, *, again: bool) -> ConvertReport:
    store.sweep()
    journal = Journal(store, made.header)
    before = journal.finished() if again else []
    check_on_error(before, options.on_error, store.url)
    if not again:
        journal.begin()
    _resume(meter, before, made.tasks)
    target = Target(made.header, options.shard_nbytes, options.limit, options.on_error)
    with Assembler(store, journal, target, before, meter) as assembler:
        run = _Run("nothing", 0) if _whole(before) else _encode(made, options, assembler, meter)
        finished = assembler.finish()
        skipped = assembler.skipped
    lines = bad_lines(finished) or assembler.bad
    if options.on_error == "quarantine" and lines:
        _write_index(store, lines)
    if not finished:
        raise EmptySource(_all_bad(made.name, skipped, lines))
    manifest = commit(store, made.header, "zstd", [done.info for done in finished], [done.blocks for done in finished])
    journal.remove(len(finished))
    meter.tick(final=True)
    return _report(made, store, manifest, run, (lines, len(before), meter))


def _encode(made: Plan, options: ConvertOptions, assembler: Assembler, meter: Meter) -> _Run:
    tasks, first = made.tasks[assembler.at.task :], assembler.at.block
    recipe = Recipe(made.source, made.schema, made.header.block_size, made.level, options.on_error, options.limit)
    if len(tasks) == 1 or not _worth_ray(made, options):
        _assemble(encode_inline(recipe, tasks, first), assembler, meter)
        return _Run("inline", 1)
    with ray_cluster(options.ray_address, options.workers) as workers:
        _assemble(encode_on_ray(recipe, tasks, first, workers), assembler, meter)
    return _Run("ray", workers)


def _worth_ray(made: Plan, options: ConvertOptions) -> bool:
    """Whether several workers are wanted, and save more time than starting Ray takes."""
    workers = options.workers or cores()
    if workers == 1 or options.ray_address is not None:
        return workers > 1
    if options.workers is not None:
        return made.raw_bytes >= INLINE_NBYTES
    return made.seconds * (1 - 1 / workers) > RAY_START_S


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
    reasons = "".join(f"; {line.where}: {line.reason}" for line in bad[:_SHOWN_REASONS])
    return f"{name} holds no sample: {skipped} bad items were passed over{reasons}"


def _write_index(store: Store, lines: Sequence[BadLine]) -> None:
    with store.writer(QUARANTINE_INDEX) as sink:
        for line in lines:
            fields = {"where": line.where, "reason": line.reason, "file": line.file or None}
            sink.write(json.dumps(fields).encode() + b"\n")


def _clean(store: Store, manifest: Manifest) -> None:
    """Remove what a conversion leaves that is killed right after its commit."""
    if read_plan(store) is None and not store.exists(LOCK_NAME):
        return
    with suppress(OutputLocked), locked(store):  # locked: its holder cleans up
        store.sweep()
        Journal(store, manifest.header).remove(len(manifest.shards))


def _report(
    made: Plan, store: Store, manifest: Manifest, run: _Run, rest: tuple[Sequence[BadLine], int, Meter]
) -> ConvertReport:
    lines, resumed, meter = rest
    return ConvertReport(
        dest=store.url,
        dataset_id=manifest.dataset_id,
        records=manifest.records,
        shards=len(manifest.shards),
        raw_bytes=manifest.raw_bytes,
        stored_bytes=manifest.nbytes,
        skipped=manifest.skipped,
        reasons=tuple(f"{line.where}: {line.reason}" for line in lines[:_SHOWN_REASONS]),
        level=manifest.header.level,
        seconds=meter.seconds,
        ran_on=run.ran_on,
        workers=run.workers,
        resumed=resumed,
        notes=made.notes,
        new_records=meter.new_records,
    )
