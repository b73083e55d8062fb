"""Judge what stands in a conversion's destination."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath

from datafeed.converters.journal import JOURNAL, Finished, read_plan
from datafeed.converters.lock import LOCK_NAME
from datafeed.converters.plan import differences
from datafeed.errors import ConfigError, DatasetNotFound, OutputDiffers, ShardMissing
from datafeed.header import DatasetHeader
from datafeed.localstore import LocalStore
from datafeed.manifest import PLAN_NAME, Manifest, read_manifest
from datafeed.sizes import counted, some
from datafeed.storage import Store, local_path

StorageOptions = Mapping[str, object] | None

QUARANTINE_INDEX = "quarantine/index.jsonl"
_SHOWN = 8


def storage_of(
    sources: Sequence[str], dest: str, storage: StorageOptions, dest_storage: StorageOptions
) -> tuple[StorageOptions, StorageOptions]:
    """Share out storage options: they go to whichever of source and destination is no local path, to both if both are.

    Args:
        sources: The paths and URLs that are read.
        dest: The path or URL that is written.
        storage: Options for what is read, and for the destination as well unless it has its own.
        dest_storage: Options for the destination alone; None for none of its own.

    Returns:
        The options of what is read, and of the destination. Where all are local, both keep `storage` and refuse it.
    """
    far, far_dest = any(local_path(source) is None for source in sources), local_path(dest) is None
    if dest_storage is None:
        dest_storage = None if far and not far_dest else storage
    return (None if far_dest and not far else storage), dest_storage


def check_apart(source: str, dest: str) -> None:
    """Refuse a destination inside the source, and the other way round.

    Args:
        source: The source's path or URL.
        dest: The destination's path or URL.

    Raises:
        ConfigError: One holds the other.
    """
    raw: PurePath
    out: PurePath
    paths = local_path(source), local_path(dest)
    if paths[0] is not None and paths[1] is not None:
        raw, out = Path(paths[0]).resolve(), Path(paths[1]).resolve()
    elif paths == (None, None):
        raw, out = (PurePosixPath(url.rstrip("/")) for url in (source, dest))
    else:
        return
    if out == raw or raw in out.parents:
        raise ConfigError(f"the destination {dest!r} lies in the source {source!r}: name a directory outside it")
    if out in raw.parents:
        raise ConfigError(f"the source {source!r} lies in the destination {dest!r}: name an empty directory beside it")


def committed(store: Store, header: DatasetHeader) -> Manifest | None:
    """Return the dataset that stands there, if it is the one that this plan makes.

    Args:
        store: The destination.
        header: The plan's header.

    Returns:
        Its manifest; None where no dataset is committed.

    Raises:
        OutputDiffers: Another dataset stands there; the message names the differences.
        CorruptIndex: Its manifest is damaged.
        ShardMissing: A shard that it names is not there.
    """
    try:
        manifest = read_manifest(store)
    except DatasetNotFound:
        return None
    if manifest.dataset_id == header.dataset_id:
        missing = {shard.name for shard in manifest.shards} - set(store.names())
        if missing:
            raise ShardMissing(
                f"{store.url} holds this dataset, but lacks {some(list(map(repr, sorted(missing))), 1)} of its "
                f"{counted(len(manifest.shards), 'shard')}: put back what is missing, or remove all and convert again"
            )
        return manifest
    text = _listed(differences(manifest.header, header))
    raise OutputDiffers(f"{store.url} holds another dataset, which stays as it is. {text}. Name another destination")


def check_same_on_error(manifest: Manifest, store: Store, on_error: str) -> None:
    """Refuse to take a committed dataset that passed bad items over for one made in another way.

    Args:
        manifest: The dataset's.
        store: The destination.
        on_error: What is done with bad items now.

    Raises:
        OutputDiffers: It passed items over in another way.
    """
    done = "quarantine" if store.exists(QUARANTINE_INDEX) else "skip"
    if manifest.skipped and on_error != done:
        raise OutputDiffers(
            f"{store.url} holds this dataset, which passed over {counted(manifest.skipped, 'bad item')}. "
            f"on_error: {done!r} -> {on_error!r}. Give the old one to keep it, or name another destination"
        )


def begun(store: Store, journal: Store, header: DatasetHeader) -> bool:
    """Tell whether this plan's conversion was begun there; the caller holds the lock.

    Args:
        store: The destination.
        journal: Its directory of journal entries.
        header: The plan's header.

    Returns:
        False where nothing of worth stands there.

    Raises:
        OutputDiffers: Files of somebody else stand there, or shards of another plan.
    """
    plan = read_plan(store)
    names = _entries(store, journal)
    if plan is None:
        if names:
            raise OutputDiffers(
                f"{store.url} is not empty: no conversion wrote {some(list(map(repr, names)), 3)}. Name another "
                "destination, or remove what stands there"
            )
        return False
    if plan.dataset_id == header.dataset_id:
        return True
    if not any(name.startswith("shard-") for name in names):
        return False
    raise OutputDiffers(
        f"{store.url} holds an unfinished conversion with other options. {_listed(differences(plan, header))}. Give "
        "the old ones to finish it, or name another destination"
    )


def check_on_error(finished: list[Finished], on_error: str, where: str) -> None:
    """Refuse to go on with bad items in another way than finished shards were made with.

    Args:
        finished: The shards of an earlier run.
        on_error: What is done with bad items now.
        where: The destination.

    Raises:
        OutputDiffers: A shard passed bad items over in another way.
    """
    for done in finished:
        if done.info.skipped and done.on_error != on_error:
            raise OutputDiffers(
                f"{done.info.name} in {where} passed over {counted(done.info.skipped, 'bad item')}. "
                f"on_error: {done.on_error!r} -> {on_error!r}. Give the old one to finish it, or name another "
                "destination"
            )


def _entries(store: Store, journal: Store) -> list[str]:
    """List what stands there, apart from the lock, unfinished writes, and a journal in which nothing is finished."""
    names = set(store.names())
    if isinstance(store, LocalStore):
        names |= {entry.name for entry in os.scandir(store.url) if not entry.is_file()} - {JOURNAL}
    else:
        names |= set(store.folders()) - {JOURNAL}
    names |= {f"{JOURNAL}/{name}" for name in journal.names()}
    return sorted(names - {LOCK_NAME, PLAN_NAME})


def _listed(texts: list[str]) -> str:
    more = f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"Old -> new: {'; '.join(texts[:_SHOWN])}{more}"
