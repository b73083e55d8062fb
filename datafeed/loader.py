"""Take the place of torch's DataLoader."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Literal

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from datafeed.cache.config import Cache
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError
from datafeed.feed import Feed
from datafeed.images import ImageOptions
from datafeed.making import Batch, Recipe, Transform
from datafeed.mix import Mix
from datafeed.mixed import MixedDataset
from datafeed.options import FeedOptions
from datafeed.order import Mode
from datafeed.over_torch import OverTorch
from datafeed.ranks import RankOptions, Replicas
from datafeed.sizes import counted, parse_size
from datafeed.stats import LoaderStats

Shuffle = bool | Literal["window", "full"] | None

_MODES: dict[object, Mode] = {None: "natural", False: "natural", True: "window", "window": "window", "full": "full"}
_CORE_SHARE = 0.7  # the rest is the training loop's

# What torch offers and a converted dataset cannot honour, with what does the same here.
_REFUSED = {
    "sampler": "shuffle=True, 'window' or 'full' choose the order",
    "batch_sampler": "batch_size= and shuffle= choose the batches",
    "collate_fn": "batches are gathered whole; transform=(sample, rng) changes samples",
    "worker_init_fn": "workers are threads without state of their own; transform=(sample, rng) gets its generator",
    "multiprocessing_context": "workers are threads",
    "generator": "seed= chooses the order",
    "persistent_workers": "threads start in microseconds",
    "pin_memory_device": "device= moves batches",
    "in_order": "batches always come in order",
}
_TORCH_DEFAULTS: dict[str, object] = {"persistent_workers": False, "pin_memory_device": "", "in_order": True}


class Loader(DataLoader[Batch]):
    """Deliver the batches of a converted dataset, read and decoded on threads.

    Each `iter` begins the next epoch (0, 1, 2, ...). The same seed gives the same batches whatever the number of
    workers. Nothing is opened but the manifest until the first `iter`, so a loader can be built anywhere and pickled.
    An iterator belongs to one thread at a time.

    Over a torch Dataset it is `torch.utils.data.DataLoader`: the same arguments mean the same. Of ours, `device` is
    there too; the others are refused.

    Args:
        dataset: A converted dataset: its path or URL, or a `datafeed.Dataset`; or several, by `datafeed.Mix`. Or any
            torch Dataset.
        batch_size: Samples a batch, at least 1.
        shuffle: True or "window" shuffles within a window over `lanes` streams of the dataset; "full" permutes all
            records, for data that is local; None or False keeps the order as written.
        sampler: As in torch, over a torch Dataset; over a converted one this and the others marked (torch) are refused.
        batch_sampler: (torch)
        num_workers: Threads that read, decompress, parse and decode. None for 70 % of the cores; 0 for the caller's.
        collate_fn: (torch)
        pin_memory: Whether tensors come in pinned memory, where there is CUDA.
        drop_last: Whether a short last batch is dropped.
        timeout: Seconds after which a batch that does not come is an error; 0 for ten minutes without any progress.
        worker_init_fn: (torch)
        multiprocessing_context: (torch)
        generator: (torch)
        prefetch_factor: Batches made ahead beside those in the workers' hands, at least 2; None for 2. Small
            batches are made several at a time, so that it may be more.
        persistent_workers: (torch)
        pin_memory_device: (torch)
        in_order: (torch)
        seed: Chooses the order and each sample's random generator.
        transform: `transform(sample, rng)`, applied to each sample on the workers' threads; what it returns is
            collated as torch does. `rng` is a numpy Generator seeded by (seed, epoch, record).
        image: What encoded images become: uint8 (batch, 3, height, width). None leaves them encoded, as read-only views
            that keep their blocks in memory (as bytes for `transform`).
        columns: The features to read; None for all.
        device: Where batches are moved; None leaves them in host memory.
        lanes: Streams that the shuffled order is drawn from, a multiple of the number of ranks. None for the smallest
            one not under 48, or those of the state that is loaded.
        window: Raw bytes of the records shuffled with each other, over all lanes.
        storage_options: What fsspec takes for the dataset's URL.
        rank: Which of `world_size` ranks this is. None for what torch.distributed, Ray Train or the launcher's
            variables say when the length is asked for or an epoch begins.
        world_size: How many ranks there are.
        replicas: How many ranks in a row get the same batches, as those of one tensor-parallel group must; or a mapping
            or function from rank to data-parallel rank; or the data-parallel dimensions of a DeviceMesh (`mesh["dp"]`).
        global_batch_size: Samples a batch over all ranks, in place of `batch_size`.
        pad: Whether ranks that have a sample fewer repeat one, so that all get batches of one number and size. False
            for each sample once: then a rank may get a smaller last batch than others, or one batch fewer.
        mask: Whether a batch holds "_mask", bool (batch,), False for a sample that is a repeat. None for True where
            there may be some: on several ranks, unless `pad` is False or `drop_last` True.
        on_sigterm: A local file. SIGTERM writes the state to it, as of the last batch handed out, before it does what
            it did without.
        cache: The tiers between the dataset's store and this loader; see `datafeed.Cache`.

    Raises:
        ConfigError: An argument is out of range, or cannot be honoured over this dataset.
        DatasetNotFound: No converted dataset is there.
        SchemaError: A column is unknown.
    """

    _feed: Feed  # over a converted dataset
    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[var-annotated]  # torch's can be subscripted

    def __init__(  # noqa: PLR0913  (torch's signature, then ours)
        self,
        dataset: str | Path | Dataset | Mix | TorchDataset[object],
        batch_size: int | None = 1,
        shuffle: Shuffle = None,
        sampler: object = None,
        batch_sampler: object = None,
        num_workers: int | None = None,
        collate_fn: object = None,
        pin_memory: bool = False,  # noqa: FBT001, FBT002  (torch's position)
        drop_last: bool = False,  # noqa: FBT001, FBT002  (torch's position)
        timeout: float = 0,
        worker_init_fn: object = None,
        multiprocessing_context: object = None,
        generator: object = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int = 0,
        transform: Transform | None = None,
        image: ImageOptions | None = None,
        columns: Sequence[str] | None = None,
        device: str | torch.device | None = None,
        lanes: int | None = None,
        window: str | int = "512MB",
        storage_options: Mapping[str, object] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        replicas: Replicas = 1,
        global_batch_size: int | None = None,
        pad: bool = True,
        mask: bool | None = None,
        on_sigterm: str | Path | None = None,
        cache: Cache | None = None,
    ) -> None:
        given = dict(locals())
        self._over_torch: OverTorch | None = None
        if not isinstance(dataset, (str, Path, Dataset, Mix)):
            _refuse_ours(given)
            self._over_torch = OverTorch(_device(device))
            self.device = device
            super().__init__(**_for_torch(given))  # type: ignore[arg-type]  # torch checks its own arguments
            return
        _refuse_torch(given)
        _check_converted(given)
        options = FeedOptions(
            batch_size=1 if batch_size is None else batch_size,
            mode=_MODES[shuffle],
            seed=seed,
            lanes=lanes,
            window=parse_size(window, name="window"),
            drop_last=drop_last,
            num_workers=default_workers() if num_workers is None else num_workers,
            prefetch_factor=2 if prefetch_factor is None else prefetch_factor,
            timeout_s=timeout,
            recipe=Recipe(columns, image, transform),
            device=_device(device),
            pin=pin_memory and _can_pin(),
            ranks=RankOptions(rank, world_size, replicas),
            global_batch_size=global_batch_size,
            pad=pad,
            mask=mask,
            on_sigterm=None if on_sigterm is None else Path(on_sigterm).absolute(),
        )
        opened = _opened(dataset, storage_options, cache)
        super().__init__(_Facade(opened), batch_size=options.batch_size, drop_last=drop_last)
        self._feed = Feed(opened, options)
        # Accelerate hands a loader with the first mark back as it is, and keeps the state of one with the second.
        self._is_accelerate_prepared = True
        self.use_stateful_dataloader = True

    @property
    def batch_size(self) -> int | None:
        """Samples a batch; over a converted dataset, of this rank."""
        own = vars(self)  # where Lightning looks for it, to make a loader again
        return self._feed.batch_size() if "_feed" in own else own["batch_size"]

    @batch_size.setter
    def batch_size(self, batch_size: int | None) -> None:
        vars(self)["batch_size"] = batch_size

    def __len__(self) -> int:
        return len(self._feed) if self._over_torch is None else super().__len__()

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # torch promises its own iterator class
        return iter(self._feed) if self._over_torch is None else self._over_torch.begin(self, super().__iter__)

    def _get_iterator(self) -> Iterator[Batch]:  # type: ignore[override]  # what torch calls to make a new one
        made = None if self._over_torch is None else self._over_torch.iterator(self)
        return super()._get_iterator() if made is None else made

    def set_epoch(self, epoch: int) -> None:
        """Fix the epoch that the next `iter` begins; a position loaded for the same epoch is kept.

        Over a torch Dataset, its samplers that have `set_epoch` are told, and an iterable dataset that has it.
        """
        if self._over_torch is None:
            self._feed.set_epoch(epoch)
        else:
            self._over_torch.set_epoch(self, epoch)

    def state_dict(self) -> dict[str, object]:
        """Return where the newest iterator stands: a small dict of JSON values.

        It counts what was handed out, not what was made ahead. Over a torch Dataset it holds what samplers, and an
        iterable dataset, say of themselves by `state_dict`: it is JSON as far as that is.
        """
        return self._feed.state_dict() if self._over_torch is None else self._over_torch.state_dict(self)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Make the next `iter` go on where a state says, with the very samples that were left.

        Raises:
            StateMismatch: The state belongs to another dataset, order or version; the differences are named.
        """
        if self._over_torch is None:
            self._feed.load_state_dict(state)
        else:
            self._over_torch.load_state_dict(self, state)

    def stats(self) -> LoaderStats:
        """Return the figures of the newest iterator; zeros before the first.

        Over a torch Dataset no blocks are read, and what workers took is not known.
        """
        return self._feed.stats() if self._over_torch is None else self._over_torch.stats()


