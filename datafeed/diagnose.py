"""Say why a shard's bytes are not those that the index names."""

from __future__ import annotations

import numpy as np

from datafeed.blockindex import BlockIndex
from datafeed.errors import CorruptData, IndexMismatch, NotAShard, StaleIndex, TruncatedShard
from datafeed.footer import read_footer
from datafeed.manifest import Manifest
from datafeed.shard import ShardInfo
from datafeed.sizes import counted
from datafeed.storage import Store


def diagnose(store: Store, manifest: Manifest, index: BlockIndex, number: int, exc: CorruptData) -> CorruptData:
    """Find the error that names the cause: a damaged block, or a shard that is another one altogether.

    Args:
        store: Where the dataset is.
        manifest: Its manifest.
        index: Its block index.
        number: The shard's number.
        exc: What reading it ran into, with its place.

    Returns:
        The error to raise, with the same place.

    Raises:
        FileNotFoundError: The shard is gone.
    """
    shard = manifest.shards[number]
    nbytes = store.size(shard.name)
    if manifest.codec == "none":
        return exc if nbytes == shard.nbytes else _resized(nbytes, shard, exc)
    try:
        footer = read_footer(store, shard.name)
    except NotAShard as other:
        return other
    except CorruptData:
        return _resized(nbytes, shard, exc) if nbytes < shard.nbytes else exc
    found = (footer.header.dataset_id, footer.number)
    if found != (manifest.dataset_id, number):
        reason = f"the shard says that it is number {found[1]} of dataset {found[0]}, not of {manifest.dataset_id}"
        return _at(IndexMismatch(f"{reason}: put the right shard there", shard=shard.name), exc)
    if footer.nbytes != shard.nbytes or not np.array_equal(
        footer.blocks.checksum, index.checksum[index.shard == number]
    ):
        reason = f"the shard was rewritten: it has {footer.nbytes:,} bytes and {counted(len(footer.blocks), 'block')}"
        reason += f", the index names {shard.nbytes:,} and {shard.blocks:,}, or others"
        return _at(StaleIndex(f"{reason}: run `datafeed index --rebuild`", shard=shard.name), exc)
    return exc


def _resized(nbytes: int, shard: ShardInfo, exc: CorruptData) -> CorruptData:
    reason = f"it has {counted(nbytes, 'byte')}, the index names {shard.nbytes:,}"
    kind = TruncatedShard if nbytes < shard.nbytes else StaleIndex
    return _at(kind(reason, shard=shard.name), exc)


def _at(new: CorruptData, old: CorruptData) -> CorruptData:
    new.block, new.offset = old.block, old.offset
    return new
