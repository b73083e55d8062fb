"""Show what the library warns of, beside the result of a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from datafeed.commands.terminal import safe


class _Notes(logging.Handler):
    """Keep messages."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def noted() -> Iterator[None]:
    """Show the warnings of the library at the end, a line each; after an error that alone is shown."""
    logger, notes = logging.getLogger("datafeed"), _Notes()
    logger.addHandler(notes)
    try:
        yield
    finally:
        logger.removeHandler(notes)
    for message in notes.messages:
        click.echo(f"note: {safe(message)}", err=True)
