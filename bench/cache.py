"""Measure storage and cache: what is fetched, how fast, and what a large dataset takes, with goals beside."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from datafeed.bench.cold import measure_cold, measure_link, measure_peers
from datafeed.bench.fetched import measure_fetched
from datafeed.bench.figures import Figure, Setting
from datafeed.bench.gets import measure_gets
from datafeed.bench.hedging import measure_hedging
from datafeed.bench.machine import describe_machine
from datafeed.bench.sharing import measure_sharing
from datafeed.bench.terabyte import measure_terabyte
from datafeed.bench.warm import measure_warm

PARTS: dict[str, Callable[[Setting], Iterator[Figure]]] = {
    "fetched": measure_fetched,
    "sharing": measure_sharing,
    "cold": measure_cold,
    "link": measure_link,
    "peers": measure_peers,
    "warm-images": partial(measure_warm, "images"),
    "warm-tokens": partial(measure_warm, "tokens"),
    "warm-tabular": partial(measure_warm, "tabular"),
    "hedging": measure_hedging,
    "gets": measure_gets,
    "terabyte": measure_terabyte,
}
_DATA = Path(tempfile.gettempdir()) / "datafeed-bench"
_FILE_WIDTH = 140  # where no terminal says how wide it is


def run_part(name: str, setting: Setting) -> dict[str, object]:
    """Measure one part.

    Args:
        name: One of `PARTS`.
        setting: Where the data are, and how much to do.

    Returns:
        JSON: when, on what machine, and the figures.
    """
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    figures = list(PARTS[name](setting))
    return {
        "begun": begun,
        "machine": describe_machine(),
        "rounds": setting.rounds,
        "figures": [{**asdict(figure), "holds": figure.holds} for figure in figures],
    }


def print_part(name: str, part: dict[str, object], console: Console) -> None:
    """Print the figures of a part as a table."""
    table = Table(title=name)
    for heading in ("what", "figure", "goal", "holds"):
        table.add_column(heading, justify="right" if heading == "figure" else "left")
    figures = part["figures"]
    assert isinstance(figures, list)
    for figure in figures:
        goal = f"{figure['judge']} {figure['goal']:,g}" if figure["judge"] else ""
        holds = {True: "yes", False: "no", None: ""}[figure["holds"]]
        table.add_row(figure["name"], f"{figure['value']:,.3f} {figure['unit']}", goal, holds)
    console.print(table)


@click.command("cache")
@click.option("--data", type=click.Path(path_type=Path), default=_DATA, show_default="a temporary folder")
@click.option("--out", type=click.Path(path_type=Path), help="Write every figure here, as JSON; other parts stay.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Of each rate.")
@click.option("--only", multiple=True, type=click.Choice(list(PARTS)), help="Only this part; may be repeated.")
@click.option("--toy", is_flag=True, help="Tiny data, to see that all of it runs.")
def main(*, data: Path, out: Path | None, rounds: int, only: Sequence[str], toy: bool) -> None:
    """Measure storage and cache, against servers on loopback in processes of their own.

    The data (4 GB) are made once and kept in --data.
    """
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    setting = Setting(data / "toy" if toy else data, rounds, toy)
    setting.data.mkdir(parents=True, exist_ok=True)
    for name in only or PARTS:
        click.echo(name, err=True)
        part = run_part(name, setting)
        print_part(name, part, console)
        if out is not None:
            kept = json.loads(out.read_bytes()) if out.exists() else {}
            out.write_text(json.dumps({**kept, name: part}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
