"""Look after the disk tiers of a cache."""

from __future__ import annotations

import click

from datafeed.commands import cache_clear, cache_stage, cache_status, cache_verify


@click.group("cache")
def command() -> None:
    """Fill, look at, check and clear the disk tiers of a cache.

    Each command takes a tier's directory, or a TOML file with several tiers. Any of them may run beside a training run.

    \b
        datafeed cache stage s3://bucket/photos --nvme /mnt/nvme --nvme-budget 200GB
        datafeed cache status --nvme /mnt/nvme
        datafeed cache verify --cache cache.toml --delete
        datafeed cache clear --nvme /mnt/nvme --dataset s3://bucket/photos
    """


for part in (cache_stage, cache_status, cache_verify, cache_clear):
    command.add_command(part.command)
