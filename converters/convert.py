"""Convert a raw data set into a dataset of shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from datafeed.converters.append import append_plan, append_to
from datafeed.converters.callables import Fn
from datafeed.converters.destination import begun, check_same_on_error, committed
from datafeed.converters.journal import JOURNAL, Journal, read_plan
from datafeed.converters.lock import LOCK_NAME, locked
from datafeed.converters.opening import RawData, for_dest, one, open_parts
from datafeed.converters.plan import Plan, make_plan
from datafeed.converters.progress import Meter, OnProgress, Progress, say_planning
from datafeed.converters.report import ConvertReport, joined
from datafeed.converters.running import NOTHING, report, run_plan
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.source import Source
from datafeed.errors import EmptySource, OutputLocked
from datafeed.manifest import Manifest
from datafeed.schema import Schema
from datafeed.storage import Store, open_store

__all__ = ["ConvertOptions", "ConvertReport", "Plan", "Progress", "convert", "plan", "plans"]

_DEFAULT = ConvertOptions()


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
    storage = for_dest(options, dest, source)
    found = open_parts(source, dest, options, fn, schema)
    return {
        part: _plan(opened, name, options, open_store(_at(dest, part), storage))
        for part, (opened, name) in found.items()
    }


def plan(
    source: RawData,
    dest: str | os.PathLike[str],
    options: ConvertOptions = _DEFAULT,
    *,
    fn: Fn | None = None,
    schema: Schema | None = None,
) -> Plan:
    """Return the plan of a conversion that is not split; see `plans`."""
    opened, name = one(open_parts(source, dest, options, fn, schema))
    return _plan(opened, name, options, open_store(dest, for_dest(options, dest, source)))


def _plan(opened: Source, name: str, options: ConvertOptions, store: Store) -> Plan:
    return append_plan(opened, name, options, store)[0] if options.append else make_plan(opened, name, options)


def _at(dest: str | os.PathLike[str], part: str) -> str:
    """Return where a part of a split goes."""
    return f"{os.fspath(dest).rstrip('/')}/{part}" if part else os.fspath(dest)


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
    reports: dict[str, ConvertReport] = {}
    empty: dict[str, EmptySource] = {}
    say_planning(on_progress)
    for part, (opened, name) in open_parts(source, dest, options, fn, schema).items():
        try:
            if options.append:
                store = open_store(_at(dest, part), storage)
                reports[part] = append_to(store, opened, name, options, on_progress)
            else:
                reports[part] = _write(make_plan(opened, name, options), _at(dest, part), storage, options, on_progress)
        except EmptySource as exc:
            if not part:
                raise
            empty[part] = exc  # the other parts are made nevertheless
    if empty:
        raise _empty_parts(empty, list(reports))
    return reports[""] if "" in reports else joined(os.fspath(dest), reports)


def _empty_parts(empty: Mapping[str, EmptySource], made: Sequence[str]) -> EmptySource:
    names, reasons = ", ".join(empty), "; ".join(dict.fromkeys(map(str, empty.values())))
    others = f"{', '.join(made)} {'is' if len(made) == 1 else 'are'} complete" if made else "no other part has any"
    return EmptySource(f"split: no sample came to {names}, {others}; ask for larger shares or fewer parts: {reasons}")


def _write(
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
        return report(made, store, manifest, NOTHING, ([], 0, meter))
    with locked(store):
        manifest = committed(store, made.header)
        if manifest is not None:  # by the holder before
            check_same_on_error(manifest, store, options.on_error)
            return report(made, store, manifest, NOTHING, ([], 0, meter))
        again = begun(store, open_store(f"{dest.rstrip('/')}/{JOURNAL}", storage), made.header)
        return run_plan(made, store, options, meter, again=again)


def _clean(store: Store, manifest: Manifest) -> None:
    """Remove what a conversion leaves that is killed right after its commit."""
    begun_plan = read_plan(store)
    others = begun_plan is not None and begun_plan.dataset_id != manifest.dataset_id  # of shards to be appended
    if others or (begun_plan is None and not store.exists(LOCK_NAME)):
        return
    with suppress(OutputLocked), locked(store):  # locked: its holder cleans up
        store.sweep()
        Journal(store, manifest.header).remove(len(manifest.shards))
