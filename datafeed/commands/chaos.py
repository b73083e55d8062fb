"""Do to a cache what bad disks do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from datafeed.commands.options import confirm, json_option
from datafeed.commands.terminal import safe
from datafeed.errors import ConfigError
from datafeed.sizes import format_size, parse_size

if TYPE_CHECKING:
    from datafeed.cache.chaos import Hurt
    from datafeed.cache.directory import Directory

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_MISS = "a run that reads them fetches each again, and counts it in `damaged` of that tier in `stats()`"
_OUT = "; at the third within an hour it leaves the tier out, with one warning"


@click.group("chaos")
def command() -> None:
    """Do to a cache what bad disks do, to try what a run makes of it.

    DIR is the directory of a disk tier that a run or `datafeed cache stage` has used; any other folder is refused. Each
    command says what the next run should show. Samples stay right in every case, and no file but the cache's own is
    touched.

    \b
        datafeed chaos corrupt /mnt/nvme --entries 2
        datafeed chaos slow /mnt/nvme --delay 6
        datafeed chaos full /mnt/nvme --leave 1GB --yes
    """


def _entries_options(command: _Decorated) -> _Decorated:
    """Add which entries are meant."""
    entries = click.option(
        "--entries", type=click.IntRange(min=1), default=1, show_default=True, help="Of how many entries."
    )
    seed = click.option("--seed", type=int, default=0, show_default=True, help="Chooses the entries, and the place.")
    return entries(seed(command))


@command.command("corrupt")
@click.argument("folder", metavar="DIR")
@_entries_options
@json_option
def corrupt_command(*, folder: str, entries: int, seed: int, as_json: bool) -> None:
    """Flip a byte of random entries of the cache in DIR.

    \b
        datafeed chaos corrupt /mnt/nvme
        datafeed chaos corrupt /mnt/nvme --entries 3 --seed 7
    """
    from datafeed.cache.chaos import corrupt

    _hurt(folder, lambda directory: corrupt(directory, entries, seed), as_json=as_json)


@command.command("truncate")
@click.argument("folder", metavar="DIR")
@_entries_options
@json_option
def truncate_command(*, folder: str, entries: int, seed: int, as_json: bool) -> None:
    """Cut random entries of the cache in DIR short.

    \b
        datafeed chaos truncate /mnt/nvme
        datafeed chaos truncate /mnt/nvme --entries 3 --seed 7
    """
    from datafeed.cache.chaos import truncate

    _hurt(folder, lambda directory: truncate(directory, entries, seed), as_json=as_json)


def _hurt(folder: str, act: Callable[[Directory], list[Hurt]], *, as_json: bool) -> None:
    from datafeed.cache.inspect import opened

    with opened(folder) as directory:
        hurt = act(directory)
    expected = _MISS + (_OUT if len(hurt) > 2 else "")
    if as_json:
        entries = [{"dataset_id": one.dataset, "extent": int(one.name), "text": one.text} for one in hurt]
        click.echo(json.dumps({"entries": entries, "expected": expected}, indent=2))
        return
    lines = [f"dataset {one.dataset}, extent {int(one.name)}: {one.text}" for one in hurt]
    click.echo("\n".join([*lines, f"next: {expected}"]))


@command.command("slow")
@click.argument("folder", metavar="DIR")
@click.option("--delay", type=click.FloatRange(0, 3600, min_open=True), help="Seconds a look-up takes more.")
@click.option("--undo", is_flag=True, help="End it.")
@json_option
def slow_command(*, folder: str, delay: float | None, undo: bool, as_json: bool) -> None:
    """Make each look-up in the cache in DIR slow, for runs that begin from now on.

    \b
        datafeed chaos slow /mnt/nvme --delay 0.05
        datafeed chaos slow /mnt/nvme --undo
    """
    from datafeed.cache.chaos import slow
    from datafeed.cache.directory import SLOW_S
    from datafeed.cache.inspect import opened

    if undo == (delay is not None):
        raise ConfigError("give one of --delay and --undo")
    with opened(folder) as directory:
        slow(directory, delay or 0.0)
        path = safe(directory.folder.path)
    if delay is None:
        done, expected = f"look-ups in {path} are as fast as its disk", "runs that begin from now on read from it"
    else:
        done = f"each look-up in {path} takes {delay:g} s more"
        expected = (
            "a run leaves the tier alone for a minute after each, with one warning, and reads from what is behind it"
            if delay > SLOW_S
            else "a run warns of it, and waits for its extents where they come from this tier"
        )
    _say(done, expected, as_json=as_json)


@command.command("full")
@click.argument("folder", metavar="DIR")
@click.option("--leave", metavar="SIZE", help="How much of the volume stays free, as in 1GB.")
@click.option("--undo", is_flag=True, help="Give the room back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def full_command(*, folder: str, leave: str | None, undo: bool, yes: bool, as_json: bool) -> None:
    """Fill the volume that the cache in DIR is on, by a file in the cache's own directory.

    Whatever else writes to that volume has no more room, either.

    \b
        datafeed chaos full /mnt/nvme --leave 1GB
        datafeed chaos full /mnt/nvme --undo
    """
    from datafeed.cache.chaos import unfill
    from datafeed.cache.inspect import opened_folder

    if undo == (leave is not None):
        raise ConfigError("give one of --leave and --undo")
    if leave is None:
        with opened_folder(folder) as own:
            given = unfill(own)
            gave = f"gave back {format_size(given)}" if given else "there was nothing to give back"
            done, expected = f"{gave} of the volume of {safe(own.path)}", "a run keeps what comes again"
    else:
        done, expected = _fill(folder, parse_size(leave, name="--leave"), yes=yes)
    _say(done, expected, as_json=as_json)


def _fill(folder: str, leave: int, *, yes: bool) -> tuple[str, str]:
    """Fill the volume; return what was done, and what the next run should show."""
    from datafeed.cache.chaos import fill
    from datafeed.cache.inspect import opened

    with opened(folder) as directory:
        path = safe(directory.folder.path)
        if not yes:
            taking = format_size(max(0, directory.free() - leave))
            confirm(f"Take {taking} of the volume of {path}?", "nothing was done")
        taken = fill(directory, leave)
        done = f"took {format_size(taken)} of the volume of {path}, {format_size(directory.free())} are free"
        return done, _when_full(directory.free(), directory.floor())


def _when_full(free: int, floor: int) -> str:
    if free >= floor:
        return f"a run keeps what comes until {format_size(floor)} are free, which are left to others"
    return (
        f"a run drops what nobody needs, since {format_size(floor)} are left to others, then keeps nothing more: what "
        "is there is read from there, the rest comes from the store in every epoch"
    )


def _say(done: str, expected: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"done": done, "expected": expected}, indent=2))
    else:
        click.echo(f"{done}\nnext: {expected}")
