"""Follow one epoch of a loader over a torch Dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import length_hint
from time import perf_counter
from typing import Any

import torch

from datafeed import randomness
from datafeed.errors import StateMismatch
from datafeed.moving import moved
from datafeed.samplers import AnyLoader, checksum, comparable, generators, iterable, sampler_states, stateful
from datafeed.stats import LoaderStats
from datafeed.torch_state import Point
from datafeed.torch_workers import DatasetState, WithState, saved


class Progress:
    """Count what one iterator hands out. Apart from it: whoever asks does not keep the iterator's workers alive.

    Args:
        loader: The loader, its samplers as they are before the epoch.
        point: Where the epoch begins.
        device: Where batches are moved; None leaves them where they are.

    Attributes:
        iterable: Whether the dataset gives its samples in an order of its own.
        begun: Whether the samplers were drawn from.
        ended: Whether the iterator came to its end.
        exhausted: Whether `point`, which was loaded, is the end of its epoch.
        turn: The worker that is asked first.
        loaded: What an iterable dataset begins with, in each worker.
        states: What it said of itself since.
    """

    def __init__(self, loader: AnyLoader, point: Point, device: torch.device | None) -> None:
        self.begun = self.ended = self.exhausted = False
        self.turn = point.turn
        self.loaded: list[DatasetState | None] = point.dataset or [None] * max(1, loader.num_workers)
        self.states: list[DatasetState | WithState | None] = list(self.loaded)
        self.generators = generators(loader)
        self.numbers: Iterator[int] = itertools.chain(point.missing, itertools.count(point.batches))
        self._point, self._device = point, device
        self._started = self._turned = perf_counter()
        self._wait_s = self._first_batch_s = 0.0
        self._samples = 0
        self._batches, self._missing = point.batches, list(point.missing)
        self._last: object = None
        self._made: list[object] | None = None
        self._at_first: list[object] | None = None
        self._before = point.before or self._now()
        self._samplers = sampler_states(loader) if point.samplers is None else point.samplers
        self._resumed = point.before is not None
        self.iterable, self._comparable = iterable(loader), comparable(loader)
        self._batched = loader.batch_sampler is not None
        self._most = loader.batch_size or 1

    def made(self) -> None:
        """Note that the iterator was made."""
        if not self.begun:
            self._made = self._now()

    def begin(self, indices: Iterator[Any]) -> Iterator[Any]:
        """Return what the samplers still give, before anything was drawn from them.

        Raises:
            StateMismatch: They give something else than in the run that the loaded point is of.
        """
        self.begun = True
        if not self._resumed:
            if self._made is not None:
                self._at_first = self._now()
            return indices
        if self._point.at_first is not None:
            for generator, packed in zip(self.generators, self._point.at_first, strict=True):
                randomness.put(generator, packed)
        return indices if self.iterable else self._after(indices)

    def hand_out(self, batch: Any, number: int, index: Any, asked: float) -> Any:
        """Count a batch, and return it where it belongs.

        Args:
            batch: The batch.
            number: Its number in the epoch, one of `numbers`.
            index: What the samplers gave for it.
            asked: When the caller asked for it, on the clock of `time.perf_counter`.
        """
        if number == self._batches or self.iterable:
            self._batches += 1
            self._last = index
        else:
            self._out_of_order(number, index)
        self._samples += _samples(batch, self._most) if self.iterable else length_hint(index, 1) if self._batched else 1
        if self._device is not None:
            batch = moved(batch, self._device)
        self._turned = now = perf_counter()
        if self._first_batch_s:
            self._wait_s += now - asked
        else:
            self._wait_s = self._first_batch_s = now - self._started
        return batch

    def _out_of_order(self, number: int, index: Any) -> None:
        if number > self._batches:
            self._missing += range(self._batches, number)
            self._batches, self._last = number + 1, index
        else:
            self._missing.remove(number)

    def stats(self) -> LoaderStats:
        """Return the figures of what was handed out."""
        before = self._point.batches - len(self._point.missing)
        return LoaderStats(
            samples=self._samples,
            batches=self._batches - len(self._missing) - before,
            wait_s=self._wait_s,
            step_s=self._turned - self._started - self._wait_s,
            first_batch_s=self._first_batch_s,
        )

    def note_worker(self, worker: int, sent: WithState) -> None:
        """Note the state of an iterable dataset after the batch that a worker made."""
        self.states[worker] = replace(sent, batch=None)
        self.turn = (worker + 1) % len(self.states)

    def point(self, loader: AnyLoader) -> Point:
        """Return where the iterator stands."""
        if self.ended:
            return Point(self._point.epoch + 1)
        made = self._packed(self._made)
        at_first = self._packed(self._at_first) or (None if self.begun else self._packed(self._now()))
        return Point(
            epoch=self._point.epoch,
            batches=self._batches,
            missing=sorted(self._missing),
            check=checksum(self._last) if self._comparable and self._batches else None,
            before=self._packed(self._before),
            at_first=self._point.at_first if self._resumed else None if at_first == made else at_first,
            samplers=self._samplers,
            dataset=self._dataset(loader),
            turn=self.turn,
        )

    def _dataset(self, loader: AnyLoader) -> list[Any] | None:
        if not (self.iterable and stateful(loader.dataset)):
            return None
        if loader.num_workers == 0 and self._batches > self._point.batches:
            return [{"state": loader.dataset.state_dict(), "ended": False}]  # type: ignore[attr-defined]
        return [
            {"state": saved(one.state), "ended": one.ended} if isinstance(one, WithState) else one
            for one in self.states
        ]

    def _after(self, indices: Iterator[Any]) -> Iterator[Any]:
        """Pass over what was handed out."""
        point, missing, index = self._point, dict.fromkeys(self._point.missing), None
        for number in range(point.batches):
            try:
                index = next(indices)
            except StopIteration:
                raise StateMismatch(
                    f"{point.batches} batches were handed out before, and the sampler gives {number}"
                ) from None
            if number in missing:
                missing[number] = index
        if self._comparable and point.batches and point.check is not None and checksum(index) != point.check:
            raise StateMismatch(
                f"the sampler gives other samples for batch {point.batches - 1} than in the run that the state is of: "
                "it must follow from its arguments, from a torch.Generator, or from a state_dict of its own"
            )
        self._last = index
        first = list(itertools.islice(indices, 1))  # drawn here, as long as the generators stand where they stood
        self.exhausted = not missing and not first
        return itertools.chain(missing.values(), first, indices)

    def _now(self) -> list[object]:
        return [randomness.take(one) for one in self.generators]

    @staticmethod
    def _packed(states: list[Any] | None) -> list[str] | None:
        return None if states is None else [one if isinstance(one, str) else randomness.pack(one) for one in states]


def _samples(batch: Any, most: int) -> int:
    """Return how many samples a batch of an iterable dataset holds, as far as it tells: the last may be short."""
    while True:
        if isinstance(batch, torch.Tensor):
            return min(most, len(batch)) if batch.dim() else most
        if isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, Sequence) and batch and isinstance(batch[0], (torch.Tensor, Mapping, list, tuple)):
            batch = batch[0]
        elif isinstance(batch, Sequence):
            return min(most, len(batch)) if batch else most
        else:
            return most
