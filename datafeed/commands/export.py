"""Export a dataset to files that other programs read."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.sizes import counted, format_size


@click.command("export")
@click.argument("url")
@click.argument("dest")
@click.option(
    "--to",
    "form",
    type=click.Choice(["tfrecord"]),
    default="tfrecord",
    show_default=True,
    help="Plain TFRecord files, each with the index that NVIDIA DALI asks for.",
)
@storage_option
@json_option
def command(*, url: str, dest: str, form: str, storage: tuple[tuple[str, str], ...], as_json: bool) -> None:  # noqa: ARG001  (one form so far)
    """Export the dataset at URL to DEST, an empty or new directory.

    Each shard becomes one plain TFRecord file, and beside it an .idx file of "offset size" lines. Every block is
    verified before it is written. Storage options go to whichever of URL and DEST is no local path.

    \b
        datafeed export /data/photos /data/photos-tfrecord --to tfrecord
    """
    from datafeed.converters.export import export_tfrecord
    from datafeed.storage import local_path

    options = storage_options(storage)
    from_local, to_local = (local_path(place) is not None for place in (url, dest))
    with Ticker("export") as ticker:
        report = export_tfrecord(
            url,
            dest,
            storage_options=None if from_local else options,
            dest_options=options if from_local or not to_local else None,
            on_progress=lambda done, total: ticker.line(f"{done:,} of {counted(total, 'record')}", time.monotonic()),
        )
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    count = f"{counted(report.records, 'record')} in {counted(report.files, 'file')}, {format_size(report.nbytes)}"
    click.echo(f"exported to {safe(report.dest)}: {count}")
