"""List what can be converted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option

if TYPE_CHECKING:
    from datafeed.converters.kinds import Kind


@click.command("sources")
@json_option
def command(*, as_json: bool) -> None:
    """List the kinds of raw data sets, how each is told, its own options, and the extra that it needs."""
    from datafeed.converters.kinds import KINDS

    if as_json:
        click.echo(json.dumps({name: _facts(kind) for name, kind in KINDS.items()}, indent=2))
        return
    width = max(map(len, KINDS))
    for name, kind in KINDS.items():
        told = ", ".join(_told(kind)) or f"--from {name}"
        click.echo(f"{name:{width}}  {kind.what}")
        click.echo(f"{'':{width}}  told by {told}")
        if kind.options:
            click.echo(f"{'':{width}}  options {', '.join(kind.options)}")
        if kind.extra:
            click.echo(f"{'':{width}}  needs datafeed-torch[{kind.extra}]")


def _told(kind: Kind) -> list[str]:
    return list(dict.fromkeys([*kind.suffixes, *(mark for mark, _ in kind.marks)]))


def _facts(kind: Kind) -> dict[str, object]:
    return {"what": kind.what, "told_by": _told(kind), "options": list(kind.options), "extra": kind.extra}