def _opened(
    dataset: str | Path | Dataset | Mix, storage_options: Mapping[str, object] | None, cache: Cache | None
) -> Dataset | MixedDataset:
    if isinstance(dataset, Dataset):
        return dataset
    kind = MixedDataset if isinstance(dataset, Mix) else Dataset
    return kind(dataset, storage_options, cache)  # type: ignore[arg-type]  # as just asked


_OURS: dict[str, object] = {
    "seed": 0, "transform": None, "image": None, "columns": None, "device": None, "lanes": None, "window": "512MB",
    "storage_options": None, "rank": None, "world_size": None, "replicas": 1, "global_batch_size": None, "pad": True,
    "mask": None, "on_sigterm": None, "cache": None,
}  # fmt: skip


_OVER_TORCH = ("device",)  # of ours, what a torch Dataset has too


def _refuse_ours(given: Mapping[str, object]) -> None:
    """Refuse, by name, what only a converted dataset can honour."""
    for name, default in _OURS.items():
        if name not in _OVER_TORCH and _differs(given[name], default):
            raise ConfigError(f"{name}= needs a converted dataset: `datafeed convert` makes one of raw data")
    if isinstance(given["shuffle"], str):
        raise ConfigError(f"shuffle={given['shuffle']!r} needs a converted dataset: use shuffle=True")


