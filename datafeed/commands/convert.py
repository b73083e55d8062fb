"""Convert a raw data set into a dataset of shards."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import Pair, json_option, storage_option, storage_options
from datafeed.commands.terminal import safe, table
from datafeed.sizes import format_size

if TYPE_CHECKING:
    from datafeed.converters.convert import ConvertReport, Plan

_KINDS = ("images", "parquet", "csv", "jsonl", "tfrecord")


@click.command("convert")
@click.argument("source")
@click.argument("dest")
@click.option("--from", "kind", metavar="KIND", help=f"What SOURCE is: {', '.join(_KINDS)}. Detected by default.")
@click.option("--shard-size", metavar="SIZE", default="100MB", show_default=True, help="Stored bytes of a shard.")
@click.option(
    "--block-size",
    metavar="SIZE",
    default="256KiB",
    show_default=True,
    help="Raw bytes of a block, the unit of reading.",
)
@click.option(
    "--extent-size",
    metavar="SIZE",
    default="2MiB",
    show_default=True,
    help="Stored bytes of an extent, the unit of shuffling and fetching.",
)
@click.option("--level", type=int, help="The zstd level, -100 to 22. Chosen by a sample of the data by default.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes that encode; the cores by default.")
@click.option(
    "--ray-address",
    envvar="RAY_ADDRESS",
    show_envvar=True,
    help="A Ray cluster to run on. By default a running one, or a local one, started and stopped.",
)
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip", "quarantine"]),
    default="raise",
    show_default=True,
    help="On a bad file or row: stop, pass it over and count it, or also write it aside under DEST/quarantine.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Convert so many records, from the first on.")
@click.option("--no-shuffle", is_flag=True, help="Keep the order of the files of an image folder.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of that shuffle.")
@click.option("--int64-lists", is_flag=True, help="Write integer arrays as int64 lists, not as raw bytes.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=Pair("NAME=DTYPE"),
    help="Fix a column's type for csv and jsonl, as label=int64; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan (shards, estimated size, schema) and write nothing.")
@storage_option
@json_option
def command(  # noqa: PLR0913  (a conversion has that many options)
    *,
    source: str,
    dest: str,
    kind: str | None,
    shard_size: str,
    block_size: str,
    extent_size: str,
    level: int | None,
    workers: int | None,
    ray_address: str | None,
    on_error: str,
    limit: int | None,
    no_shuffle: bool,
    seed: int,
    int64_lists: bool,
    types: tuple[tuple[str, str], ...],
    dry_run: bool,
    storage: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Convert the raw data set SOURCE into a dataset of shards at DEST.

    SOURCE is a folder of images (a folder per class), or a file, a folder or a quoted pattern of parquet, csv, tsv,
    jsonl or TFRecord files. DEST is a new or empty directory, a path or URL. The result is the same, byte for byte, for
    any number of workers. Killed half-way, the same command goes on after the last finished shard.

    \b
        datafeed convert photos/ /data/photos
        datafeed convert 'tables/*.parquet' /data/table --workers 8
        datafeed convert rows.csv.gz /data/rows --type zip=utf8 --on-error quarantine
        datafeed convert photos/ s3://bucket/photos --storage-option profile=work
        datafeed convert photos/ /data/photos --dry-run --json | jq .shards
    """
    from datafeed.commands.meter import shown_progress
    from datafeed.converters.convert import ConvertOptions, convert, plan

    options = ConvertOptions(
        kind=kind,
        shard_size=shard_size,
        block_size=block_size,
        extent_size=extent_size,
        level=level,
        workers=workers,
        ray_address=ray_address,
        on_error=on_error,  # type: ignore[arg-type]  # click's choice is the literal's
        limit=limit,
        shuffle=not no_shuffle,
        seed=seed,
        int64_lists=int64_lists,
        types=dict(types),
        storage_options=storage_options(storage),
    )
    if dry_run:
        made = plan(source, dest, options)
        click.echo(json.dumps(_plan_facts(made), indent=2) if as_json else _plan_text(made, dest))
        return
    with shown_progress() as on_progress:
        report = convert(source, dest, options, on_progress=on_progress)
    click.echo(json.dumps({**asdict(report), "ratio": report.ratio}, indent=2) if as_json else _report_text(report))


def _plan_facts(made: Plan) -> dict[str, object]:
    return {
        "kind": made.source.kind,
        "records": made.records,
        "raw_bytes": made.raw_bytes,
        "stored_bytes": made.stored_bytes,
        "shards": made.shards,
        "tasks": len(made.tasks),
        "level": made.level,
        "schema": made.schema.to_json(),
        "notes": list(made.notes),
    }


def _plan_text(made: Plan, dest: str) -> str:
    from datafeed.commands.describe import describe_schema
    from datafeed.storage import masked

    size = f"{format_size(made.stored_bytes)} at zstd level {made.level}, from {format_size(made.raw_bytes)}"
    rows = [
        ("source", f"{safe(made.name)}, {made.source.kind}"),
        ("destination", f"{safe(masked(dest))}, nothing written"),
        ("records", f"about {made.records:,}"),
        ("shards", f"about {made.shards:,}"),
        ("stored", f"about {size}"),
        *(("note", safe(note)) for note in made.notes),
    ]
    schema = "".join(f"\n  {line}" for line in describe_schema(made.schema).splitlines())
    return f"{table(rows)}\n\nschema{schema}"


def _report_text(report: ConvertReport) -> str:
    sizes = f"{format_size(report.raw_bytes)} -> {format_size(report.stored_bytes)}, ratio {report.ratio:.2f}"
    rate = f"{report.records / report.seconds:,.0f} records/s" if report.seconds else ""
    where = {"inline": "in this process", "ray": f"on {report.workers} Ray workers"}.get(report.ran_on, "")
    resumed = f"{report.resumed:,} shards stood there from an earlier run" if report.resumed else ""
    rows = [
        ("dataset", safe(report.dest)),
        ("records", f"{report.records:,} in {report.shards:,} shards"),
        ("size", f"{sizes}, zstd level {report.level}"),
        ("time", f"{report.seconds:.1f} s {where}, {rate}" if where else "complete before: nothing was done"),
        ("resumed", resumed),
        ("skipped", f"{report.skipped:,} bad items" if report.skipped else ""),
        *(("", safe(reason)) for reason in report.reasons),
        *(("note", safe(note)) for note in report.notes),
    ]
    return table([row for row in rows if row[1]])
