"""Say what the disk tiers of a cache hold."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from datafeed.commands.options import json_option
from datafeed.commands.terminal import safe, table
from datafeed.commands.tiers import Place, places_of, tier_options
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.cache.inspect import Held

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


@dataclass(frozen=True, slots=True)
class _Status:
    """Hold what is known of a tier."""

    place: Place
    path: str
    kind: str
    free: int
    left: int
    volume: int
    chaos: tuple[str, ...]
    held: tuple[Held, ...]

    @property
    def nbytes(self) -> int:
        return sum(held.nbytes for held in self.held)


@click.command("status")
@tier_options
@json_option
def command(*, as_json: bool, **tiers: str | None) -> None:
    """Say what the disk tiers of a cache hold, by dataset.

    Entries, bytes, how much of the dataset that is, who reads it now, and when it was used last (to a day). What a
    single run hits and misses is in the `stats()` of its Loader.

    \b
        datafeed cache status --nvme /mnt/nvme --nvme-budget 200GB
        datafeed cache status --cache cache.toml --json | jq '.[].datasets'
    """
    found = [_look(place) for place in places_of(tiers)]
    click.echo(
        json.dumps([_facts(status) for status in found], indent=2) if as_json else "\n\n".join(map(_text, found))
    )


def _look(place: Place) -> _Status:
    from datafeed.cache.chaos import traces
    from datafeed.cache.folder import volume_kind
    from datafeed.cache.inspect import held_by, opened

    with opened(place.path) as directory:
        volume = os.statvfs(directory.folder.path)
        return _Status(
            place,
            directory.folder.path,
            volume_kind(directory.folder.path),
            directory.free(),
            directory.floor(),
            volume.f_blocks * volume.f_frsize,
            tuple(traces(directory.folder.path)),
            tuple(held_by(directory)),
        )


def _facts(status: _Status) -> dict[str, object]:
    return {
        "tier": status.place.tier,
        "path": status.path,
        "budget_bytes": status.place.budget,
        "held_bytes": status.nbytes,
        "file_system": status.kind,
        "volume_bytes": status.volume,
        "free_bytes": status.free,
        "left_to_others_bytes": status.left,
        "chaos": list(status.chaos),
        "datasets": [_dataset_facts(held) for held in status.held],
    }


def _dataset_facts(held: Held) -> dict[str, object]:
    return {
        "dataset_id": held.dataset,
        "url": held.url,
        "entries": held.entries,
        "held_bytes": held.nbytes,
        "share": held.share,
        "last_used_s": held.used_s,
        "readers": [{"pid": reader.pid, "host": reader.host} for reader in held.readers],
    }


def _text(status: _Status) -> str:
    budget = status.place.budget
    of = "" if budget is None else f" of a budget of {format_size(budget)} ({100 * status.nbytes / budget:.0f} %)"
    entries = sum(held.entries for held in status.held)
    volume = f"{status.kind or 'unknown'}, {format_size(status.free)} of {format_size(status.volume)} free"
    rows = [
        (status.place.tier, safe(status.path)),
        ("held", f"{format_size(status.nbytes)}{of} in {counted(entries, 'entry')}"),
        ("volume", f"{volume}; {format_size(status.left)} are left to others"),
        *(("chaos", safe(trace)) for trace in status.chaos),
    ]
    if not status.held:
        return table(rows)
    return f"{table(rows)}\n\n{table([_HEAD, *map(_row, status.held)])}"


_HEAD = ("dataset", "entries", "size", "share", "last used", "read by", "url")


def _row(held: Held) -> tuple[str, ...]:
    share = "unknown" if held.share is None else f"{100 * held.share:.0f} %"
    readers = ", ".join(f"pid {reader.pid}" for reader in held.readers) or "nobody"
    used = "now" if held.readers else _ago(time.time() - held.used_s)
    url = "unknown" if held.url is None else safe(held.url)
    return held.dataset, f"{held.entries:,}", format_size(held.nbytes), share, used, readers, url


def _ago(seconds: float) -> str:
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"
