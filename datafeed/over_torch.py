"""Iterate over a torch Dataset as torch does, and go on from where an iterator stood."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from datafeed import randomness
from datafeed.errors import ConfigError
from datafeed.samplers import (
    AnyLoader,
    generators,
    iterable,
    sampler_states,
    set_epoch,
    set_sampler_epochs,
    set_sampler_states,
    stateful,
)
from datafeed.stats import LoaderStats
from datafeed.torch_iterators import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from datafeed.torch_progress import Progress
from datafeed.torch_state import Point, is_count, read_state, write_state


class OverTorch:
    """Count the epochs of one loader over a torch Dataset, and begin them.

    Args:
        device: Where batches are moved; None leaves them where they are.
    """

    def __init__(self, device: torch.device | None) -> None:
        self._device = device
        self._next = Point()
        self._newest: Progress | None = None
        self._measured: Progress | None = None
        self._opening: Progress | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_device": self._device, "_next": self._next, "_newest": None, "_measured": None, "_opening": None}

    def begin(self, loader: AnyLoader, iterate: Callable[[], Iterator[Any]]) -> Any:
        """Return an iterator over the next epoch, or over what is left of the one that was loaded.

        Args:
            loader: The loader.
            iterate: What torch does, which calls back for `iterator`.
        """
        point = self._next
        if point.before is not None:
            iterator = self._resume(loader, iterate, point)
            if iterator is not None:
                return iterator
        return self._open(loader, iterate, Point(point.epoch if point.before is None else point.epoch + 1))

    def iterator(self, loader: AnyLoader) -> Iterator[Any] | None:
        """Return a new iterator for the epoch that begins; None where none does."""
        if self._opening is None:
            return None
        if loader.num_workers == 0:
            return _SingleProcessDataLoaderIter(loader, self._opening)
        loader.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(loader, self._opening)

    def opening(self) -> Progress:
        """Return the progress of the epoch that begins, for an iterator whose workers stay."""
        assert self._opening is not None
        return self._opening

    def set_epoch(self, loader: AnyLoader, epoch: int) -> None:
        """Fix the epoch that the next `iter` begins; a position loaded for the same epoch is kept."""
        if not is_count(epoch):
            raise ConfigError(f"epoch must be an integer of at least 0, found {epoch!r}")
        if epoch != self._next.epoch:
            self._next = Point(epoch)
        self._newest = None
        set_epoch(loader, epoch)

    def state_dict(self, loader: AnyLoader) -> dict[str, object]:
        """Return where the newest iterator stands, or where the next one will begin."""
        if iterable(loader) and loader.num_workers and not loader.in_order and not stateful(loader.dataset):
            raise ConfigError(
                "state_dict() needs in_order=True, or a dataset with state_dict and load_state_dict: "
                "read again, the batches would come in another order"
            )
        point = self._next if self._newest is None else self._newest.point(loader)
        if point.before is None:
            now = [randomness.pack(randomness.take(one)) for one in generators(loader)]
            point = Point(point.epoch, before=now, samplers=sampler_states(loader))
        return write_state(loader, point)

    def load_state_dict(self, loader: AnyLoader, state: Mapping[str, object]) -> None:
        """Make the next `iter` begin where a state says.

        Raises:
            StateMismatch: The state belongs to another dataset, order or version.
        """
        point = read_state(loader, state)
        if point.batches and iterable(loader) and not stateful(loader.dataset):
            warnings.warn(
                f"{loader.dataset!r:.100} has no state_dict and load_state_dict: "
                f"the first {point.batches} batches of its epoch are read again and dropped",
                stacklevel=3,
            )
        set_sampler_epochs(loader, point.samplers or [])
        if iterable(loader):
            loader._iterator = None  # noqa: SLF001  (torch's own: workers that stay would go on where they are)
        self._next = point
        self._newest = None

    def stats(self) -> LoaderStats:
        """Return the figures of the newest iterator; zeros before the first."""
        return LoaderStats() if self._measured is None else self._measured.stats()

    def _open(self, loader: AnyLoader, iterate: Callable[[], Iterator[Any]], point: Point) -> Any:
        self._opening = progress = Progress(loader, point, self._device)
        try:
            iterator = iterate()
        finally:
            self._opening = None
        progress.made()
        self._newest = self._measured = progress
        self._next = Point(point.epoch + 1)
        return iterator

    def _resume(self, loader: AnyLoader, iterate: Callable[[], Iterator[Any]], point: Point) -> Any:
        """Return an iterator over the rest of an epoch; None where nothing is left of it."""
        set_sampler_states(loader, point.samplers or [])
        if loader.num_workers == 0 and point.dataset is not None and point.dataset[0] is not None:
            loader.dataset.load_state_dict(point.dataset[0]["state"])  # type: ignore[attr-defined]
        with randomness.borrowed(generators(loader), point.before or []):
            iterator = self._open(loader, iterate, point)
            iterator.resume(point)
        return None if iterator.progress.exhausted else iterator
