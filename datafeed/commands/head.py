"""Show the first samples of a dataset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe, table

if TYPE_CHECKING:
    from datafeed.schema import Feature


@click.command("head")
@click.argument("url")
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(min=1), default=5, show_default=True, help="How many samples."
)
@storage_option
@json_option
def command(*, url: str, count: int, storage: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Show the first samples of the dataset at URL.

    Long values are shortened, and what a terminal would obey is escaped. With --json values are whole: bytes in base64,
    NaN and infinities as strings, missing ones as null.

    \b
        datafeed head /data/photos
        datafeed head /data/table -n 100 --json
    """
    from datafeed.commands.rows import json_objects
    from datafeed.dataset import Dataset

    dataset = Dataset(url, storage_options(storage))
    end = min(count, len(dataset))
    if as_json:
        click.echo(json.dumps(list(json_objects(dataset, end)), indent=2, allow_nan=False))
        return
    for number in range(end):
        click.echo(f"sample {number}")
        sample = dataset[number]
        rows = [(f"  {safe(feature.name)}", _shown(feature, sample[feature.name])) for feature in dataset.schema]
        click.echo(table(rows))


def _shown(feature: Feature, value: object) -> str:
    from datafeed.commands.values import show

    text = show(value)
    if feature.classes and not feature.shape and value is not None:
        number = int(str(value))
        return f"{text} ({safe(feature.classes[number])})" if 0 <= number < len(feature.classes) else text
    return f"{text} ({feature.media})" if feature.media else text
