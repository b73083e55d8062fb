"""Convert a raw data set into a dataset of shards."""

from __future__ import annotations

import click

from datafeed.commands.conversion import conversion_options, options_of, show_plans, show_report
from datafeed.commands.options import Pair, json_option


@click.command("convert")
@click.argument("source", nargs=-1, required=True)
@click.argument("dest")
@click.option(
    "--from",
    "kind",
    metavar="KIND",
    help="What SOURCE is; `datafeed sources` lists the kinds. Detected by default.",
)
@click.option(
    "--fn",
    metavar="MODULE:FUNCTION",
    help="Make the samples of each file by a function of yours, which takes its path.",
)
@click.option("--append", is_flag=True, help="Add the samples to the dataset at DEST, and commit once.")
@click.option("--no-shuffle", is_flag=True, help="Keep the order of the files of a folder of images or sounds.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of that shuffle, and of --split.")
@click.option("--int64-lists", is_flag=True, help="Write integer arrays as int64 lists, not as raw bytes.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=Pair("NAME=DTYPE"),
    help="Fix a column's type for csv and jsonl, as label=int64; repeatable.",
)
@click.option("--labels", metavar="FILE", help="For images: csv, tsv or jsonl that names the files, or COCO's json.")
@click.option("--tokenizer", metavar="FILE", help="For text: a tokenizer, as Hugging Face's tokenizers saves it.")
@click.option("--seq-len", type=click.IntRange(min=1), help="For text and litdata: token ids of a sample.")
@click.option("--one-document", is_flag=True, help="For text: never pack several documents into a sample.")
@click.option("--separator", metavar="TOKEN", help='For text: ends each document; "" for none.')
@click.option(
    "--tail",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="For text: what becomes of ids that fill no sample.",
)
@click.option("--text", metavar="NAME", default="text", show_default=True, help="For text: the column that holds it.")
@conversion_options
@json_option
def command(
    *, source: tuple[str, ...], dest: str, fn: str | None, dry_run: bool, as_json: bool, **given: object
) -> None:
    """Convert the raw data set SOURCE into a dataset of shards at DEST.

    SOURCE is a folder, a file or a quoted pattern, a path or any URL that fsspec knows, or several of them; `datafeed
    sources` lists what can be read. DEST is a new or empty directory, a path or URL. The result is the same, byte for
    byte, for any number of workers. Killed half-way, the same command goes on after the last finished shard.

    \b
        datafeed convert photos/ /data/photos --resize 256
        datafeed convert 's3://raw/train-{000..146}.tar' s3://bucket/train --workers 8
        datafeed convert rows.csv.gz /data/rows --type zip=utf8 --on-error quarantine
        datafeed convert corpus/ /data/tokens --tokenizer tokenizer.json --seq-len 2048
        datafeed convert photos/ /data/photos --split val=0.1 --dry-run
        datafeed convert 'scans/*.dcm' /data/scans --fn mymodule:read_scan
    """
    from datafeed.commands.meter import shown_progress
    from datafeed.converters.callables import load_function
    from datafeed.converters.convert import convert, plans

    options = options_of(given)
    function = None if fn is None else load_function(fn)
    raw = source[0] if len(source) == 1 else source
    if dry_run:
        show_plans(plans(raw, dest, options, fn=function), dest, as_json=as_json)
        return
    with shown_progress() as on_progress:
        report = convert(raw, dest, options, fn=function, on_progress=on_progress)
    show_report(report, as_json=as_json)
