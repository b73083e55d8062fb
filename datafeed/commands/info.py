"""Say what a dataset holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe, table
from datafeed.sizes import format_size

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
    from datafeed.manifest import read_manifest
    from datafeed.storage import open_store

    store = open_store(url, storage_options(storage))
    manifest = read_manifest(store)
    click.echo(json.dumps(_facts(store.url, manifest), indent=2) if as_json else _text(store.url, manifest))


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


def _text(url: str, manifest: Manifest) -> str:
    from datafeed.commands.describe import describe_schema

    return "\n".join(
        [
            table([(name, value) for name, value in _lines(url, manifest) if value]),
            "",
            "schema",
            _indented(describe_schema(manifest.schema)),
            "",
            "made from",
            _indented(table([(safe(name), safe(_plain(value))) for name, value in _origin(manifest)])),
        ]
    )


def _lines(url: str, manifest: Manifest) -> list[tuple[str, str]]:
    header = manifest.header
    sizes = sorted(shard.nbytes for shard in manifest.shards)
    between = f", {format_size(sizes[0])} to {format_size(sizes[-1])} each" if len(sizes) > 1 else ""
    packed = f"zstd level {header.level}" if manifest.codec == "zstd" else "plain TFRecord, read in place"
    ratio = f", ratio {manifest.raw_bytes / manifest.nbytes:.2f}" if manifest.codec == "zstd" and sizes else ""
    blocks = sum(shard.blocks for shard in manifest.shards)
    return [
        ("dataset", safe(url)),
        ("id", manifest.dataset_id),
        ("records", f"{manifest.records:,}"),
        ("shards", f"{len(sizes):,}{between}"),
        ("blocks", f"{blocks:,} of up to {header.block_size:,} raw bytes"),
        ("raw", f"{format_size(manifest.raw_bytes)}, {_each(manifest.raw_bytes, manifest.records)} a record"),
        ("stored", f"{format_size(manifest.nbytes)}, {packed}{ratio}"),
        ("skipped", f"{manifest.skipped:,} bad items of the source" if manifest.skipped else ""),
    ]


def _each(nbytes: int, records: int) -> str:
    return format_size(nbytes / records) if records else "none"


def _origin(manifest: Manifest) -> list[tuple[str, object]]:
    flat: list[tuple[str, object]] = []
    for name, value in manifest.header.provenance.items():
        flat += value.items() if isinstance(value, dict) else [(name, value)]
    return [(name, value) for name, value in flat if value is not None]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
