"""Fetch a dataset to a disk ahead of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from datafeed.commands.meter import time_left
from datafeed.commands.notes import noted
from datafeed.commands.options import json_option, storage_option, storage_options
from datafeed.commands.terminal import safe
from datafeed.commands.ticker import Ticker
from datafeed.commands.tiers import TIERS, cache_of, tier_options
from datafeed.errors import ConfigError, OutputError, OutputFull
from datafeed.sizes import counted, format_size

if TYPE_CHECKING:
    from datafeed.cache.disk import DiskTier
    from datafeed.cache.stage import Outcome, StageCounts, StagePlan
    from datafeed.reader import BlockReader


@dataclass(frozen=True, slots=True)
class _Part:
    """Say which part of a dataset is wanted: that of a rank, or all."""

    rank: int | None
    world: int | None
    seed: int | None
    lanes: int | None


@click.command("stage")
@click.argument("url")
@click.option("--to", "tier", type=click.Choice(TIERS), help="Which tier; needed where several are named.")
@tier_options
@click.option("--rank", type=click.IntRange(min=0), help="Only what this rank reads of a shuffled epoch.")
@click.option("--world", type=click.IntRange(min=1), help="How many ranks there are.")
@click.option("--seed", type=int, help="With --rank: that of the Loader.  [default: 0]")
@click.option(
    "--lanes", type=click.IntRange(min=1), help="With --rank: those of the Loader. Its own choice by default."
)
@click.option("--as-much-as-fits", is_flag=True, help="Stage a part, where there is no room for all.")
@click.option("--threads", type=click.IntRange(1, 256), default=16, show_default=True, help="Extents fetched at once.")
@storage_option
@json_option
def command(  # noqa: PLR0913  (options of the command line)
    *,
    url: str,
    tier: str | None,
    rank: int | None,
    world: int | None,
    seed: int | None,
    lanes: int | None,
    as_much_as_fits: bool,
    threads: int,
    storage: tuple[tuple[str, str], ...],
    as_json: bool,
    **tiers: str | None,
) -> None:
    """Fetch the dataset at URL to a disk tier, ahead of a run.

    A run whose cache has the tier then finds it there. What is there already is not fetched again, so that a command
    that was interrupted or killed goes on where it was: entries appear whole or not at all. What does not fit is
    refused before it begins. Datasets that nobody reads give way; what a run needs does not.

    With --rank and --world it is what that rank of a Loader with shuffle=True reads, in every epoch.

    \b
        datafeed cache stage s3://bucket/photos --nvme /mnt/nvme --nvme-budget 200GB
        datafeed cache stage s3://bucket/photos --cache cache.toml --to ebs --as-much-as-fits
        datafeed cache stage s3://bucket/photos --cache cache.toml --to nvme --rank 3 --world 8
    """
    from datafeed.cache.disk import DiskTier

    part = _Part(rank, world, seed, lanes)
    _check_part(part)
    disks = cache_of(tiers).disks()
    name = _name(tier, list(disks))
    blocks = _open(url, storage, name, disks[name].path)
    with noted():
        # What is staged never gives way to what is staged, whatever the policy of a run is.
        disk = DiskTier(name, replace(disks[name], policy="epoch"))
        try:
            _stage(blocks, disk, _Wish(part, as_much_as_fits, threads), as_json=as_json)
        finally:
            disk.close()


@dataclass(frozen=True, slots=True)
class _Wish:
    part: _Part
    as_much_as_fits: bool
    threads: int


def _check_part(part: _Part) -> None:
    if (part.rank is None) != (part.world is None):
        raise ConfigError("--rank and --world need each other: which rank, of how many")
    if part.rank is not None and part.world is not None and part.rank >= part.world:
        raise ConfigError(f"--rank {part.rank} is none of {counted(part.world, 'rank')}: they are counted from 0")
    if part.rank is None and (part.seed is not None or part.lanes is not None):
        raise ConfigError("--seed and --lanes have an effect with --rank alone")


def _name(tier: str | None, names: list[str]) -> str:
    if tier is None and len(names) == 1:
        return names[0]
    if tier is None:
        raise ConfigError(f"the cache has the tiers {' and '.join(names)}: choose one by --to")
    if tier not in names:
        raise ConfigError(f"the cache has no tier {tier!r}, it has {' and '.join(names)}")
    return tier


def _open(url: str, storage: tuple[tuple[str, str], ...], name: str, path: str) -> BlockReader:
    from datafeed.blockindex import read_index
    from datafeed.cache.tiers import reads_in_place
    from datafeed.manifest import read_manifest
    from datafeed.reader import BlockReader
    from datafeed.storage import open_store

    store = open_store(url, storage_options(storage))
    manifest = read_manifest(store)
    blocks = BlockReader(store, manifest, read_index(store, manifest))
    if reads_in_place(blocks, path):
        raise ConfigError(f"{store.url} is on the volume of the {name} cache {path}: runs read it where it is")
    return blocks


def _stage(blocks: BlockReader, disk: DiskTier, wish: _Wish, *, as_json: bool) -> None:
    from datafeed.cache.extents import Extents
    from datafeed.cache.stage import plan_stage, stage

    extents = Extents(blocks)
    numbers = _numbers(blocks, wish.part)
    try:
        plan = plan_stage(extents, disk, numbers)
    except OSError as exc:
        raise OutputError(f"the {disk.name} cache {disk.options.path} cannot be used: {exc.strerror or exc}") from exc
    if not plan.fits and not wish.as_much_as_fits:
        raise OutputFull(_too_much(blocks, disk, plan))
    part = plan.cut(extents)
    started = time.monotonic()
    with Ticker("stage") as ticker:
        counts = stage(blocks, disk, part.numbers, _shown(ticker, part), threads=wish.threads)
    if counts.no_room and (disk.fault or not wish.as_much_as_fits):
        raise _stopped(blocks, disk, counts, len(part.numbers))
    done = _Done(blocks, disk, plan, counts, len(numbers), time.monotonic() - started)
    click.echo(json.dumps(done.facts(), indent=2) if as_json else done.text())


def _numbers(blocks: BlockReader, part: _Part) -> list[int]:
    """Return the extents that are wanted."""
    if part.rank is None or part.world is None:
        return list(range(len(blocks.index.extents) - 1))
    import numpy as np

    from datafeed.order import Layout, Share, Spec, WindowOrder
    from datafeed.ranks import check_lanes, choose_lanes

    lanes = part.lanes or choose_lanes(part.world)
    check_lanes(lanes, part.world)
    layout = Layout(blocks.index.first, blocks.index.extents)
    counts = WindowOrder(Spec("window", part.seed or 0, lanes), layout, 0, Share(part.rank, part.world)).remaining(0)
    if not len(counts):
        return []
    found: list[int] = np.flatnonzero(np.add.reduceat(counts, blocks.index.extents[:-1])).tolist()
    return found


def _shown(ticker: Ticker, plan: StagePlan) -> Callable[[int, int, Outcome], None]:
    """Return what shows the progress of fetching what a plan names."""
    from datafeed.cache.entry import HEADER_NBYTES

    started, done = time.monotonic(), 0
    whole = plan.nbytes - len(plan.numbers) * HEADER_NBYTES

    def show(_number: int, nbytes: int, _outcome: Outcome) -> None:
        nonlocal done
        done += nbytes
        now = time.monotonic()
        ticker.line(progress_text(done, whole, now - started), now)

    return show


def progress_text(done: int, whole: int, seconds: float) -> str:
    """Return bytes, rate and time left on one line."""
    rate = done / max(seconds, 1e-9)
    return f"{format_size(done)} of {format_size(whole)}, {format_size(rate)}/s, {time_left((whole - done) / rate)}"


def _too_much(blocks: BlockReader, disk: DiskTier, plan: StagePlan) -> str:
    free, kept = disk.free()
    budget = f"budget {format_size(disk.options.budget)}, {format_size(disk.usage().nbytes)} of it held"
    volume = f"{format_size(free)} of the volume free, {format_size(kept)} of that left to others"
    return (
        f"no room for {blocks.store.url} in the {disk.name} cache {disk.options.path}: "
        f"{format_size(plan.nbytes)} are to be fetched, and {format_size(plan.room)} can be held ({budget}; {volume}): "
        "give it more, free some, or take --as-much-as-fits"
    )


def _stopped(blocks: BlockReader, disk: DiskTier, counts: StageCounts, wanted: int) -> OutputError:
    where = f"the {disk.name} cache {disk.options.path}"
    so_far = f"{counted(counts.fetched, 'extent')} of {wanted:,} of {blocks.store.url} were fetched"
    if disk.fault:
        return OutputError(f"{where} cannot be written: {disk.fault}; {so_far}, the same command goes on with the rest")
    return OutputFull(f"{where} has no room left, others took it: {so_far}; free some, or take --as-much-as-fits")


@dataclass(frozen=True, slots=True)
class _Done:
    """Say what was done."""

    blocks: BlockReader
    disk: DiskTier
    plan: StagePlan
    counts: StageCounts
    wanted: int
    seconds: float

    @property
    def there(self) -> int:
        return self.plan.there + self.counts.there

    @property
    def left_out(self) -> int:
        return self.wanted - self.there - self.counts.fetched

    def facts(self) -> dict[str, object]:
        return {
            "url": self.blocks.store.url,
            "dataset_id": self.blocks.manifest.content_id,
            "tier": self.disk.name,
            "path": self.disk.options.path,
            "extents": self.wanted,
            "fetched": self.counts.fetched,
            "fetched_bytes": self.counts.fetched_nbytes,
            "there_before": self.there,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }

    def text(self) -> str:
        url, where = safe(self.blocks.store.url), f"{self.disk.name} {safe(self.disk.options.path)}"
        fetched, nbytes = self.counts.fetched, self.counts.fetched_nbytes
        if self.there == self.wanted:
            return f"{url} was in {where} before, {counted(self.wanted, 'extent')}: nothing was fetched"
        rate = f", {format_size(nbytes)} in {self.seconds:.1f} s, {format_size(nbytes / self.seconds)}/s"
        there = f"; {self.there:,} were there before" if self.there else ""
        left = f"; {self.left_out:,} did not fit" if self.left_out else ""
        return f"staged {url} to {where}: {fetched:,} of {counted(self.wanted, 'extent')} fetched{rate}{there}{left}"
