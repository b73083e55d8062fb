"""Write the records of a dataset to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import storage_option, storage_options

if TYPE_CHECKING:
    from datafeed.dataset import Dataset


@click.command("cat")
@click.argument("url")
@click.option(
    "--format",
    "form",
    type=click.Choice(["tfrecord", "jsonl"]),
    default="tfrecord",
    show_default=True,
    help="A plain TFRecord stream, or a JSON object a line.",
)
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1), help="How many records; all by default.")
@storage_option
def command(*, url: str, form: str, count: int | None, storage: tuple[tuple[str, str], ...]) -> None:
    """Write the records of the dataset at URL to standard output.

    They come in their order, and every block is verified before it is written. In jsonl, bytes are base64, NaN and
    infinities strings, and what is missing null.

    \b
        datafeed cat /data/photos > photos.tfrecord
        datafeed cat /data/table --format jsonl -n 10 | jq .
    """
    from datafeed.dataset import Dataset

    dataset = Dataset(url, storage_options(storage))
    end = len(dataset) if count is None else min(count, len(dataset))
    out = sys.stdout.buffer
    if form == "jsonl":
        from datafeed.commands.rows import json_lines

        out.writelines(line.encode() for line in json_lines(dataset, end))
    else:
        out.writelines(_framed(dataset, end))
    out.flush()


def _framed(dataset: Dataset, end: int) -> Iterator[bytes]:
    """Yield the first records, framed as TFRecord, a block or part of one at a time."""
    from datafeed.framing import prefix_nbytes

    first = dataset.index.first.tolist()
    for number, start in enumerate(first[:-1]):
        if start >= end:
            return
        block = dataset.reader.read(number)
        if first[number + 1] <= end:
            yield bytes(block.raw)
            continue
        yield bytes(block.raw[: prefix_nbytes(block, end - start)])
