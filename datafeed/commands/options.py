"""Hold the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import click

from datafeed.errors import ConfigError

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])


class Pair(click.ParamType[tuple[str, str]]):
    """Take "KEY=VALUE" as a pair.

    Args:
        form: What the help and the error call it.
    """

    def __init__(self, form: str) -> None:
        self.name = form

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first "="."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not key or not equals:  # what was typed may be a secret, and a CI log keeps it
            self.fail(f"expected {self.name}, found {'no name before' if equals else 'no'} '='", param, ctx)
        return key, rest


def storage_option(command: _Decorated) -> _Decorated:
    """Add `--storage-option`."""
    return click.option(
        "--storage-option",
        "storage",
        multiple=True,
        type=Pair("KEY=VALUE"),
        help="Passed to the fsspec file system of the URL; repeatable.",
    )(command)


def json_option(command: _Decorated) -> _Decorated:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def storage_options(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, object] | None:
    """Return the pairs as fsspec takes them; "true", "false" and integers become what they name."""
    return {key: _typed(value) for key, value in pairs} or None


def confirm(question: str, otherwise: str) -> None:
    """Ask, and go on at a yes alone.

    Args:
        question: What is asked.
        otherwise: What the error says that a no, or nobody there to answer, ends in.

    Raises:
        ConfigError: There was no yes.
    """
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        answer = False
        click.echo(err=True)  # the question left the line open
    if not answer:
        raise ConfigError(f"{otherwise}: answer y, or give --yes")


def _typed(value: str) -> object:
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return int(value) if value.isdecimal() else value