def _for_torch(given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of torch's own."""
    passed = {name: value for name, value in given.items() if name not in (*_OURS, "self", "__class__")}
    return passed if passed["num_workers"] is not None else {**passed, "num_workers": 0}


def _refuse_torch(given: Mapping[str, object]) -> None:
    """Refuse, by name, what a converted dataset cannot honour."""
    for name, instead in _REFUSED.items():
        if _differs(given[name], _TORCH_DEFAULTS.get(name)):
            raise ConfigError(f"{name}= cannot be honoured over a converted dataset: {instead}")


def _check_converted(given: Mapping[str, object]) -> None:
    """Refuse values, and pairs of values, that mean nothing over a converted dataset."""
    if not isinstance(given["shuffle"], (bool, str, type(None))) or given["shuffle"] not in _MODES:
        raise ConfigError(f"shuffle must be True, 'window', 'full', False or None, found {given['shuffle']!r}")
    if given["batch_size"] is None:
        raise ConfigError("batch_size=None cannot be honoured over a converted dataset: use batch_size=1")
    if given["storage_options"] is not None and isinstance(given["dataset"], Dataset):
        raise ConfigError("storage_options= belongs to Dataset(url, storage_options), which is open already")
    if given["cache"] is not None and isinstance(given["dataset"], Dataset):
        raise ConfigError("cache= belongs to Dataset(url, cache=cache), which is open already")
    if not isinstance(given["cache"], (Cache, type(None))):
        raise ConfigError(f"cache must be a datafeed.Cache, found {given['cache']!r:.100}")
    if given["num_workers"] == 0 and (given["prefetch_factor"] is not None or given["timeout"] != 0):
        name = "timeout" if given["prefetch_factor"] is None else "prefetch_factor"
        raise ConfigError(f"{name}= needs num_workers of at least 1: the caller's own thread makes nothing ahead")


def _differs(value: object, default: object) -> bool:
    """Tell whether an argument is not its default; what compares item by item, as arrays do, is not one."""
    return value is not default if default is None or not isinstance(value, type(default)) else value != default


def _device(device: str | torch.device | None) -> torch.device | None:
    if device is None:
        return None
    try:
        found = torch.device(device)
    except RuntimeError as exc:
        raise ConfigError(f"device={device!r} is none that torch knows: {exc}") from exc
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device={device!r} is not there: torch found {counted(torch.cuda.device_count(), 'CUDA device')}"
        )
    return found


class _Facade(IterableDataset[Batch]):
    """Stand for a converted dataset towards frameworks: iterable, so that nobody puts a sampler before it.

    Args:
        source: The converted dataset, or several mixed.
    """

    def __init__(self, source: Dataset | MixedDataset) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Batch]:
        return (self.source[number] for number in range(len(self.source)))  # type: ignore[misc]  # samples, not batches


def default_workers() -> int:
    """Return 70 % of the cores that this process may use, at least 1."""
    return max(1, round(_CORE_SHARE * len(os.sched_getaffinity(0))))


def _can_pin() -> bool:
    if torch.cuda.is_available():
        return True
    warnings.warn("pin_memory=True has no effect: no CUDA device was found", stacklevel=3)
    return False
