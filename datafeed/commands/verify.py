"""Check every byte of a dataset."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.verify import VerifyReport

_DAMAGED = 5


@click.command("verify")
@click.argument("url")
@storage_option
@json_option
def command(*, url: str, storage: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Check every byte of the dataset at URL.

    All checksums, counts and the index are compared, and every record is parsed to the schema. Each problem is one line
    with its place. Exit code 5 if there is any.

    \b
        datafeed verify /data/photos
        datafeed verify /data/photos --json | jq .problems
    """
    from datafeed.storage import open_store
    from datafeed.verify import verify

    store = open_store(url, storage_options(storage))
    with Ticker("verify") as ticker:
        report = verify(store, on_progress=ticker.add)
    click.echo(json.dumps(_facts(report), indent=2) if as_json else _text(report))
    if not report.ok:
        sys.exit(_DAMAGED)


def _facts(report: VerifyReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "problems": [{"kind": type(problem).__name__, "text": str(problem)} for problem in report.problems],
        "shards": report.shards,
        "blocks": report.blocks,
        "records": report.records,
        "stored_bytes": report.nbytes,
    }


def _text(report: VerifyReport) -> str:
    read = (
        f"{counted(report.records, 'record')} in {counted(report.blocks, 'block')} of "
        f"{counted(report.shards, 'shard')}, {format_size(report.nbytes)}"
    )
    problems = [safe(f"{type(problem).__name__}: {problem}") for problem in report.problems]
    return "\n".join([*problems, f"{counted(len(problems), 'problem')}: {read}" if problems else f"whole: {read}"])
