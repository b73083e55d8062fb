"""Export a dataset to files that other programs read."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from datafeed import __version__
from datafeed.converters.destination import check_apart, storage_of
from datafeed.converters.export_form import Exported, Facts, Form, Output
from datafeed.converters.export_forms import To, form_of
from datafeed.converters.export_journal import Entry, ExportJournal, Plan, Totals
from datafeed.converters.export_work import Job, export_inline, export_on_ray
from datafeed.converters.journal import JOURNAL
from datafeed.converters.lock import locked
from datafeed.converters.pool import ray_cluster, worth_ray
from datafeed.converters.report import RanOn
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, OutputDiffers
from datafeed.schema import Schema
from datafeed.storage import Store, open_store

_BYTES_PER_S = 400e6  # raw, of one worker: what parquet and tar were seen to write
_MOST_LISTED = 100_000  # files that the record of a finished export names

OnExport = Callable[[int, int], None]
"""Called with the records exported so far and in all."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Choose how a dataset is exported.

    Args:
        columns: The features wanted, in this order; none for all.
        workers: How many processes write, a shard each; None for the cores of this process, or of the Ray cluster. With
            1, or where there is little to do, it is this process.
        ray_address: A Ray cluster to run on; None for RAY_ADDRESS, a running cluster, or a local one of our own.
        storage_options: Passed to the dataset's fsspec file system.
        dest_options: Passed to the destination's fsspec file system in place of `storage_options`.

    Raises:
        ConfigError: A value is out of bounds.
    """

    columns: tuple[str, ...] = ()
    workers: int | None = None
    ray_address: str | None = None
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)  # it may hold a secret
    dest_options: Mapping[str, object] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers must be at least 1, found {self.workers!r}")


_DEFAULT = ExportOptions()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Describe a finished export.

    Args:
        dest: Where it is.
        to: Its form.
        records: Its records.
        files: How many files hold them.
        nbytes: The bytes of the files.
        resumed: Shards that an earlier run had written.
        ran_on: Where shards were written: "nothing" where the export was complete before.
        workers: How many of them at once.
    """

    dest: str
    to: str
    records: int
    files: int
    nbytes: int
    resumed: int
    ran_on: RanOn
    workers: int


def export(
    dataset: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    to: To = "tfrecord",
    options: ExportOptions = _DEFAULT,
    *,
    on_progress: OnExport | None = None,
) -> ExportReport:
    """Write a dataset in a form that other programs read.

    Each shard becomes one file, or a few, named by its number. Every block is verified before its samples are written,
    and each file appears whole. The files are the same, byte for byte, for any number of workers, and after any crash
    and rerun: the same call goes on with the shards that are not finished.

    Args:
        dataset: A committed dataset, a path or URL.
        dest: The destination, a path or any URL that fsspec knows: absent, empty, or begun by the same call.
        to: The form: "tfrecord" has DALI's index beside each file.
        options: How to export.
        on_progress: Called on the caller's thread.

    Returns:
        What was written.

    Raises:
        DatasetNotFound: No dataset is there.
        SchemaError: The form cannot hold a feature, or a record; the message names it.
        ConfigError: There is no such form or feature, or dataset and destination are not apart.
        MissingExtra: The form, or several workers, need a package.
        CorruptData: A block is damaged.
        WorkerLost: A shard kills every worker that takes it.
        OutputError: The destination cannot be written, is full, is locked, or holds something else.
    """
    source, url = os.fspath(dataset), os.fspath(dest)
    check_apart(source, url)
    storage, dest_storage = storage_of([source], url, options.storage_options, options.dest_options)
    options = replace(options, storage_options=storage, dest_options=dest_storage)
    found = Dataset(source, storage)
    form = form_of(to, _exported(found, options.columns))
    store = open_store(url, options.dest_options)
    journal = ExportJournal(store, _plan(found, to, options, form))
    _refuse_file(store)
    totals = journal.totals()
    if totals is not None:
        return _complete(store, to, found, totals)
    with locked(store):
        totals = journal.totals()
        if totals is not None:  # by the holder before
            return _complete(store, to, found, totals)
        again = journal.begun(open_store(f"{url.rstrip('/')}/{JOURNAL}", options.dest_options))
        return _Run(found, to, options, form, store, journal, on_progress).finish(url, again=again)


