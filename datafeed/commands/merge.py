"""Join datasets to one."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from datafeed.commands.options import Pair, json_option, storage_option, storage_options
from datafeed.commands.terminal import safe, table
from datafeed.sizes import counted, format_size


@click.command("merge")
@click.argument("dataset", nargs=-1, required=True)
@click.argument("dest")
@click.option(
    "--dest-option",
    "dest_storage",
    multiple=True,
    type=Pair("KEY=VALUE"),
    help="Passed to the fsspec file system of DEST; repeatable.",
)
@storage_option
@json_option
def command(
    *,
    dataset: tuple[str, ...],
    dest: str,
    dest_storage: tuple[tuple[str, str], ...],
    storage: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Join two DATASETs or more, of one schema, to a new one at DEST.

    Their blocks are copied as they are and checked, never decompressed. Killed half-way, the same command goes on.

    \b
        datafeed merge /data/2023 /data/2024 /data/both
    """
    from datafeed.commands.meter import shown_progress
    from datafeed.converters.merge import merge

    with shown_progress() as on_progress:
        report = merge(
            dataset,
            dest,
            storage_options=storage_options(storage),
            dest_options=storage_options(dest_storage),
            on_progress=on_progress,
        )
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    resumed = f"{counted(report.resumed, 'shard')} stood there from an earlier run" if report.resumed else ""
    rows = [
        ("dataset", safe(report.dest)),
        ("records", f"{report.records:,} in {counted(report.shards, 'shard')}"),
        ("stored", format_size(report.stored_bytes)),
        ("resumed", resumed),
        ("done", "complete before: nothing was done" if report.complete_before else ""),
    ]
    click.echo(table([row for row in rows if row[1]]))
