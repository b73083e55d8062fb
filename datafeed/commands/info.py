"""Say what a dataset holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option, storage_option, storage_options

if TYPE_CHECKING:
    from datafeed.manifest import Manifest


@click.command("info")
@click.argument("url")
@storage_option
@json_option
def command(*, url: str, storage: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Say what the dataset at URL holds.

    Schema, shards, sizes and where it came from: one small read. Nothing is checked beyond the manifest; `datafeed
    verify` checks all.

    \b
        datafeed info /data/photos
        datafeed info s3://bucket/photos --storage-option anon=true
        datafeed info /data/photos --json | jq .records
    """
    from datafeed.commands.describe import describe_dataset
    from datafeed.manifest import read_manifest
    from datafeed.storage import open_store

    store = open_store(url, storage_options(storage))
    manifest = read_manifest(store)
    if as_json:
        click.echo(json.dumps(_facts(store.url, manifest), indent=2))
    else:
        click.echo(describe_dataset(store.url, manifest))


def _facts(url: str, manifest: Manifest) -> dict[str, object]:
    header = manifest.header
    return {
        "url": url,
        "dataset_id": manifest.dataset_id,
        "codec": manifest.codec,
        "records": manifest.records,
        "shards": len(manifest.shards),
        "blocks": sum(shard.blocks for shard in manifest.shards),
        "raw_bytes": manifest.raw_bytes,
        "stored_bytes": manifest.nbytes,
        "skipped": manifest.skipped,
        "block_size": header.block_size,
        "extent_size": header.extent_size,
        "level": header.level,
        "schema": manifest.schema.to_json(),
        "provenance": dict(header.provenance),
    }
