"""Export a dataset to files that other programs read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from datafeed.commands.options import Pair, json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.converters.export import ExportOptions, ExportReport
    from datafeed.converters.export_forms import To


@click.command("export")
@click.argument("url")
@click.argument("dest")
@click.option(
    "--to",
    type=click.Choice(["tfrecord", "parquet", "npy", "mds", "webdataset", "images"]),
    default="tfrecord",
    show_default=True,
    help="Plain TFRecord with the index that NVIDIA DALI asks for; parquet; a NumPy file per feature; MDS; WebDataset "
    "tar; a folder of image files.",
)
@click.option("--columns", metavar="NAMES", help="The features wanted, as a,b,c; all by default.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes that write, a shard each; the cores by default.")
@click.option(
    "--ray-address",
    envvar="RAY_ADDRESS",
    show_envvar=True,
    metavar="HOST:PORT",
    help="A Ray cluster to run on. By default a running one, or a local one, started and stopped.",
)
@click.option(
    "--dest-option",
    "dest_storage",
    multiple=True,
    type=Pair("KEY=VALUE"),
    help="The same for DEST alone, in place of those; repeatable.",
)
@storage_option
@json_option
def command(*, url: str, dest: str, to: To, as_json: bool, **given: object) -> None:
    """Export the dataset at URL to DEST, an empty or new directory.

    Each shard becomes one file, or a few. Every block is verified before it is written. Killed half-way, the same
    command goes on. Storage options go to whichever of URL and DEST is no local path.

    \b
        datafeed export /data/photos /data/photos-tfrecord
        datafeed export /data/tables s3://bucket/tables --to parquet --columns id,price
    """
    from datafeed.converters.export import export

    with Ticker("export") as ticker:
        report = export(
            url,
            dest,
            to,
            _options(given),
            on_progress=lambda done, total: ticker.line(f"{done:,} of {counted(total, 'record')}", time.monotonic()),
        )
    click.echo(json.dumps(asdict(report), indent=2) if as_json else _text(report))


def _options(given: Mapping[str, object]) -> ExportOptions:
    from datafeed.converters.export import ExportOptions

    storage, dest_storage = (
        storage_options(cast("tuple[tuple[str, str], ...]", given[name])) for name in ("storage", "dest_storage")
    )
    return ExportOptions(
        columns=tuple(name.strip() for name in str(given["columns"] or "").split(",") if name.strip()),
        workers=cast("int | None", given["workers"]),
        ray_address=cast("str | None", given["ray_address"]),
        storage_options=storage,
        dest_options=dest_storage,
    )


def _text(report: ExportReport) -> str:
    count = f"{counted(report.records, 'record')} in {counted(report.files, 'file')}, {format_size(report.nbytes)}"
    if report.ran_on == "nothing":
        return f"exported before to {safe(report.dest)}: {count}: nothing was done"
    where = f", on {counted(report.workers, 'Ray worker')}" if report.ran_on == "ray" else ""
    resumed = f", {counted(report.resumed, 'shard')} of them from an earlier run" if report.resumed else ""
    return f"exported to {safe(report.dest)}: {count}{where}{resumed}"
