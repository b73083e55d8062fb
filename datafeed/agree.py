"""Check that all ranks are about to read the same epoch from the same position.

The ranks meet at the key-value store by which torch.distributed found them: that works with every backend, moves a few
hundred bytes, and knows who did not come. Rank 0 reads what all have written and writes one verdict.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]  # its stubs leave it out

from datafeed.errors import StateMismatch

_DEADLINE_S = 600.0
_GRACE_S = 5.0  # so that rank 0 has found out who is missing before the others stop waiting for it

_rounds = itertools.count()  # of this process; the ranks run one program, and meet in the same order


def agree(facts: Mapping[str, object], timeout_s: float) -> None:
    """Wait until all ranks of torch.distributed have told what they are about to read, and compare it.

    Args:
        facts: JSON values by name. Those under "reads_as" must differ between ranks as the others' do; all others must
            be the same.
        timeout_s: How long to wait for the other ranks; 0 for ten minutes.

    Raises:
        StateMismatch: A rank is about to read something else; it is named, with each difference.
        TimeoutError: A rank did not come; it is named.
    """
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001  (there is no public way, and torch's own use it)
    deadline_s = timeout_s or _DEADLINE_S
    turn, rank, ranks = next(_rounds), dist.get_rank(), dist.get_world_size()
    keys = [f"datafeed/{turn}/{number}" for number in range(ranks)]
    verdict_key = f"datafeed/{turn}/verdict"
    store.set(keys[rank], json.dumps(facts))
    if rank == 0:
        verdict = _judge(store, keys, deadline_s)
        store.set(verdict_key, json.dumps(verdict))
        _forget(store, f"datafeed/{turn - 1}/verdict", turn)
    else:
        verdict = _await_verdict(store, verdict_key, deadline_s)
    _forget(store, f"datafeed/{turn - 1}/{rank}", turn)
    kind, message = verdict
    if kind == "late":
        raise TimeoutError(message)
    if kind == "differ":
        raise StateMismatch(message)


def _judge(store: Store, keys: Sequence[str], deadline_s: float) -> tuple[str, str]:
    end = time.monotonic() + deadline_s
    told: list[dict[str, object]] = []
    late = []
    for number, key in enumerate(keys):
        try:
            store.wait([key], timedelta(seconds=max(0.01, end - time.monotonic())))
        except RuntimeError:  # a wait that ended; each kind of store has its own
            late.append(number)
        else:
            told.append(json.loads(store.get(key)))
    if late:
        return "late", _late(late, deadline_s)
    return _compare(told)


def _compare(told: Sequence[Mapping[str, object]]) -> tuple[str, str]:
    for rank, facts in enumerate(told):
        differ = [
            f"{name} is {facts.get(name)!r} there and {value!r} on rank 0"
            for name, value in told[0].items()
            if name != "reads_as" and facts.get(name) != value
        ]
        if differ:
            return "differ", (
                f"rank {rank} is about to read something else than rank 0: {'; '.join(differ)}. Build the Loader with "
                "the same arguments on all ranks, and load the same state"
            )
    shares = sorted({int(str(facts["reads_as"])) for facts in told})
    if shares != list(range(int(str(told[0]["ranks"])))):
        return "differ", (
            f"the ranks read as {[facts['reads_as'] for facts in told]} of {told[0]['ranks']}: some share of the data "
            "is read by none. Check rank=, world_size= and replicas="
        )
    return "same", ""


def _await_verdict(store: Store, key: str, deadline_s: float) -> tuple[str, str]:
    try:
        store.wait([key], timedelta(seconds=deadline_s + _GRACE_S))
        kind, message = json.loads(store.get(key))
    except RuntimeError as exc:  # of each kind of store, another
        raise TimeoutError(f"{_late([0], deadline_s)} ({exc})") from exc
    return kind, message


def _late(ranks: Sequence[int], deadline_s: float) -> str:
    return (
        f"no sign of rank {', '.join(map(str, ranks))} after {deadline_s:g} s: it is dead, slow, or iterates no Loader "
        "here. Where only some ranks iterate this one, give it rank=0 and world_size=1"
    )


def _forget(store: Store, key: str, turn: int) -> None:
    """Delete a key of the turn before, which all ranks have read: they have come to this one."""
    if turn:
        store.delete_key(key)
