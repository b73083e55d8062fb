"""Know what the order of a loader over a torch Dataset depends on."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _InfiniteConstantSampler

from datafeed.errors import StateMismatch
from datafeed.randomness import Generator, common_generators, own_generators

AnyLoader: TypeAlias = "DataLoader[Any]"

_DRAWING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)  # from torch's own generator, unless given one
_FIXED = (SequentialSampler, BatchSampler, DistributedSampler, _InfiniteConstantSampler)


def iterable(loader: AnyLoader) -> bool:
    """Tell whether the loader's dataset gives its samples in an order of its own."""
    return isinstance(loader.dataset, IterableDataset)


def samplers(loader: AnyLoader) -> list[Any]:
    """Return the loader's samplers, and those that they draw from."""
    found: list[Any] = []
    waiting = [loader.batch_sampler, loader.sampler]
    while waiting:
        sampler = waiting.pop(0)
        if sampler is not None and all(sampler is not other for other in found):
            found.append(sampler)
            waiting += [getattr(sampler, name, None) for name in ("batch_sampler", "sampler")]
    return found


def generators(loader: AnyLoader) -> list[Generator]:
    """Return the random generators that an epoch's order, and its workers' seeds, are drawn from."""
    found: list[Generator] = own_generators(loader)
    for sampler in samplers(loader):
        found += own_generators(sampler)
        if type(sampler) in _DRAWING:
            found += common_generators()[:1] if sampler.generator is None else []
        elif type(sampler) not in _FIXED and not isinstance(sampler, (Sequence, np.ndarray, torch.Tensor)):
            found += common_generators()  # an unknown one may draw from any
    if loader.generator is None and iterable(loader) and loader.num_workers:
        found.append(torch.default_generator)  # the workers' seeds
    return [one for number, one in enumerate(found) if all(one is not other for other in found[:number])]


def set_epoch(loader: AnyLoader, epoch: int) -> None:
    """Tell the epoch to the samplers, and to an iterable dataset, that have `set_epoch`."""
    for holder in (*samplers(loader), *([loader.dataset] if iterable(loader) else [])):
        if callable(getattr(holder, "set_epoch", None)):
            holder.set_epoch(epoch)


def stateful(holder: object) -> bool:
    """Tell whether something gives its state, and takes it back."""
    return all(callable(getattr(holder, name, None)) for name in ("state_dict", "load_state_dict"))


def sampler_states(loader: AnyLoader) -> list[dict[str, Any]]:
    """Return what each sampler says of itself: its own state, its epoch."""
    return [
        ({"state": sampler.state_dict()} if stateful(sampler) else {})
        | ({"epoch": sampler.epoch} if _has_epoch(sampler) else {})
        for sampler in samplers(loader)
    ]


def set_sampler_epochs(loader: AnyLoader, states: Sequence[Mapping[str, Any]]) -> None:
    """Bring the samplers to the epochs that `sampler_states` told."""
    for sampler, state in zip(samplers(loader), states, strict=True):
        if "epoch" in state and _has_epoch(sampler):
            sampler.set_epoch(state["epoch"])


def set_sampler_states(loader: AnyLoader, states: Sequence[Mapping[str, Any]]) -> None:
    """Bring the samplers to their own states that `sampler_states` told."""
    for sampler, state in zip(samplers(loader), states, strict=True):
        if "state" in state and stateful(sampler):
            sampler.load_state_dict(state["state"])


def described(loader: AnyLoader) -> list[str]:
    """Return what must be the same where an order is to be the same: the kinds of the samplers, with torch's settings.

    A rank is none of them: ranks may share one state.
    """
    return [_described(sampler) for sampler in samplers(loader)]


def comparable(loader: AnyLoader) -> bool:
    """Tell whether every run that shares a state draws the same samples; ranks with a `DistributedSampler` do not."""
    return not iterable(loader) and not any(isinstance(sampler, DistributedSampler) for sampler in samplers(loader))


def checksum(index: Any) -> int | None:
    """Return a checksum of what a sampler gave for one batch; None for keys, which may show as their addresses."""
    try:
        numbers = [operator.index(one) for one in index] if isinstance(index, Sequence) else operator.index(index)
    except TypeError:
        return None
    return zlib.crc32(repr(numbers).encode())


def length(loader: AnyLoader) -> int | None:
    """Return the samples of a dataset whose order samplers choose; None where it does not say."""
    if iterable(loader):
        return None
    try:
        return len(loader.dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def checked_states(loader: AnyLoader, states: object) -> list[Mapping[str, Any]]:
    """Return sampler states of a loaded state.

    Raises:
        StateMismatch: They are not what `sampler_states` gives.
    """
    expected = len(samplers(loader))
    if not isinstance(states, list) or not all(isinstance(state, Mapping) for state in states):
        raise StateMismatch(f"samplers: expected a list of {expected} dicts, found {states!r:.60}")
    if len(states) != expected:
        raise StateMismatch(f"samplers: the state has {len(states)}, and {expected} are here")
    return states


def _has_epoch(sampler: Any) -> bool:
    return callable(getattr(sampler, "set_epoch", None)) and isinstance(getattr(sampler, "epoch", None), int)


def _described(sampler: Any) -> str:
    name = type(sampler).__name__
    if isinstance(sampler, DistributedSampler):
        return f"{name}(num_replicas={sampler.num_replicas}, shuffle={sampler.shuffle}, seed={sampler.seed})"
    if isinstance(sampler, RandomSampler):
        return f"{name}(replacement={sampler.replacement}, num_samples={sampler.num_samples})"
    return name