def _exported(found: Dataset, columns: tuple[str, ...]) -> Exported:
    schema, manifest = found.schema, found.manifest
    lacking = [name for name in columns if name not in schema]
    if lacking:
        names = ", ".join(feature.name for feature in schema)
        raise ConfigError(f"columns: no feature {lacking[0]!r}; there are {names}")
    if len(set(columns)) < len(columns):
        raise ConfigError(f"columns: a feature is named twice in {','.join(columns)}")
    wanted = Schema([schema[name] for name in columns]) if columns else schema
    provenance = manifest.header.provenance
    return Exported(wanted, schema, provenance, len(manifest.shards) > 1, bool(manifest.appended))


def _plan(found: Dataset, to: str, options: ExportOptions, form: Form) -> Plan:
    return {
        "format": "datafeed export",
        "dataset": found.manifest.digest,
        "to": to,
        "columns": list(options.columns),
        "schema": form.schema.to_json(),
        "versions": {"datafeed": __version__, **form.versions()},
    }


def _refuse_file(store: Store) -> None:
    try:
        store.names()
    except NotADirectoryError as exc:
        raise OutputDiffers(f"{store.url} is a file: name a new or empty directory as the destination") from exc


def _complete(store: Store, to: str, found: Dataset, totals: Totals) -> ExportReport:
    return ExportReport(store.url, to, len(found), totals.files, totals.nbytes, 0, "nothing", 0)


@dataclass
class _Run:
    """Write what is not written yet, while the lock is held."""

    found: Dataset
    to: str
    options: ExportOptions
    form: Form
    store: Store
    journal: ExportJournal
    on_progress: OnExport | None
    done: int = 0
    files: dict[str, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=lambda: Totals(0, 0))

    def finish(self, url: str, *, again: bool) -> ExportReport:
        shards = self.found.manifest.shards
        if again:
            self.store.sweep()
        else:
            self.journal.begin()
        stand = {number for number in range(len(shards)) if again and self.journal.finished(number) is not None}
        self._tick(sum(shards[number].records for number in stand))
        left = [number for number in range(len(shards)) if number not in stand]
        job = Job(self.found, self.found.manifest.digest, self.form, url, self.options.dest_options)
        ran_on, workers = self._write(job, left)
        out = Output(self.store)
        facts = self._facts(len(shards))
        self.form.finish(out, facts)
        deque(facts, maxlen=0)  # those that the form did not ask for are counted, too
        self._count(out.files)
        self.journal.commit(self.files if self.totals.files <= _MOST_LISTED else out.files, self.totals)
        self.journal.remove(len(shards))
        counts = len(self.found), self.totals.files, self.totals.nbytes, len(stand)
        return ExportReport(self.store.url, self.to, *counts, ran_on, workers)

    def _write(self, job: Job, numbers: list[int]) -> tuple[RanOn, int]:
        if not numbers:
            return "inline", 1
        nbytes = sum(self.found.manifest.shards[number].raw_bytes for number in numbers)
        workers, address = self.options.workers, self.options.ray_address
        if len(numbers) == 1 or not worth_ray(workers, address, nbytes, nbytes / _BYTES_PER_S):
            self._take(export_inline(job, numbers, self._tick))
            return "inline", 1
        with ray_cluster(address, workers) as count:
            try:
                self._take(export_on_ray(job, numbers, count, self._tick))
            finally:
                self.store.sweep()  # what workers that died left unfinished
        return "ray", count

    def _take(self, entries: Generator[Entry]) -> None:
        with closing(entries):
            for entry in entries:
                self.journal.add(entry)

    def _tick(self, records: int) -> None:
        self.done += records
        if self.on_progress is not None:
            self.on_progress(self.done, len(self.found))

    def _facts(self, shards: int) -> Iterator[Facts]:
        for number in range(shards):
            entry = self.journal.entry(number)
            if entry is None:
                raise OutputDiffers(f"{self.store.url}: somebody removed the journal of shard {number}: export again")
            self._count(entry.files)
            yield entry.facts

    def _count(self, files: Mapping[str, int]) -> None:
        self.totals = Totals(self.totals.files + len(files), self.totals.nbytes + sum(files.values()))
        if self.totals.files <= _MOST_LISTED:
            self.files |= files
