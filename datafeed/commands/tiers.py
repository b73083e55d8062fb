"""Hold the options by which commands are told of a cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from datafeed.errors import ConfigError

if TYPE_CHECKING:
    from datafeed.cache.config import Cache

TIERS = ("nvme", "ebs")
Given = Mapping[str, str | None]
_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--cache",
        metavar="FILE",
        help="A TOML file with the tiers, as `datafeed.Cache.load` reads it. By default the one that the environment "
        "variable DATAFEED_CACHE names.",
    ),
    click.option("--nvme", metavar="DIR", help="A tier's directory, in place of a file."),
    click.option("--nvme-budget", metavar="SIZE", help="How much it may hold, as in 200GB or 80%."),
    click.option("--ebs", metavar="DIR", help="The same of a slower disk."),
    click.option("--ebs-budget", metavar="SIZE", help="How much that may hold."),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a tier is.

    Args:
        tier: What it is called.
        path: Its directory.
        budget: How many bytes it may hold; None where that was not said.
    """

    tier: str
    path: str
    budget: int | None


def tier_options(command: _Decorated) -> _Decorated:
    """Add `--cache`, and for each disk tier its directory and budget."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def cache_of(given: Given) -> Cache:
    """Return the cache that a person names.

    Raises:
        ConfigError: None is named, or not wholly.
    """
    from datafeed.cache.config import Cache

    if any(given[tier] is not None for tier in TIERS):
        _check(given)
        for tier in TIERS:
            if given[tier] is not None and given[f"{tier}_budget"] is None:
                raise ConfigError(f"--{tier} needs --{tier}-budget: how much it may hold, as in 200GB or 80%")
        disks = {tier: (given[tier], given[f"{tier}_budget"]) for tier in TIERS if given[tier] is not None}
        return Cache(**disks)  # type: ignore[arg-type]  # Cache checks each
    _check(given)
    found = Cache.load(given["cache"]) if given["cache"] else Cache.from_environment(os.environ)
    if found is None:
        raise ConfigError("no cache is named: give --cache FILE, --nvme DIR or --ebs DIR, or set DATAFEED_CACHE")
    if found.nvme is None and found.ebs is None:
        raise ConfigError("that cache has no tier on a disk: only such tiers outlive a process")
    return found


def places_of(given: Given) -> list[Place]:
    """Return where the disk tiers are that a person names, the fastest first; their budgets need not be given.

    Raises:
        ConfigError: None is named, or not as it should be.
    """
    from datafeed.cache.config import Cache

    if all(given[tier] is None for tier in TIERS):
        return [Place(tier, options.path, options.budget) for tier, options in cache_of(given).disks().items()]
    _check(given)
    found = []
    for tier in TIERS:
        path, size = given[tier], given[f"{tier}_budget"]
        if path is not None:
            options = Cache(**{tier: (path, size or "1B")}).disks()[tier]  # type: ignore[arg-type]  # as above
            found.append(Place(tier, options.path, None if size is None else options.budget))
    return found


def _check(given: Given) -> None:
    named = [tier for tier in TIERS if given[tier] is not None]
    if named and given["cache"] is not None:
        raise ConfigError(f"--cache and --{named[0]} exclude each other: the file names the tiers")
    for tier in TIERS:
        if given[f"{tier}_budget"] is not None and given[tier] is None:
            raise ConfigError(f"--{tier}-budget needs --{tier}: the directory that the budget is for")
