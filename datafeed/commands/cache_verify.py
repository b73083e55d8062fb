"""Check every entry of a cache."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.commands.tiers import Place, places_of, tier_options
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.cache.inspect import Checked, Wrong

_DAMAGED = 5


@click.command("verify")
@tier_options
@click.option("--delete", is_flag=True, help="Delete the entries that are wrong.")
@json_option
def command(*, delete: bool, as_json: bool, **tiers: str | None) -> None:
    """Read every entry of a cache, and compare its header and checksums.

    What is wrong is a line each, and exit code 5, also where --delete removed it. A run does the same with each entry
    that it reads, and fetches it again; this finds a disk that goes bad before. A link or a folder in an entry's place
    is told and left alone, as runs leave it.

    \b
        datafeed cache verify --nvme /mnt/nvme
        datafeed cache verify --cache cache.toml --delete
    """
    from datafeed.cache.inspect import check, opened

    found: list[tuple[Place, Checked]] = []
    with Ticker("verify") as ticker:
        for place in places_of(tiers):
            with opened(place.path) as directory:
                found.append((place, check(directory, ticker.add, delete=delete)))
    click.echo(json.dumps(_facts(found), indent=2) if as_json else _text(found, delete=delete))
    if any(checked.wrong for _, checked in found):
        sys.exit(_DAMAGED)


def _facts(found: list[tuple[Place, Checked]]) -> dict[str, object]:
    return {
        "ok": not any(checked.wrong for _, checked in found),
        "problems": [
            {
                "tier": place.tier,
                "path": place.path,
                "dataset_id": wrong.dataset,
                "extent": int(wrong.name),
                "text": wrong.reason,
                "deleted": wrong.deleted,
            }
            for place, checked in found
            for wrong in checked.wrong
        ],
        "entries": sum(checked.entries for _, checked in found),
        "read_bytes": sum(checked.nbytes for _, checked in found),
    }


def _text(found: list[tuple[Place, Checked]], *, delete: bool) -> str:
    lines = [
        safe(f"{place.tier} {place.path}, dataset {wrong.dataset}, extent {int(wrong.name)}: {wrong.reason}")
        + _fate(wrong, delete=delete)
        for place, checked in found
        for wrong in checked.wrong
    ]
    entries = counted(sum(checked.entries for _, checked in found), "entry")
    read = f"{entries}, {format_size(sum(checked.nbytes for _, checked in found))}"
    advice = "" if delete or not lines else "; runs fetch them again, --delete removes them"
    return "\n".join([*lines, f"{len(lines):,} wrong: {read}{advice}" if lines else f"whole: {read}"])


def _fate(wrong: Wrong, *, delete: bool) -> str:
    if not delete:
        return ""
    return ": deleted" if wrong.deleted else ": left alone"
