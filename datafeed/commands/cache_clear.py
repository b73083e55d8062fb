"""Delete what a cache holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import confirm, json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.commands.tiers import Place, places_of, tier_options
from datafeed.errors import ConfigError
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.cache.inspect import Cleared

_ID_DIGITS = 32


@click.command("clear")
@tier_options
@click.option("--dataset", metavar="ID|URL", help="Only the entries of this dataset.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@storage_option
@json_option
def command(
    *, dataset: str | None, yes: bool, storage: tuple[tuple[str, str], ...], as_json: bool, **tiers: str | None
) -> None:
    """Delete the entries of a cache that nobody reads now.

    Nothing is lost: a run fetches them again. The datasets of running jobs are left alone, and so is every file that is
    no entry.

    \b
        datafeed cache clear --nvme /mnt/nvme --dataset s3://bucket/photos
        datafeed cache clear --cache cache.toml --yes
    """
    places = places_of(tiers)
    wanted = [(place, _wanted(place, dataset, storage)) for place in places]
    if dataset is not None and not any(ids for _, ids in wanted):
        raise ConfigError(f"the cache holds nothing of {dataset!r}: `datafeed cache status` lists what it holds")
    if not yes:
        _ask(wanted)
    found = []
    with Ticker("clear") as ticker:
        for place, ids in wanted:
            found.append((place, _clear(place, ids, ticker)))
    click.echo(json.dumps([_facts(place, cleared) for place, cleared in found], indent=2) if as_json else _text(found))


def _wanted(place: Place, dataset: str | None, storage: tuple[tuple[str, str], ...]) -> list[str] | None:
    """Return the ids of the datasets that are meant; None for all."""
    from datafeed.cache.inspect import named, opened
    from datafeed.manifest import read_manifest
    from datafeed.storage import open_store

    with opened(place.path) as directory:
        if dataset is None:
            return None
        if len(dataset) == _ID_DIGITS and "/" not in dataset:
            return named(directory, dataset)
        store = open_store(dataset, storage_options(storage))
        return named(directory, store.url) or named(directory, read_manifest(store).content_id)


def _ask(wanted: list[tuple[Place, list[str] | None]]) -> None:
    from datafeed.cache.inspect import held_by, opened

    entries = nbytes = 0
    for place, ids in wanted:
        with opened(place.path) as directory:
            meant = [held for held in held_by(directory) if not held.readers and (ids is None or held.dataset in ids)]
        entries += sum(held.entries for held in meant)
        nbytes += sum(held.nbytes for held in meant)
    if not entries:
        return
    where = " and ".join(safe(place.path) for place, _ in wanted)
    question = f"Delete {counted(entries, 'entry')}, {format_size(nbytes)}, of the cache {where}?"
    confirm(question, "nothing was deleted")


def _clear(place: Place, ids: list[str] | None, ticker: Ticker) -> Cleared:
    from datafeed.cache.inspect import clear, opened

    with opened(place.path) as directory:
        return clear(directory, ids, ticker.add)


def _facts(place: Place, cleared: Cleared) -> dict[str, object]:
    return {
        "tier": place.tier,
        "path": place.path,
        "deleted": cleared.entries,
        "deleted_bytes": cleared.nbytes,
        "kept": cleared.kept,
        "kept_bytes": cleared.kept_nbytes,
        "readers": [{"dataset_id": r.dataset, "pid": r.pid, "host": r.host} for r in cleared.readers],
    }


def _text(found: list[tuple[Place, Cleared]]) -> str:
    lines = []
    for place, cleared in found:
        line = f"cleared {place.tier} {safe(place.path)}: {counted(cleared.entries, 'entry')}, "
        line += f"{format_size(cleared.nbytes)} freed"
        if cleared.kept:
            readers = ", ".join(f"pid {reader.pid}" for reader in cleared.readers) or "somebody"
            kept = f"{counted(cleared.kept, 'entry')}, {format_size(cleared.kept_nbytes)}"
            line += f"; {kept}, are in use by {readers} and were left"
        lines.append(line)
    return "\n".join(lines)
