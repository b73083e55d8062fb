"""Show the progress of a conversion on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.converters.progress import Progress

PLAIN_S = 5.0  # a log of a conversion of an hour stays under a thousand lines


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Offer what a conversion calls with its progress: a bar on a terminal, a line every few seconds elsewhere."""
    if not sys.stderr.isatty():
        yield PlainLines()
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


class PlainLines:
    """Write a line every few seconds."""

    def __init__(self) -> None:
        self._next = PLAIN_S

    def __call__(self, progress: Progress) -> None:
        """Write the line, if it is time."""
        if progress.seconds >= self._next:
            self._next = progress.seconds + PLAIN_S
            click.echo(f"convert: {progress_text(progress)}", err=True)


def progress_text(progress: Progress) -> str:
    """Return the counts and rates on one line."""
    return (
        f"{counted(progress.records, 'record')} in {counted(progress.shards, 'shard')}, "
        f"{progress.records_per_s:,.0f} records/s, "
        f"{format_size(progress.raw_bytes_per_s)}/s, ratio {progress.ratio:.2f}, {_left(progress.eta_s)}"
    )


def _left(eta_s: float | None) -> str:
    if eta_s is None:
        return "time left unknown"
    minutes, seconds = divmod(round(eta_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left"
