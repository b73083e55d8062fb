"""Commit a dataset: its block index, then its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from datafeed.blockindex import encode_index
from datafeed.header import DatasetHeader
from datafeed.manifest import MANIFEST_NAME, Codec, Manifest, index_name
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo
from datafeed.storage import Store


def commit(
    store: Store,
    header: DatasetHeader,
    codec: Codec,
    shards: Sequence[ShardInfo],
    blocks: Sequence[BlockColumns],
    appended: Sequence[Mapping[str, object]] = (),
) -> Manifest:
    """Write the block index, then `dataset.json`; until the last is there, readers see no dataset.

    Args:
        store: Where the shards are.
        header: What every shard says about the dataset.
        codec: How the shards' blocks are kept.
        shards: What the manifest says of each shard, in order.
        blocks: The blocks of each shard.
        appended: Where the samples of each run came from that appended shards.

    Returns:
        The manifest: the same bytes for the same arguments.

    Raises:
        OutputError: The store failed.
    """
    index = encode_index(header.dataset_id, blocks)
    digest = hashlib.sha256(index).hexdigest()
    name = index_name(len(appended))  # a new one each time: readers of the dataset as it was keep theirs
    manifest = Manifest(header, codec, tuple(shards), name, len(index), digest, tuple(appended))
    with store.writer(name) as sink:
        sink.write(index)
    with store.writer(MANIFEST_NAME) as sink:
        sink.write(manifest.to_bytes())
    return manifest
