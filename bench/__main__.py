"""Run the benchmarks from the command line."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from datafeed.bench.case import Case
from datafeed.bench.table import print_report
from datafeed.bench.throughput import run_throughput, write_report

_DATA = Path(tempfile.gettempdir()) / "datafeed-bench"
_FILE_WIDTH = 140  # where no terminal says how wide it is


@click.command("bench")
@click.option("--data", type=click.Path(path_type=Path), default=_DATA, show_default="a temporary folder")
@click.option("--out", type=click.Path(path_type=Path), help="Write every sample here, as JSON.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0), default=3.0, show_default=True, help="Of each rate, at least.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Of every contender.")
@click.option("--only", multiple=True, metavar="WORD", help="Only rows whose name holds the word; may be repeated.")
@click.option("--toy", is_flag=True, help="One round over tiny data, to see that all of it runs.")
def main(  # noqa: PLR0913  (the command line's options)
    *, data: Path, out: Path | None, rounds: int, seconds: float, workers: int, only: tuple[str, ...], toy: bool
) -> None:
    """Measure datafeed beside its limits and its peers.

    The data (2 GB) are made once and kept in --data.
    """
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    folder = data / "toy" if toy else data
    case = Case(str(folder), workers=workers, seconds=0 if toy else seconds, batch_size=16 if toy else 256, toy=toy)
    report = run_throughput(case, 1 if toy else rounds, only, lambda text: click.echo(text, err=True))
    print_report(report, console)
    if out is not None:
        write_report(report, out)


if __name__ == "__main__":
    sys.exit(main())
