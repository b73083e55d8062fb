"""Show the way from raw images to a trained model."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("demo")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the raw images and datasets here.")
@click.option("--shard-size", metavar="SIZE", default="40kB", show_default=True, help="As of `datafeed convert`.")
@click.option("--block-size", metavar="SIZE", default="2KiB", show_default=True, help="As of `datafeed convert`.")
@click.option("--epochs", type=click.IntRange(min=1), default=10, show_default=True, help="Passes over the digits.")
@click.option(
    "--digits", type=click.IntRange(100, 1797), default=1797, show_default=True, help="How many of them to use."
)
def command(*, folder: Path | None, shard_size: str, block_size: str, epochs: int, digits: int) -> None:
    """Convert, train and compare on handwritten digits.

    Writes scikit-learn's digits as PNG files, converts them, trains a small network through Loader, and the same one
    through torch's DataLoader over the files. Takes under a minute on two cores, downloads nothing, and leaves nothing
    behind unless --folder is given. Exit code 1 if the network gets under 95 % of the held-out digits right, or if a
    sample did not come exactly once in an epoch.

    \b
        datafeed demo
        datafeed demo --folder /tmp/digits
    """
    from datafeed.demo import DemoOptions, run_demo

    if not run_demo(DemoOptions(folder, shard_size, block_size, epochs, digits), click.echo):
        sys.exit(1)
