"""Be torch's iterators, and count what they hand out."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch.utils.data import dataloader
from torch.utils.data._utils.pin_memory import pin_memory

from datafeed.errors import StateMismatch
from datafeed.samplers import AnyLoader, stateful
from datafeed.torch_progress import Progress
from datafeed.torch_state import Point
from datafeed.torch_workers import WithState, with_hooks

_ITERABLE = dataloader._DatasetKind.Iterable  # noqa: SLF001  (torch offers no public name)


# The names are torch's: they stand in profiles and in errors.
class _SingleProcessDataLoaderIter(dataloader._SingleProcessDataLoaderIter):  # noqa: SLF001  (what iter() must return)
    """Make batches in the caller's process.

    Args:
        loader: The loader.
        progress: The count.
    """

    def __init__(self, loader: AnyLoader, progress: Progress) -> None:
        self.progress = progress
        self._ready: list[Any] = []
        self._steady = False
        super().__init__(loader)

    def resume(self, point: Point) -> None:
        """Pass over what was handed out before."""
        if self._dataset_kind == _ITERABLE:
            _replay(super()._next_data, self, point)
        else:
            self._sampler_iter = self.progress.begin(self._sampler_iter)

    def _next_data(self) -> Any:
        # What torch's own does: the calls of it, and of `_next_index`, take 2 % of a batch of one sample.
        asked = perf_counter()
        progress = self.progress
        if not self._steady:
            self._steady = True
            if self._ready:
                return progress.hand_out(self._ready.pop(), 0, None, asked)
            if not progress.begun:
                self._sampler_iter = progress.begin(self._sampler_iter)
        try:
            index = next(self._sampler_iter)
            number = next(progress.numbers)
            batch = self._dataset_fetcher.fetch(index)
        except StopIteration:
            progress.ended = True
            raise
        if progress.iterable:
            progress.ended = self._dataset_fetcher.ended  # a short batch is the last one
        if self._pin_memory:
            batch = pin_memory(batch, self._pin_memory_device)  # type: ignore[no-untyped-call]
        return progress.hand_out(batch, number, index, asked)


class _MultiProcessingDataLoaderIter(dataloader._MultiProcessingDataLoaderIter):  # noqa: SLF001
    """Get batches from torch's workers.

    Args:
        loader: The loader.
        progress: The count.
    """

    def __init__(self, loader: AnyLoader, progress: Progress) -> None:
        self.progress = progress
        self._ready: list[Any] = []
        self._sent: tuple[int, WithState] | None = None
        super().__init__(with_hooks(loader, progress.loaded))

    def resume(self, point: Point) -> None:
        """Pass over what was handed out before."""
        if self._dataset_kind == _ITERABLE:
            _replay(super()._next_data, self, point)

    def _reset(self, loader: AnyLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002  (torch's signature)
        if not first_iter:
            self.progress = loader._over_torch.opening()  # type: ignore[attr-defined]  # noqa: SLF001
        self._tasks: dict[int, tuple[int, Any]] = {}
        self._ready.clear()
        super()._reset(loader, first_iter)

    def _next_index(self) -> Any:
        progress = self.progress
        if not progress.begun:
            self._sampler_iter = progress.begin(self._sampler_iter)
            for _ in range(progress.turn):
                next(self._worker_queue_idx_cycle)
        index = next(self._sampler_iter)
        self._tasks[self._send_idx] = next(progress.numbers), index
        return index

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        data = super()._process_data(data, worker_idx)  # type: ignore[no-untyped-call]
        if not isinstance(data, WithState):
            return data
        self._sent = worker_idx, data
        return data.batch

    def _next_data(self) -> Any:
        asked = perf_counter()
        try:
            batch = self._ready.pop() if self._ready else super()._next_data()  # type: ignore[no-untyped-call]
        except BaseException as exc:
            self.progress.ended = isinstance(exc, StopIteration)
            self._done()
            raise
        if self._sent is not None:
            self.progress.note_worker(*self._sent)
        return self.progress.hand_out(batch, *self._done(), asked)

    def _done(self) -> tuple[int, Any]:
        """Return the number of the batch that came, and what the samplers gave for it; forget it."""
        number, index = 0, None
        for task in self._tasks.keys() - self._task_info.keys():
            number, index = self._tasks.pop(task)
        return number, index


def _replay(fetch: Callable[[], Any], iterator: Any, point: Point) -> None:
    """Bring an iterable dataset to the point, unless it is there, and see whether anything is left."""
    if not point.batches:
        return
    for number in range(0 if stateful(iterator._dataset) else point.batches):  # noqa: SLF001
        try:
            fetch()
        except StopIteration:
            raise StateMismatch(
                f"{point.batches} batches were handed out before, and the dataset gives {number}"
            ) from None
    try:
        iterator._ready.append(fetch())  # noqa: SLF001
    except StopIteration:
        iterator.progress.exhausted = True
