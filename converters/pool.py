"""Encode tasks in this process or on Ray, in order."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from datafeed.converters.encode import Part, Recipe, encode_task
from datafeed.converters.tasks import Task
from datafeed.errors import ConfigError, MissingExtra, WorkerLost

if TYPE_CHECKING:
    from ray import ObjectRefGenerator

Encoded = Generator[tuple[Task, Part]]
AHEAD = 2  # tasks that wait for a worker, so that none idles while the driver writes
FLIGHT_NBYTES = 256 * 10**6  # raw bytes in flight per worker: where a task is huge, fewer run at once
RETRIES = 3
INLINE_NBYTES = 64 * 10**6  # raw bytes from which on workers that were asked for are taken at their word
RAY_START_S = 6.0  # what a local Ray takes to start and stop
_CONNECT_S = 10.0
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def encode_inline(recipe: Recipe, tasks: Sequence[Task], first_block: int) -> Encoded:
    """Encode tasks one after the other, on the caller's thread.

    Args:
        recipe: How to encode.
        tasks: What to encode.
        first_block: The block of the first task to begin with.

    Yields:
        Each part with its task, in order.
    """
    for position, task in enumerate(tasks):
        for part in encode_task(recipe, task, 0 if position else first_block):
            yield task, part


def encode_on_ray(recipe: Recipe, tasks: Sequence[Task], first_block: int, workers: int) -> Encoded:
    """Encode tasks on the Ray cluster that this process is connected to.

    At most `workers` + 2 tasks are in flight, and parts travel through Ray's object store, which moves to disk what
    does not fit. A task whose worker or node is lost is run again.

    Args:
        recipe: How to encode.
        tasks: What to encode.
        first_block: The block of the first task to begin with.
        workers: How many tasks to run at once.

    Yields:
        Each part with its task, in order; its arrays lie in the object store and may not be written to.

    Raises:
        WorkerLost: A task lost its worker `RETRIES` times, as when it runs out of memory.
        DatafeedError: Whatever a task raised, with the worker's traceback as its cause.
    """
    import ray

    encode = ray.remote(num_cpus=1, num_returns="streaming", max_retries=RETRIES)(encode_task)
    shared = ray.put(recipe)
    flight: deque[tuple[Task, ObjectRefGenerator]] = deque()
    nbytes = submitted = 0
    try:
        while flight or submitted < len(tasks):
            while submitted < len(tasks) and _room(len(flight), nbytes + tasks[submitted].nbytes, workers):
                task = tasks[submitted]
                flight.append((task, encode.remote(shared, task, 0 if submitted else first_block)))
                nbytes += task.nbytes
                submitted += 1
            task, parts = flight[0]
            yield from _parts(task, parts)
            flight.popleft()
            nbytes -= task.nbytes
    finally:
        for _, parts in flight:
            with suppress(ray.exceptions.RayError):  # the cluster may be what failed
                ray.cancel(parts)


def _room(running: int, nbytes: int, workers: int) -> bool:
    return running == 0 or (running < workers + AHEAD and nbytes <= workers * FLIGHT_NBYTES)


def _parts(task: Task, parts: ObjectRefGenerator) -> Encoded:
    import ray

    names = f"{task.units[0].name} to {task.units[-1].name}" if len(task.units) > 1 else task.units[0].name
    with raised_as_ours(names):
        for part in parts:
            yield task, ray.get(part)


@contextmanager
def raised_as_ours(names: str) -> Iterator[None]:
    """Raise what a task raised on Ray, and what Ray raises of its worker, as errors of ours.

    Args:
        names: What the task works on.

    Raises:
        WorkerLost: The worker died each time.
        DatafeedError: Whatever the task raised, with the worker's traceback as its cause.
    """
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as exc:
        if isinstance(exc.cause, ray.exceptions.RayError):
            raise ConfigError(
                f"a Ray worker cannot load the task: install this version of datafeed-torch on every node. {exc.cause}"
            ) from exc
        raise exc.cause from exc
    except ray.exceptions.RayError as exc:
        raise WorkerLost(
            f"the task of {names} lost its worker {RETRIES + 1} times; was memory short, or does one file of it crash "
            f"its decoder? Try --workers 1. Ray says: {exc}"
        ) from exc


def worth_ray(workers: int | None, ray_address: str | None, nbytes: int, seconds: float) -> bool:
    """Whether several workers are wanted, and save more time than starting Ray takes, or were asked for much.

    Args:
        workers: How many were asked for; None for all cores.
        ray_address: The cluster that was asked for.
        nbytes: Raw bytes of the work.
        seconds: What one worker takes for it, estimated.
    """
    count = workers or cores()
    if count == 1 or ray_address is not None:
        return count > 1
    return seconds * (1 - 1 / count) > RAY_START_S or (workers is not None and nbytes >= INLINE_NBYTES)


@contextmanager
def ray_cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Connect to Ray, and let go at the end.

    Args:
        address: A cluster; None for the one that this process is connected to, RAY_ADDRESS, one that `ray start` began
            on this machine, or else a local one of our own that is stopped at the end.
        workers: How many tasks shall run at once; None for all cores of the cluster.

    Yields:
        How many tasks can run at once.

    Raises:
        MissingExtra: Ray is not installed.
        ConfigError: There is no cluster at the address, or a local one does not start.
    """
    try:
        import ray
    except ImportError as exc:
        raise MissingExtra("ray", "ray", "to convert on several workers (--workers 1 does without)") from exc
    connected = bool(ray.is_initialized())
    if not connected:
        _connect(address, workers or cores())
    elif address not in {None, "auto", found := ray.get_runtime_context().gcs_address}:
        raise ConfigError(f"this process is connected to the Ray cluster at {found}: it cannot use {address!r}")
    try:
        yield workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
    finally:
        if not connected:
            ray.shutdown()


