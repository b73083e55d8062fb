"""Index TFRecord files in place, or rebuild the index of a dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.sizes import counted, format_size, parse_size

if TYPE_CHECKING:
    from datafeed.schema import Schema


@click.command("index")
@click.argument("url")
@click.option("--rebuild", is_flag=True, help="Write the index of a converted dataset anew, from its shards.")
@click.option(
    "--block-size", metavar="SIZE", help="Bytes of records read at once, for plain TFRecords.  [default: 256KiB]"
)
@click.option(
    "--schema",
    "described",
    metavar="DATASET",
    help="Take the schema of this dataset, or of a JSON file with the list of features.",
)
@storage_option
@json_option
def command(
    *,
    url: str,
    rebuild: bool,
    block_size: str | None,
    described: str | None,
    storage: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Make the plain TFRecord files at URL readable where they lie.

    Every record is read once and its checksums compared; the schema is drawn from the first 1,000. Only `dataset.json`
    and `blocks.idx` are written, beside the files. Compressed TFRecords have no random access: convert them.

    Records do not say of which type their arrays are. With --schema, files that `datafeed export` wrote keep the types
    and the order of features of the dataset that they came from.

    With --rebuild, the shards of a converted dataset are read instead, and its index is written as it was, byte for
    byte. Missing, foreign or repeated shards are named.

    \b
        datafeed index /data/tfrecords
        datafeed index /data/exported --schema /data/photos
        datafeed index --rebuild /data/photos
    """
    from datafeed.errors import ConfigError, DatasetNotFound
    from datafeed.foreign import index_foreign
    from datafeed.rebuild import rebuild_index
    from datafeed.storage import open_store

    store = open_store(url, storage_options(storage))
    if rebuild:
        if block_size is not None:
            raise ConfigError("--block-size and --rebuild exclude each other: the shards keep their blocks")
        if described is not None:
            raise ConfigError("--schema and --rebuild exclude each other: the shards keep their schema")
    nbytes = parse_size(block_size or "256KiB", name="--block-size")
    schema = None if described is None else _schema_of(described, storage_options(storage))
    try:
        manifest = rebuild_index(store) if rebuild else index_foreign(store, schema=schema, block_size=nbytes)
    except NotADirectoryError as exc:
        raise DatasetNotFound(f"{store.url} is a file: name the directory that holds it") from exc
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


def _schema_of(url: str, options: Mapping[str, object] | None) -> Schema:
    """Read the schema of a dataset, or of a JSON file."""
    from datafeed.errors import DatasetNotFound, SchemaError
    from datafeed.manifest import MANIFEST_NAME, read_manifest
    from datafeed.schema import Schema
    from datafeed.storage import local_path, open_store

    folder, slash, name = url.rpartition("/")
    given = None if local_path(url) is not None else options
    if not name.endswith(".json"):
        return read_manifest(open_store(url, given)).schema
    store = open_store(folder or slash or ".", given)
    if name == MANIFEST_NAME:
        return read_manifest(store).schema
    try:
        return Schema.from_json(json.loads(store.read(name)))
    except FileNotFoundError as exc:
        raise DatasetNotFound(f"no file {name!r} in {store.url} to take a schema from") from exc
    except ValueError as exc:
        expected = "expected the list of features that `datafeed info DATASET --json | jq .schema` prints"
        raise SchemaError(f"{name!r} in {store.url} is no schema: {expected}: {exc}") from exc
