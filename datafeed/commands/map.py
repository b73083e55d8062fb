"""Make a dataset of another one."""

from __future__ import annotations

import click

from datafeed.commands.conversion import conversion_options, options_of, show_plans, show_report
from datafeed.commands.options import json_option


@click.command("map")
@click.argument("dataset")
@click.argument("dest")
@click.option(
    "--fn",
    metavar="MODULE:FUNCTION",
    help="A function of yours that takes a sample and returns one, several or None.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of --split.")
@conversion_options
@json_option
def command(*, dataset: str, dest: str, fn: str | None, dry_run: bool, as_json: bool, **given: object) -> None:
    """Make a dataset at DEST of the samples of DATASET.

    Each sample goes through a function, where one is given: it may change it, make several of it, or leave it out with
    None. Without one the dataset is written anew: in shards of another size, at another level, with fewer features,
    smaller images, split or shuffled.

    \b
        datafeed map /data/photos /data/small --resize 128
        datafeed map /data/photos /data/parts --split val=0.1
        datafeed map /data/text /data/long --fn mymodule:keep_long
    """
    from datafeed.commands.meter import shown_progress
    from datafeed.converters.callables import load_function
    from datafeed.converters.remap import map_dataset, map_plans

    options = options_of(given)
    function = None if fn is None else load_function(fn)
    if dry_run:
        show_plans(map_plans(dataset, dest, function, options), dest, as_json=as_json)
        return
    with shown_progress() as on_progress:
        report = map_dataset(dataset, dest, function, options, on_progress=on_progress)
    show_report(report, as_json=as_json)
