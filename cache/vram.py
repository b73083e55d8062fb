"""Keep samples on a device, as the tensors that batches are made of."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from datafeed.cache.policy import Policy
from datafeed.cache.stats import TierStats
from datafeed.sizes import format_size

Numbers = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]
Tensors = Mapping[str, torch.Tensor]

# What is moved as it is: torch indexes no unsigned integers but the shortest.
_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_log = logging.getLogger("datafeed.cache")


@dataclass(frozen=True, slots=True)
class Form:
    """Say what a tensor of a batch holds of one sample.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        turn: In which turn its dimensions lie in memory; empty for as they are numbered.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    turn: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of one sample."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(slots=True)
class Counts:
    """Count what a device tier did: samples, each of `DeviceTier.sample_nbytes`."""

    hits: int = 0
    admitted: int = 0
    evicted: int = 0


class DeviceTier:
    """Keep samples of one loader on its device, each in a slot. Safe to share between threads.

    With "epoch" what is kept stays, and what comes when there is no room is not kept. With "lru" what was used longest
    ago gives way, but nothing that a running epoch has still to use.

    Args:
        forms: What a batch holds, by name.
        device: The device.
        budget: Bytes, at least those of one sample.
        policy: What is kept.
        records: How many samples there are.

    Attributes:
        counts: What was done so far.
        sample_nbytes: The bytes of one sample.
    """

    def __init__(
        self, forms: Mapping[str, Form], device: torch.device, budget: int, policy: Policy, records: int
    ) -> None:
        self.counts = Counts()
        self.sample_nbytes = sum(form.nbytes for form in forms.values())
        self._policy = policy
        self._capacity = min(records, budget // max(1, self.sample_nbytes))
        self._stores = [_Store(names, forms, device) for names in _grouped(forms)]
        self._names = list(forms)
        self._device = device
        self._lock = threading.Lock()
        self._number = np.full(self._capacity, -1, np.int64)  # by slot
        self._pins = np.zeros(self._capacity, np.int32)  # running epochs that will use it
        self._turn = np.zeros(self._capacity, np.int64)  # of its last use
        self._uses: deque[tuple[int, Slots]] = deque()
        self._turns = 0
        self._taken = 0
        self._newest: DeviceEpoch | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the samples that are kept."""
        return self._taken * self.sample_nbytes

    def begin(self) -> DeviceEpoch:
        """Begin an epoch, which finds what is kept now."""
        with self._lock:
            slots = np.flatnonzero(self._number >= 0).astype(np.int32)
            slots = slots[np.argsort(self._number[slots], kind="stable")]
            numbers = self._number[slots]
            first = np.append(True, numbers[1:] != numbers[:-1])[: len(slots)]  # one that came twice is kept twice
            slots = slots[first]
            self._pins[slots] += 1
            self._newest = DeviceEpoch(self, numbers[first], slots, self._capacity)
            return self._newest

    def end(self, unused: Slots) -> None:
        """End an epoch that will use some samples no more."""
        with self._lock:
            self._unpin(unused)

    def whole(self, epoch: DeviceEpoch, numbers: Numbers, slots: Slots, made: Tensors) -> dict[str, torch.Tensor]:
        """Return a batch, of samples that are kept and of such that were made for it, which are kept if they may be.

        Args:
            epoch: Which epoch it is of; what was made for the newest one is kept.
            numbers: The number of each sample.
            slots: Where each is kept, -1 for those that were made.
            made: The tensors of those, on the device.
        """
        with self._lock:
            missing = np.flatnonzero(slots < 0)
            kept = slots[slots >= 0]
            self.counts.hits += len(kept)
            batch = dict(made) if not len(kept) else self._gather(slots, missing, made)
            self._unpin(kept)
            if epoch is self._newest:
                fresh = missing[epoch.is_new(numbers[missing])]
                self._admit(numbers[fresh], made if len(fresh) == len(missing) else _some(made, missing, fresh))
            return batch

    def stats(self) -> TierStats:
        """Return what was done so far."""
        counts, size = self.counts, self.sample_nbytes
        return TierStats(
            "vram",
            nbytes=counts.hits * size,
            admitted=counts.admitted,
            admitted_nbytes=counts.admitted * size,
            evicted=counts.evicted,
            samples=counts.hits,
        )

    def _gather(self, slots: Slots, missing: Numbers, made: Tensors) -> dict[str, torch.Tensor]:
        at = self._indices(np.maximum(slots, 0))
        places = self._indices(missing) if len(missing) else None
        found: dict[str, torch.Tensor] = {}
        for store in self._stores:
            found |= store.gather(at, places, made)
        return {name: found[name] for name in self._names}

    def _admit(self, numbers: Numbers, made: Tensors) -> None:
        if not self._taken and self._capacity:
            self._take_memory()
        slots = self._free(len(numbers))
        if not len(slots):
            return
        at, chosen = self._indices(slots), len(slots)
        for store in self._stores:
            store.put(at, {name: made[name][:chosen] for name in store.names})
        self._number[slots] = numbers[:chosen]
        self.counts.admitted += chosen
        self._used(slots)

    def _take_memory(self) -> None:
        """Take the memory of all slots, once there is something to keep; without it nothing is kept."""
        try:
            for store in self._stores:
                store.take_memory(self._capacity)
        except RuntimeError as exc:
            nbytes = format_size(self._capacity * self.sample_nbytes)
            _log.warning("the vram cache is left out: %s has no room for its %s: %s", self._device, nbytes, exc)
            self._capacity = 0
            for store in self._stores:
                store.rows = None

    def _free(self, wanted: int) -> Slots:
        """Return slots that may be filled, at most so many."""
        fresh = min(wanted, self._capacity - self._taken)
        slots = np.arange(self._taken, self._taken + fresh, dtype=np.int32)
        self._taken += fresh
        if self._policy == "lru" and fresh < wanted:
            slots = np.concatenate((slots, self._evict(wanted - fresh)))
        return slots

    def _evict(self, wanted: int) -> Slots:
        """Return slots whose samples gave way, those used longest ago first."""
        found: list[Slots] = []
        while wanted and self._uses:
            turn, used = self._uses.popleft()
            going = used[(self._turn[used] == turn) & (self._pins[used] == 0)]  # a pinned one comes again, once used
            if len(going) > wanted:
                self._uses.appendleft((turn, going[wanted:]))
                going = going[:wanted]
            wanted -= len(going)
            found.append(going)
        evicted = np.concatenate(found) if found else np.zeros(0, np.int32)
        self.counts.evicted += len(evicted)
        return evicted

    def _unpin(self, slots: Slots) -> None:
        self._pins[slots] -= 1
        self._used(slots)

    def _used(self, slots: Slots) -> None:
        if self._policy == "lru":
            self._turns += 1
            self._turn[slots] = self._turns
            self._uses.append((self._turns, slots))

    def _indices(self, numbers: Numbers | Slots) -> torch.Tensor:
        return torch.from_numpy(numbers.astype(np.int64)).to(self._device)


class DeviceEpoch:
    """Know which samples an epoch takes from a device tier: those that were there when it began, each once.

    Args:
        tier: The tier.
        numbers: The numbers of the samples, ascending.
        slots: Where each is.
        capacity: How many slots there are.
    """

    def __init__(self, tier: DeviceTier, numbers: Numbers, slots: Slots, capacity: int) -> None:
        self._tier = tier
        self._numbers = numbers
        self._slots = slots
        self._planned = np.zeros(len(slots), np.bool_)
        self._unused = np.zeros(capacity, np.bool_)
        self._unused[slots] = True
        self._ended = False

    def find(self, numbers: Numbers) -> Slots:
        """Plan to use samples: return where they are, -1 for those that are not kept or were planned before.

        Call it in the order of the epoch, on one thread at a time.
        """
        slots = np.full(len(numbers), -1, np.int32)
        places = np.flatnonzero(~self.is_new(numbers))
        at = np.searchsorted(self._numbers, numbers[places])
        turn = np.argsort(at, kind="stable")
        first = np.append(True, at[turn][1:] != at[turn][:-1])[: len(at)]
        chosen = turn[first & ~self._planned[at[turn]]]
        self._planned[at] = True
        slots[places[chosen]] = self._slots[at[chosen]]
        return slots

    def is_new(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which samples were not kept when the epoch began."""
        if not len(self._numbers):
            return np.ones(len(numbers), np.bool_)
        at = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        new: npt.NDArray[np.bool_] = self._numbers[at] != numbers
        return new

    def held(self, first: Numbers) -> npt.NDArray[np.bool_]:
        """Tell of each block whether all its samples are kept.

        Args:
            first: By block, the number of its first sample; then how many samples there are.
        """
        held: npt.NDArray[np.bool_] = np.diff(np.searchsorted(self._numbers, first)) == np.diff(first)
        return held

    def whole(self, numbers: Numbers, slots: Slots, made: Tensors) -> dict[str, torch.Tensor]:
        """Return a batch; see `DeviceTier.whole`."""
        batch = self._tier.whole(self, numbers, slots, made)
        self._unused[slots[slots >= 0]] = False
        return batch

    def end(self) -> None:
        """Let go of what was not used."""
        if not self._ended:
            self._ended = True
            self._tier.end(np.flatnonzero(self._unused).astype(np.int32))


class _Store:
    """Hold some tensors of all slots in one.

    Args:
        names: Their names: one, or scalars of one dtype.
        forms: What they are.
        device: Where they are.
    """

    def __init__(self, names: Sequence[str], forms: Mapping[str, Form], device: torch.device) -> None:
        self.names = names
        self._form = forms[names[0]]
        self._carrier = _CARRIERS[self._form.dtype.itemsize]
        self._device = device
        self.rows: torch.Tensor | None = None

    def take_memory(self, capacity: int) -> None:
        """Take the memory of all slots.

        Raises:
            RuntimeError: There is not as much.
        """
        form = self._form
        one = tuple(form.shape[place] for place in form.turn) if form.turn else form.shape
        each = one if len(self.names) == 1 else (len(self.names),)
        self.rows = torch.empty((capacity, *each), dtype=self._carrier, device=self._device)

    def put(self, at: torch.Tensor, made: Tensors) -> None:
        """Fill slots."""
        assert self.rows is not None
        self.rows.index_copy_(0, at, self._packed(made))

    def gather(self, at: torch.Tensor, missing: torch.Tensor | None, made: Tensors) -> dict[str, torch.Tensor]:
        """Return the tensors of some slots; at the places that are missing, those that were made."""
        assert self.rows is not None
        rows = self.rows.index_select(0, at)
        if missing is not None:
            rows.index_copy_(0, missing, self._packed({name: made[name] for name in self.names}))
        dtype = self._form.dtype
        if len(self.names) == 1:
            turned = rows.view(dtype)
            return {self.names[0]: turned.permute(self._back()) if self._form.turn else turned}
        return dict(zip(self.names, rows.t().contiguous().view(dtype).unbind(), strict=True))

    def _packed(self, made: Tensors) -> torch.Tensor:
        if len(self.names) > 1:
            return torch.stack([made[name].view(self._carrier) for name in self.names], dim=1)
        tensor = made[self.names[0]]
        if self._form.turn:
            tensor = tensor.permute((0, *(1 + place for place in self._form.turn)))
        return tensor.contiguous().view(self._carrier)

    def _back(self) -> tuple[int, ...]:
        turn = self._form.turn
        return (0, *(1 + turn.index(place) for place in range(len(turn))))


def _some(made: Tensors, missing: Numbers, chosen: Numbers) -> Tensors:
    """Return of the samples that were made, which stand at some places of a batch, those at others."""
    at = torch.from_numpy(np.searchsorted(missing, chosen))
    return {name: tensor[at.to(tensor.device)] for name, tensor in made.items()}


def _grouped(forms: Mapping[str, Form]) -> list[list[str]]:
    """Put scalars of one dtype together: one gather takes them all."""
    groups: dict[object, list[str]] = {}
    for name, form in forms.items():
        groups.setdefault(name if form.shape else form.dtype, []).append(name)
    return list(groups.values())
