"""Commit a dataset: its block index, then its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from datafeed.blockindex import encode_index
from datafeed.header import DatasetHeader
from datafeed.manifest import INDEX_NAME, MANIFEST_NAME, Codec, Manifest
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo
from datafeed.storage import Store


def commit(
    store: Store,
    header: DatasetHeader,
    codec: Codec,
    shards: Sequence[ShardInfo],
    blocks: Sequence[BlockColumns],
) -> Manifest:
    """Write `blocks.idx`, then `dataset.json`; until the last is there, readers see no dataset.

    Args:
        store: Where the shards are.
        header: What every shard says about the dataset.
        codec: How the shards' blocks are kept.
        shards: What the manifest says of each shard, in order.
        blocks: The blocks of each shard.

    Returns:
        The manifest: the same bytes for the same arguments.

    Raises:
        OutputError: The store failed.
    """
    index = encode_index(header.dataset_id, blocks)
    digest = hashlib.sha256(index).hexdigest()
    manifest = Manifest(header, codec, tuple(shards), INDEX_NAME, len(index), digest)
    with store.writer(INDEX_NAME) as sink:
        sink.write(index)
    with store.writer(MANIFEST_NAME) as sink:
        sink.write(manifest.to_bytes())
    return manifest
