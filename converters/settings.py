"""Hold the options of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from datafeed.converters.options import SourceOptions
from datafeed.converters.source import OnError
from datafeed.errors import ConfigError
from datafeed.sizes import parse_size

LEVELS = range(-100, 23)  # libzstd takes -131072 to 22; below -100 nothing is compressed any more


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Choose how raw data becomes shards.

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
        limit: How many records to convert, from the first on; None for all.
        shuffle: Whether sources that are read file by file are shuffled.
        seed: The seed of that shuffle.
        int64_lists: Whether integer arrays become int64 lists, TensorFlow's form, rather than raw bytes.
        types: The dtype of columns of text formats by name, in place of the one inferred.
        storage_options: Passed to the destination's fsspec file system.

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
    shuffle: bool = True
    seed: int = 0
    int64_lists: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)  # it may hold a secret

    def __post_init__(self) -> None:
        parse_size(self.shard_size, name="shard_size")
        parse_size(self.extent_size, name="extent_size")
        if self.block_nbytes >= 2**31:
            raise ConfigError(f"block_size must be under 2 GiB, found {self.block_size!r}")
        if self.level is not None and self.level not in LEVELS:
            raise ConfigError(f"level must be {LEVELS[0]} to {LEVELS[-1]}, found {self.level!r}")
        if self.on_error not in get_args(OnError):
            raise ConfigError(f"on_error must be one of {', '.join(get_args(OnError))}, found {self.on_error!r}")
        for name in ("workers", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, found {value!r}")
        self.source_options()

    def source_options(self) -> SourceOptions:
        """Return what the source is told."""
        return SourceOptions(self.types, self.shuffle, self.seed, self.int64_lists)

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
