"""Add shards to a dataset."""

from __future__ import annotations

from datafeed.blockindex import read_index
from datafeed.converters.journal import Journal, read_plan
from datafeed.converters.lock import locked
from datafeed.converters.plan import Plan, differences, make_plan
from datafeed.converters.progress import Meter, OnProgress
from datafeed.converters.report import ConvertReport
from datafeed.converters.running import NOTHING, Base, report, run_plan
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.source import Source
from datafeed.errors import ConfigError, OutputDiffers
from datafeed.manifest import Manifest, read_manifest
from datafeed.rebuild import shard_numbers
from datafeed.seektable import BlockColumns
from datafeed.sizes import counted
from datafeed.storage import Store


def append_plan(opened: Source, name: str, options: ConvertOptions, store: Store) -> tuple[Plan, Manifest]:
    """Plan to append the samples of a source to a dataset.

    Args:
        opened: The source.
        name: What a person calls it.
        options: How to convert.
        store: Where the dataset is.

    Returns:
        The plan, and the dataset's manifest.

    Raises:
        DatasetNotFound: No dataset is there.
        ConfigError: It is one of plain TFRecords.
        SchemaError: The samples do not fit it.
        SourceError: The source cannot be read, or it is empty.
    """
    manifest = read_manifest(store)
    if manifest.codec != "zstd":
        raise ConfigError(f"{store.url} is an index of plain TFRecords, which cannot grow: convert them first")
    return make_plan(opened, name, options, manifest.header), manifest


def append_to(
    store: Store, opened: Source, name: str, options: ConvertOptions, on_progress: OnProgress | None
) -> ConvertReport:
    """Append the samples of a source to a dataset, and commit once; readers see all of them or none.

    A rerun goes on after the last finished shard. One after the commit finds that these samples were the last to be
    written, and does nothing.

    Args:
        store: Where the dataset is.
        opened: The source.
        name: What a person calls it.
        options: How to convert.
        on_progress: As `convert` takes it.

    Returns:
        What was done.

    Raises:
        DatafeedError: As `append_plan` and `convert` raise it.
    """
    made, _ = append_plan(opened, name, options, store)
    meter = Meter(on_progress, sum(task.nbytes for task in made.tasks))
    with locked(store):
        manifest = read_manifest(store)
        last = manifest.appended[-1] if manifest.appended else manifest.header.provenance
        if last == made.header.provenance:
            _clean(store, made, manifest)
            return report(made, store, manifest, NOTHING, ([], 0, meter))
        again = _begun(store, made, manifest)
        return run_plan(made, store, options, meter, again=again, base=base_of(store, manifest))


def _begun(store: Store, made: Plan, manifest: Manifest) -> bool:
    """Tell whether this plan was begun here before.

    Raises:
        OutputDiffers: Another one was, and has finished shards.
    """
    plan = read_plan(store)
    if plan is not None and plan.dataset_id == made.header.dataset_id:
        return True
    beyond = [number for number in shard_numbers(store) if number >= len(manifest.shards)]
    if not beyond:
        return False
    text = "; ".join(differences(plan, made.header)) if plan is not None else "nothing tells where they come from"
    raise OutputDiffers(
        f"{store.url} holds {counted(len(beyond), 'shard')} of another run, not committed. Old -> new: {text}. Finish "
        "that run first, or delete them"
    )


def base_of(store: Store, manifest: Manifest) -> Base:
    """Return a dataset to append to.

    Args:
        store: Where it is.
        manifest: Its manifest.

    Raises:
        CorruptIndex: Its index is damaged.
    """
    index = read_index(store, manifest)
    found = []
    start = 0
    for shard in manifest.shards:
        part = slice(start, start + shard.blocks)
        columns = (index.stored[part], index.raw[part], index.records[part], index.checksum[part])
        found.append(BlockColumns(*(column.astype("uint32") for column in columns)))
        start += shard.blocks
    return Base(manifest, tuple(found))


def _clean(store: Store, made: Plan, manifest: Manifest) -> None:
    """Remove what is left of a run that was killed right after its commit."""
    store.sweep()
    if read_plan(store) is not None:
        Journal(store, made.header).remove(len(manifest.shards))
