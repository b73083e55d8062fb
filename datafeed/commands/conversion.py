"""Hold the options of the commands that write datasets, and say what they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, TypeVar, cast

import click

from datafeed.commands.options import Pair, storage_options
from datafeed.commands.terminal import safe, table
from datafeed.errors import ConfigError
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.converters.convert import ConvertOptions, ConvertReport, Plan

_Command = TypeVar("_Command", bound=Callable[..., object])

_OPTIONS = (
    click.option("--shard-size", metavar="SIZE", default="100MB", show_default=True, help="Stored bytes of a shard."),
    click.option(
        "--block-size",
        metavar="SIZE",
        default="256KiB",
        show_default=True,
        help="Raw bytes of a block, the unit of reading.",
    ),
    click.option(
        "--extent-size",
        metavar="SIZE",
        default="2MiB",
        show_default=True,
        help="Stored bytes of an extent, the unit of shuffling and fetching.",
    ),
    click.option("--level", type=int, help="The zstd level, -100 to 22. Chosen by a sample of the data by default."),
    click.option(
        "--columns", metavar="NAMES", help="The features wanted, as a,b,c by the source's names; all by default."
    ),
    click.option("--rename", multiple=True, type=Pair("OLD=NEW"), help="Give a feature another name; repeatable."),
    click.option("--key", metavar="NAME", help="The feature whose value names a sample, as exports do."),
    click.option(
        "--resize",
        type=click.IntRange(min=1),
        metavar="PIXELS",
        help="Bring larger images to so many pixels on their shorter side.",
    ),
    click.option(
        "--quality",
        type=click.IntRange(1, 100),
        default=90,
        show_default=True,
        help="The JPEG quality of images that are resized.",
    ),
    click.option(
        "--shuffle",
        "shuffle_seed",
        type=int,
        metavar="SEED",
        help="Shuffle the samples of any source: exactly where rows can be read by number, else within windows of "
        "64 MB; the report says which.",
    ),
    click.option(
        "--split",
        metavar="HOW",
        help='A dataset DEST/NAME for each part: "val=0.1,test=0.05" by chance (--seed), the rest is train; "folder" '
        'by the folders of SOURCE; "column:NAME" by its values.',
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        help="Convert so many records, from the first on; of each part of a split.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["raise", "skip", "quarantine"]),
        default="raise",
        show_default=True,
        help="On a bad file or row: stop, pass it over and count it, or also write it aside under DEST/quarantine.",
    ),
    click.option("--workers", type=click.IntRange(min=1), help="Processes that encode; the cores by default."),
    click.option(
        "--ray-address",
        envvar="RAY_ADDRESS",
        show_envvar=True,
        metavar="HOST:PORT",
        help="A Ray cluster to run on. By default a running one, or a local one, started and stopped.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the plan (shards, estimated size, schema) and write nothing."),
    click.option(
        "--storage-option",
        "storage",
        multiple=True,
        type=Pair("KEY=VALUE"),
        help="Passed to the fsspec file system of URLs, of SOURCE and DEST alike; repeatable.",
    ),
    click.option(
        "--dest-option",
        "dest_storage",
        multiple=True,
        type=Pair("KEY=VALUE"),
        help="The same for DEST alone, in place of those; repeatable.",
    ),
)


def conversion_options(command: _Command) -> _Command:
    """Add the options of every command that writes a dataset from a source."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_of(given: Mapping[str, object]) -> ConvertOptions:
    """Return what a person gave on the command line as the options of a conversion.

    Args:
        given: The command's parameters by name; those that are no field of `ConvertOptions` by themselves are
            `columns`, `rename`, `types`, `storage`, `dest_storage`, `no_shuffle` and `shuffle_seed`.

    Raises:
        ConfigError: A value is out of bounds.
    """
    from datafeed.converters.convert import ConvertOptions

    plain = {field.name for field in fields(ConvertOptions)} & given.keys()
    values = {name: given[name] for name in plain}
    values["columns"] = _names(given["columns"])
    for name in ("rename", "types"):
        values[name] = dict(_pairs(given.get(name, ())))
    values["storage_options"] = storage_options(_pairs(given["storage"]))
    values["dest_options"] = storage_options(_pairs(given["dest_storage"]))
    values["shuffle"] = not given.get("no_shuffle", False)
    if given["shuffle_seed"] is not None:
        values |= {"shuffle_all": True, "seed": given["shuffle_seed"]}
    return ConvertOptions(**values)  # type: ignore[arg-type]  # click has checked each


def _names(given: object) -> tuple[str, ...]:
    """Return the names of "a,b,c"; none where nothing is given."""
    names = tuple(name.strip() for name in str(given or "").split(",") if name.strip())
    if given is not None and not names:
        raise ConfigError(f"columns: expected names such as a,b,c, found {given!r}")
    return names


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return cast("tuple[tuple[str, str], ...]", value)


def show_plans(made: Mapping[str, Plan], dest: str, *, as_json: bool) -> None:
    """Print the plans of all parts, or the one of what is not split."""
    if as_json:
        facts = {part: _plan_facts(plan) for part, plan in made.items()}
        click.echo(json.dumps(facts.get("", facts), indent=2))
        return
    texts = [_plan_text(plan, f"{dest.rstrip('/')}/{part}" if part else dest) for part, plan in made.items()]
    click.echo("\n\n".join(texts))


def show_report(report: ConvertReport, *, as_json: bool) -> None:
    """Print what a conversion did."""
    if as_json:
        click.echo(json.dumps({**asdict(report), "ratio": report.ratio}, indent=2))
        return
    click.echo("\n\n".join(map(_report_text, report.parts.values() or [report])))


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
        ("records", f"about {made.records:,}, by a sample: bad items are met when all is read"),
        ("shards", f"about {made.shards:,}"),
        ("stored", f"about {size}"),
        *(("note", safe(note)) for note in made.notes),
    ]
    schema = "".join(f"\n  {line}" for line in describe_schema(made.schema).splitlines())
    return f"{table(rows)}\n\nschema{schema}"


def _report_text(report: ConvertReport) -> str:
    sizes = f"{format_size(report.raw_bytes)} -> {format_size(report.stored_bytes)}, ratio {report.ratio:.2f}"
    rate = f", {report.new_records / report.seconds:,.0f} records/s" if report.seconds else ""
    where = {"inline": "in this process", "ray": f"on {counted(report.workers, 'Ray worker')}"}.get(report.ran_on, "")
    resumed = f"{counted(report.resumed, 'shard')} stood there from an earlier run" if report.resumed else ""
    rows: Sequence[tuple[str, str]] = [
        ("dataset", safe(report.dest)),
        ("records", f"{report.records:,} in {counted(report.shards, 'shard')}"),
        ("size", f"{sizes}, zstd level {report.level}"),
        ("time", f"{report.seconds:.1f} s {where}{rate}" if where else "complete before: nothing was done"),
        ("resumed", resumed),
        ("skipped", counted(report.skipped, "bad item") if report.skipped else ""),
        *(("", safe(reason)) for reason in report.reasons),
        *(("note", safe(note)) for note in report.notes),
    ]
    return table([row for row in rows if row[1]])
