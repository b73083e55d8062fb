"""Show the progress of a conversion on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from datafeed.commands.ticker import Ticker
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.converters.progress import Progress


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Offer what a conversion calls with its progress: a bar on a terminal, a line every few seconds elsewhere."""
    if not sys.stderr.isatty():
        with Ticker("convert") as ticker:
            yield lambda progress: _tell(ticker, progress)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("convert"), BarColumn(), TextColumn("{task.fields[text]}")
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("convert", total=None, text="")

        def show(progress: Progress) -> None:
            total = None if progress.eta_s is None else progress.seconds + progress.eta_s
            bar.update(task, completed=progress.seconds, total=total, text=progress_text(progress))

        yield show


def _tell(ticker: Ticker, progress: Progress) -> None:
    if progress.phase == "plan":
        ticker.stay(progress_text(progress))
    else:
        ticker.line(progress_text(progress), time.monotonic())


def progress_text(progress: Progress) -> str:
    """Return the counts and rates on one line."""
    if progress.phase == "plan":
        return "reading the source, to plan"
    done = f"{counted(progress.records, 'record')} in {counted(progress.shards, 'shard')}"
    rate = f"{progress.records_per_s:,.0f} records/s, {format_size(progress.raw_bytes_per_s)}/s"
    left = "committing" if progress.phase == "commit" else time_left(progress.eta_s)
    return f"{done}, {rate}, ratio {progress.ratio:.2f}, {left}"


def time_left(eta_s: float | None) -> str:
    """Return how long something will take, in words."""
    if eta_s is None:
        return "time left unknown"
    minutes, seconds = divmod(round(eta_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left"
