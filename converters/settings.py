"""Hold the options of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import get_args

from datafeed.converters.options import SourceOptions
from datafeed.converters.source import OnError
from datafeed.converters.split import parse_split
from datafeed.errors import ConfigError
from datafeed.sizes import parse_size

LEVELS = range(-100, 23)  # libzstd takes -131072 to 22; below -100 nothing is compressed any more


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions(SourceOptions):
    """Choose how raw data becomes shards; how it is read is said as for `SourceOptions`.

    Args:
        kind: The kind of source; None to tell it by its look.
        shard_size: Stored bytes of a shard: each ends at the block boundary nearest to it.
        block_size: Raw bytes of a block: it takes records until one more would pass them, at least one.
        extent_size: Stored bytes at which an extent, the unit of shuffling and fetching, is closed.
        level: A zstd level; None to choose by a sample of the data.
        workers: How many processes encode; None for the cores of this process, or of the Ray cluster. With 1, or where
            there is little to do, it is this process.
        ray_address: A Ray cluster to run on; None for RAY_ADDRESS, a running cluster, or a local one of our own.
        on_error: What becomes of items that cannot become samples: "raise" stops at the first, "skip" counts them,
            "quarantine" also writes them aside, under `quarantine/` in the destination.
        limit: How many records to convert, from the first on, of each part of a split; None for all. Bad items among
            them, and in what is read along with them, are met all the same.
        shuffle_all: Whether every source is shuffled by `seed`, and not only folders of single files: exactly where
            rows can be read by number, else within windows of units from anywhere.
        rename: New names of features, by their old ones.
        key: The feature, by its new name, whose value names a sample.
        resize: Pixels of the shorter side to which larger images are brought; None to keep them.
        quality: The JPEG quality of images that are resized.
        split: "val=0.1,test=0.05", where what is left is "train"; "folder" for a dataset for each folder of the source;
            "column:NAME" for one for each value. Each becomes a dataset DEST/NAME.
        append: Whether the samples are added to the dataset that stands at the destination, whose schema, level and
            sizes of blocks and extents then hold.
        dest_options: Passed to the destination's fsspec file system in place of `storage_options`.

    Raises:
        ConfigError: A value is out of bounds.
    """

    kind: str | None = None
    shard_size: str | int = "100MB"
    block_size: str | int = "256KiB"
    extent_size: str | int = "2MiB"
    level: int | None = None
    workers: int | None = None
    ray_address: str | None = None
    on_error: OnError = "raise"
    limit: int | None = None
    shuffle_all: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    resize: int | None = None
    quality: int = 90
    split: str | None = None
    append: bool = False
    dest_options: Mapping[str, object] | None = field(default=None, repr=False)  # it may hold a secret

    def __post_init__(self) -> None:
        SourceOptions.__post_init__(self)
        parse_size(self.shard_size, name="shard_size")
        parse_size(self.extent_size, name="extent_size")
        if self.block_nbytes >= 2**31:
            raise ConfigError(f"block_size must be under 2 GiB, found {self.block_size!r}")
        if self.level is not None and self.level not in LEVELS:
            raise ConfigError(f"level must be {LEVELS[0]} to {LEVELS[-1]}, found {self.level!r}")
        if self.on_error not in get_args(OnError):
            raise ConfigError(f"on_error must be one of {', '.join(get_args(OnError))}, found {self.on_error!r}")
        for name in ("workers", "limit", "resize"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, found {value!r}")
        if not 1 <= self.quality <= 100:
            raise ConfigError(f"quality must be 1 to 100, found {self.quality!r}")
        if self.split is not None:
            parse_split(self.split)

    def source_options(self) -> SourceOptions:
        """Return what the source is told."""
        return SourceOptions(**{item.name: getattr(self, item.name) for item in fields(SourceOptions)})

    @property
    def shard_nbytes(self) -> int:
        """`shard_size` in bytes."""
        return parse_size(self.shard_size, name="shard_size")

    @property
    def block_nbytes(self) -> int:
        """`block_size` in bytes."""
        return parse_size(self.block_size, name="block_size")

    @property
    def extent_nbytes(self) -> int:
        """`extent_size` in bytes."""
        return parse_size(self.extent_size, name="extent_size")