def _connect(address: str | None, workers: int) -> None:
    import ray

    address = address or os.environ.get("RAY_ADDRESS") or None
    if address is not None:
        _check_reachable(address)
    quiet: dict[str, object] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    with _surroundings():
        try:
            if address is not None:
                ray.init(address=address, **quiet)
                return
            with suppress(ValueError):  # a cluster runs, whose number of cores is not ours to say
                ray.init(num_cpus=workers, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
                return
            ray.init(**quiet)
        except Exception as exc:  # (Ray raises bare ones where its processes do not start)
            if address is None and not isinstance(exc, ConnectionError | ValueError):
                raise ConfigError(f"a local Ray cannot be started: {exc}; {_WITHOUT}") from exc
            raise ConfigError(f"no Ray cluster at {address or 'any address that Ray knows'}: {exc}; {_NEXT}") from exc


def _check_reachable(address: str) -> None:
    """Refuse an address at which no server of Ray's answers: Ray itself would try for minutes.

    Its servers speak gRPC, so they answer an HTTP/2 preface with their settings (RFC 9113, section 3.4).
    """
    if address in _WORDS:
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in host:
        raise ConfigError(f"expected a Ray address as HOST:PORT or ray://HOST:PORT, found {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as server:
            server.sendall(_PREFACE)
            answer = server.recv(9)
    except (OSError, OverflowError) as exc:
        raise ConfigError(f"no Ray cluster at {address}: {exc}; {_NEXT}") from exc
    if answer[3:4] != _SETTINGS:
        raise ConfigError(f"no Ray cluster at {address}: something else answers there, {answer!r}; {_NEXT}")


_WORDS = ("auto", "local")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
_SETTINGS = b"\x04"
_WITHOUT = "its logs are in session_latest/logs, under /tmp/ray or RAY_TMPDIR; --workers 1 does without Ray"
_NEXT = "is it running (`ray start --head`), and is the port that of its GCS? Without an address a local Ray is started"


@contextmanager
def _surroundings() -> Iterator[None]:
    """Set what Ray reads from the environment only, and pass on to its workers where this process finds modules."""
    wanted = {**_QUIET, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = {name: os.environ.get(name) for name in wanted}
    log = logging.getLogger("ray")  # it warns of its own defaults at each start
    level = log.level
    os.environ.update(wanted)
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
