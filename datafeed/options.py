"""Say how a converted dataset is fed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from datafeed.errors import ConfigError
from datafeed.making import Recipe
from datafeed.order import Mode
from datafeed.ranks import RankOptions
from datafeed.sizes import whole_number

MASK = "_mask"  # the name in a batch; no feature of a dataset starts so by habit

# The names are the Loader's.
_LEAST: dict[str, int | None] = {
    "batch_size": 1, "global_batch_size": 1, "seed": None, "lanes": 1, "num_workers": 0, "prefetch_factor": 2,
}  # fmt: skip
_MAY_BE_NONE = ("global_batch_size", "lanes")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Say how a dataset is fed.

    Args:
        batch_size: Samples a batch of one rank, at least 1.
        mode: The order.
        seed: Chooses the order and each sample's random generator.
        lanes: Streams that the shuffled order is drawn from, at least 1; None to choose by the number of ranks.
        window: Raw bytes shuffled with each other, over all lanes.
        drop_last: Whether a short last batch is dropped.
        num_workers: Threads; 0 for the caller's own.
        prefetch_factor: Batches made ahead, at least 2; small ones are made several at a time, so that it may be more.
        timeout_s: How long a batch may take; 0 for as long as anything moves.
        recipe: What a batch is made of.
        device: Where batches are moved; None leaves them in host memory.
        pin: Whether tensors come in pinned memory.
        ranks: What the caller knows about the ranks.
        global_batch_size: Samples a batch over all ranks, in place of `batch_size`; None for that.
        pad: Whether short ranks repeat a sample.
        mask: Whether a batch tells which samples are no repeats; None where ranks may repeat some.
        on_sigterm: Where SIGTERM saves the state; None for nowhere.

    Raises:
        ConfigError: A value is out of range.
    """

    batch_size: int
    mode: Mode
    seed: int
    lanes: int | None
    window: int
    drop_last: bool
    num_workers: int
    prefetch_factor: int
    timeout_s: float = 0.0
    recipe: Recipe = field(default_factory=Recipe)
    device: torch.device | None = None
    pin: bool = False
    ranks: RankOptions = field(default_factory=RankOptions)
    global_batch_size: int | None = None
    pad: bool = True
    mask: bool | None = None
    on_sigterm: Path | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None or name not in _MAY_BE_NONE:
                object.__setattr__(self, name, whole_number(name, value, least))
        if not self.timeout_s >= 0:
            raise ConfigError(f"timeout must be at least 0 seconds, found {self.timeout_s!r}")
        if self.global_batch_size is not None and self.batch_size != 1:
            raise ConfigError(
                f"batch_size={self.batch_size} and global_batch_size={self.global_batch_size} were given: the first is "
                "of one rank, the second of all together; give one of them"
            )

    def size_for(self, ranks: int) -> int:
        """Return how many samples a batch of one rank has.

        Raises:
            ConfigError: `global_batch_size` cannot be shared out among the ranks.
        """
        whole = self.global_batch_size
        if whole is None:
            return self.batch_size
        if whole % ranks:
            below = whole // ranks * ranks
            fit = f"{below} or {below + ranks}" if below else f"{ranks}"
            raise ConfigError(f"global_batch_size={whole} cannot be shared out among {ranks} ranks: use {fit}")
        return whole // ranks

    @property
    def most_in_a_batch(self) -> int:
        """How many samples a batch of one rank has at the most, on any number of ranks."""
        return self.global_batch_size or self.batch_size

    def masked(self, ranks: int) -> bool:
        """Tell whether batches say which samples are no repeats."""
        return ranks > 1 and self.pad and not self.drop_last if self.mask is None else self.mask

    @property
    def ahead(self) -> int:
        """How many batches are made ahead of the caller, where they are made one by one."""
        return self.prefetch_factor + self.num_workers if self.num_workers else 1
