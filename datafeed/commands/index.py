"""Index TFRecord files in place, or rebuild the index of a dataset."""

from __future__ import annotations

import json

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.sizes import counted, format_size, parse_size


@click.command("index")
@click.argument("url")
@click.option("--rebuild", is_flag=True, help="Write the index of a converted dataset anew, from its shards.")
@click.option(
    "--block-size", metavar="SIZE", help="Bytes of records read at once, for plain TFRecords.  [default: 256KiB]"
)
@storage_option
@json_option
def command(
    *, url: str, rebuild: bool, block_size: str | None, storage: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Make the plain TFRecord files at URL readable where they lie.

    Every record is read once and its checksums compared; the schema is drawn from the first 1,000. Only `dataset.json`
    and `blocks.idx` are written, beside the files. Compressed TFRecords have no random access: convert them.

    With --rebuild, the shards of a converted dataset are read instead, and its index is written as it was, byte for
    byte. Missing, foreign or repeated shards are named.

    \b
        datafeed index /data/tfrecords
        datafeed index --rebuild /data/photos
    """
    from datafeed.errors import ConfigError
    from datafeed.foreign import index_foreign
    from datafeed.rebuild import rebuild_index
    from datafeed.storage import open_store

    store = open_store(url, storage_options(storage))
    if rebuild:
        if block_size is not None:
            raise ConfigError("--block-size and --rebuild exclude each other: the shards keep their blocks")
        manifest = rebuild_index(store)
    else:
        manifest = index_foreign(store, block_size=parse_size(block_size or "256KiB", name="--block-size"))
    facts = {
        "url": store.url,
        "dataset_id": manifest.dataset_id,
        "codec": manifest.codec,
        "records": manifest.records,
        "shards": len(manifest.shards),
        "stored_bytes": manifest.nbytes,
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    count = f"{counted(manifest.records, 'record')} in {counted(len(manifest.shards), 'shard')}"
    click.echo(f"indexed {safe(store.url)}: {count}, {format_size(manifest.nbytes)}")
