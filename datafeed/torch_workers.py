"""Do in torch's workers what torch does not: end with the parent, send a dataset's state along."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, TypeAlias

from torch.utils.data import get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from datafeed.samplers import AnyLoader, iterable, stateful

_LOOK_S = 1.0  # a worker that was forked holds its siblings' pipes: their end says nothing, its parent's number does


DatasetState: TypeAlias = Mapping[str, Any]  # its `state`, and whether it had `ended`


@dataclass(frozen=True, slots=True)
class WithState:
    """Hold a batch, and what the dataset said of itself after it.

    Args:
        batch: The batch.
        state: The state, pickled: what cannot be pickled would never arrive, and its batch with it.
        ended: Whether nothing comes behind the batch.
    """

    batch: Any
    state: bytes
    ended: bool

    def pin_memory(self) -> WithState:
        """Return it with the batch in pinned memory."""
        return WithState(pin_memory(self.batch), self.state, self.ended)  # type: ignore[no-untyped-call]  # torch's


def with_hooks(loader: AnyLoader, states: Sequence[DatasetState | None]) -> AnyLoader:
    """Return a copy of a loader for an iterator to start its workers from.

    Args:
        loader: The loader.
        states: What the dataset of each worker begins with; None for as it is.
    """
    hooked = copy.copy(loader)
    hooked.worker_init_fn = _Init(loader.worker_init_fn, states)
    if iterable(loader) and stateful(loader.dataset):
        hooked.collate_fn = _Sending(loader, states)
    return hooked


class _Init:
    """Begin a worker.

    Args:
        init: The user's function.
        states: What the dataset of each worker begins with.
    """

    def __init__(self, init: Callable[[int], None] | None, states: Sequence[DatasetState | None]) -> None:
        self._init = init
        self._states = states

    def __call__(self, worker: int) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="datafeed-parent", daemon=True).start()
        if self._init is not None:
            self._init(worker)
        state = self._states[worker]
        if state is not None:
            get_worker_info().dataset.load_state_dict(state["state"])  # type: ignore[union-attr]


def _interrupted(*_: object) -> None:
    """End a worker as an interrupt does; another one while it ends would be told as an error of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


class _Sending:
    """Collate, and send the state of the worker's dataset along.

    Args:
        loader: The loader, whose own function collates.
        states: What the dataset of each worker begins with.
    """

    def __init__(self, loader: AnyLoader, states: Sequence[DatasetState | None]) -> None:
        self._collate = loader.collate_fn
        self._full = loader.batch_size or 0
        self._begin = list(states)

    def __call__(self, samples: Any) -> WithState:
        info = get_worker_info()
        assert info is not None
        begin, self._begin[info.id] = self._begin[info.id], None
        if begin is not None and begin["ended"]:
            info.dataset.load_state_dict(begin["state"])  # type: ignore[attr-defined]  # for the next epoch
            raise StopIteration
        ended = self._full > 0 and len(samples) < self._full
        batch = self._collate(samples)
        try:
            state = pickle.dumps(info.dataset.state_dict())  # type: ignore[attr-defined]
        except Exception as exc:  # noqa: BLE001  (the batch is right; whoever asks for the state is told)
            state = pickle.dumps(_Failed(repr(exc)))
        return WithState(batch, state, ended)


def saved(state: bytes) -> Any:
    """Return the state that a worker's dataset sent.

    Raises:
        RuntimeError: It failed to give one.
    """
    value = pickle.loads(state)  # noqa: S301  (from a worker of this process)
    if isinstance(value, _Failed):
        raise RuntimeError(f"the dataset's state_dict() failed in a worker: {value.reason}")  # noqa: TRY004
    return value


@dataclass(frozen=True, slots=True)
class _Failed:
    """Stand for a state that a dataset did not give.

    Args:
        reason: What it raised.
    """

    reason: str


def _end_with_parent(parent: int) -> None:
    """End this process once its parent has: one that waits to send a batch would stay for ever."""
    process = multiprocessing.parent_process()
    sentinels = [] if process is None else [process.sentinel]
    while os.getppid() == parent and not wait(sentinels, _LOOK_S):
        pass
    os._exit(1)
