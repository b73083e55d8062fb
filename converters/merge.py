"""Join datasets to one, without decompressing them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from datafeed import __version__
from datafeed.commit import commit
from datafeed.converters.destination import begun, check_apart, committed, storage_of
from datafeed.converters.journal import JOURNAL, Finished, Journal
from datafeed.converters.lock import locked
from datafeed.converters.plan import fitting
from datafeed.converters.progress import Meter, OnProgress
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, CorruptFrame, SchemaError
from datafeed.footer import Footer, Place, read_footer
from datafeed.header import DatasetHeader, make_header
from datafeed.manifest import Manifest
from datafeed.scan import scan_blocks
from datafeed.shard import ShardInfo, ShardWriter, shard_name
from datafeed.storage import Store, local_path, masked, open_store


@dataclass(frozen=True, slots=True)
class MergeReport:
    """Describe a finished merge.

    Args:
        dest: The dataset.
        dataset_id: Its id.
        records: Its records.
        shards: Its shards.
        stored_bytes: What they take.
        resumed: Shards that an earlier run had written.
        complete_before: Whether the dataset stood there already and nothing was done.
    """

    dest: str
    dataset_id: str
    records: int
    shards: int
    stored_bytes: int
    resumed: int
    complete_before: bool = False


@dataclass(frozen=True, slots=True)
class _Input:
    """Name a shard that is copied."""

    store: Store
    info: ShardInfo


def merge(
    datasets: Sequence[str | os.PathLike[str]],
    dest: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, object] | None = None,
    dest_options: Mapping[str, object] | None = None,
    on_progress: OnProgress | None = None,
) -> MergeReport:
    """Join datasets of one schema: their shards one after the other, each block copied as it is.

    Every copied byte is hashed and compared with what its shard says of itself. A rerun goes on after the last finished
    shard.

    Args:
        datasets: Two or more committed datasets, paths or URLs; the order is that of their samples.
        dest: The destination: absent, empty, or begun by the same call.
        storage_options: Passed to the datasets' fsspec file systems.
        dest_options: Passed to the destination's in place of `storage_options`.
        on_progress: Called at most ten times a second.

    Returns:
        What was written.

    Raises:
        ConfigError: Fewer than two datasets are named, one is of plain TFRecords, or one lies in the destination.
        SchemaError: A dataset holds something else than the first.
        DatasetNotFound: One is not there.
        CorruptData: One is damaged.
        OutputError: The destination cannot be written, is full, is locked, or holds something else.
    """
    if len(datasets) < 2:
        raise ConfigError(f"expected two datasets or more to merge, found {len(datasets)}")
    sources = [os.fspath(url) for url in datasets]
    storage_options, dest_options = storage_of(sources, os.fspath(dest), storage_options, dest_options)
    far = [local_path(url) is None for url in sources]
    given = [storage_options if remote or not any(far) else None for remote in far]
    opened = [Dataset(url, options) for url, options in zip(sources, given, strict=True)]
    for found in opened:
        check_apart(found.url, os.fspath(dest))
    header = _header(opened)
    store = open_store(dest, dest_options)
    manifest = committed(store, header)
    if manifest is not None:
        return replace(_report(store, manifest, 0), complete_before=True)
    stores = [open_store(found.url, options) for found, options in zip(opened, given, strict=True)]
    inputs = [
        _Input(source, info) for source, found in zip(stores, opened, strict=True) for info in found.manifest.shards
    ]
    meter = Meter(on_progress, sum(item.info.nbytes for item in inputs))
    with locked(store):
        journal_store = open_store(f"{os.fspath(dest).rstrip('/')}/{JOURNAL}", dest_options)
        again = begun(store, journal_store, header)
        store.sweep()
        journal = Journal(store, header)
        finished = journal.finished() if again else []
        resumed = len(finished)
        if not again:
            journal.begin()
        for number in range(resumed, len(inputs)):
            done = _copy(store, inputs[number], header, number, last=number == len(inputs) - 1)
            journal.add(number, done)
            finished.append(done)
            meter.add(done.info.records, done.info.raw_bytes, done.info.nbytes)
            meter.done += inputs[number].info.nbytes
            meter.shards += 1
            meter.tick()
        manifest = commit(store, header, "zstd", [done.info for done in finished], [done.blocks for done in finished])
        journal.remove(len(finished))
        meter.tick(final=True)
    return _report(store, manifest, resumed)


def _header(opened: Sequence[Dataset]) -> DatasetHeader:
    """Return the header of the dataset that is made: the first one's, but for what came from where."""
    first = opened[0].manifest.header
    for found in opened:
        if found.manifest.codec != "zstd":
            raise ConfigError(f"{masked(found.url)} is an index of plain TFRecords: convert them first")
        try:
            fitting(found.schema, first.schema)
        except SchemaError as exc:
            raise SchemaError(f"{masked(found.url)} and {masked(opened[0].url)} differ: {exc}") from exc
    provenance = {
        "source": ", ".join(masked(found.url) for found in opened),
        "kind": "merge",
        "options": {"datasets": [found.manifest.dataset_id for found in opened]},
        "writer": f"datafeed {__version__}",
        "zstd": first.provenance.get("zstd", ""),
        "listing": hashlib.sha256("".join(found.manifest.digest for found in opened).encode()).hexdigest(),
    }
    sizes = {"block_size": first.block_size, "extent_size": first.extent_size, "level": first.level}
    return make_header(first.schema, provenance=provenance, **sizes)


def _copy(store: Store, source: _Input, header: DatasetHeader, number: int, *, last: bool) -> Finished:
    """Copy the blocks of a shard under another header."""
    name = source.info.name
    footer = read_footer(source.store, name)
    digest = hashlib.sha256()
    columns = footer.blocks
    begin, end = Place(number, 0), Place(number + 1, 0)
    with store.writer(shard_name(number)) as sink:
        writer = ShardWriter(sink, header, number)
        frames = scan_blocks(source.store, name, columns.stored, digest.update)
        for frame, raw, records in zip(frames, columns.raw.tolist(), columns.records.tolist(), strict=True):
            writer.add(frame, raw, records)
        _check(source, footer, digest.digest())
        info = writer.finish(begin=begin, end=end, skipped=source.info.skipped, last=last)
        blocks = writer.columns()
    return Finished(info, end, last, blocks, (), "raise")


def _check(source: _Input, footer: Footer, digest: bytes) -> None:
    if digest != footer.digest:
        reason = "its blocks and its footer's SHA-256 differ: convert it again, or restore the shard"
        raise CorruptFrame(reason, shard=f"{source.store.url}/{source.info.name}")


def _report(store: Store, manifest: Manifest, resumed: int) -> MergeReport:
    counts = manifest.records, len(manifest.shards), manifest.nbytes
    return MergeReport(store.url, manifest.dataset_id, *counts, resumed)
