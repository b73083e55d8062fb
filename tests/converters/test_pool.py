"""Test that Ray makes the bytes that one process makes."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from numbered import Numbered, digests
from processes import ended, wait_until

from datafeed.converters import pool
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.pool import _connect, ray_cluster, worth_ray
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.errors import BadItem, ConfigError, SourceChanged, WorkerLost

SMALL = ConvertOptions(shard_size=4000, block_size=700, on_error="quarantine")
SOURCE = Numbered(600, bad=frozenset({3, 210, 599}))


def _with(workers: int | None, **changes: object) -> ConvertOptions:
    return dataclasses.replace(SMALL, workers=workers, **changes)  # type: ignore[arg-type]  # tests name real options


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the digests that one process makes."""
    out = tmp_path_factory.mktemp("inline")
    assert convert(SOURCE, str(out), _with(1)).ran_on == "inline"
    return digests(out)


@pytest.mark.parametrize("workers", [2, 3, None])
def test_any_number_of_ray_workers_makes_the_same_bytes(
    tmp_path: Path, ray_workers: int, inline: dict[str, str], workers: int | None
) -> None:
    """Shards, index, manifest and quarantine are the same, byte for byte, and Ray really ran."""
    report = convert(SOURCE, str(tmp_path), _with(workers))
    assert (report.ran_on, report.workers) == ("ray", workers or ray_workers)
    assert digests(tmp_path) == inline


@pytest.mark.usefixtures("ray_workers")
def test_limit_on_ray_makes_the_same_bytes(tmp_path: Path) -> None:
    """A limit that cuts a block of a later task gives what one process gives."""
    for name, workers in (("one", 1), ("ray", 2)):
        assert convert(SOURCE, str(tmp_path / name), _with(workers, limit=237)).records == 237
    assert digests(tmp_path / "one") == digests(tmp_path / "ray")


@pytest.mark.usefixtures("ray_workers")
def test_run_begun_inline_is_finished_on_ray(tmp_path: Path, inline: dict[str, str]) -> None:
    """A conversion that stopped in the middle of a task goes on elsewhere, with the same bytes in the end."""

    def stop(_: object) -> None:
        if len(list(tmp_path.glob("shard-*"))) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(dataclasses.replace(SOURCE, read_s=0.03), str(tmp_path), _with(1), on_progress=stop)
    report = convert(SOURCE, str(tmp_path), _with(2))
    assert report.ran_on == "ray"
    assert report.resumed >= 2
    assert digests(tmp_path) == inline


@dataclasses.dataclass(frozen=True)
class Deadly(Numbered):
    """Kill the process that reads the sixth unit, as often as there are files to count with."""

    driver: int = 0
    lives: tuple[str, ...] = ()

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit, or die."""
        for number, chunk in enumerate(super().read(unit, on_bad)):
            if unit.name == "rows#9" and number == 1 and os.getpid() != self.driver:
                for life in map(Path, self.lives):
                    if life.exists():
                        life.unlink()
                        os.kill(os.getpid(), signal.SIGKILL)
            yield chunk


def _deadly(folder: Path, deaths: int) -> Deadly:
    lives = [folder / f"life{number}" for number in range(deaths)]
    for life in lives:
        life.write_bytes(b"")
    fields = {field.name: getattr(SOURCE, field.name) for field in dataclasses.fields(SOURCE)}
    return Deadly(**fields, driver=os.getpid(), lives=tuple(map(str, lives)))


@pytest.mark.usefixtures("ray_workers")
def test_lost_worker_only_repeats_its_task(tmp_path: Path, inline: dict[str, str]) -> None:
    """A worker that is killed twice in the middle of a task costs nothing but time."""
    source = _deadly(tmp_path, 2)
    report = convert(source, str(tmp_path / "out"), _with(2))
    assert report.ran_on == "ray"
    assert not list(tmp_path.glob("life*"))
    assert digests(tmp_path / "out") == inline


@pytest.mark.slow
@pytest.mark.usefixtures("ray_workers")
def test_worker_lost_again_and_again_names_the_task(tmp_path: Path) -> None:
    """A task that kills every worker ends the conversion with its name and what to try."""
    with pytest.raises(WorkerLost, match=r"rows#9 lost its worker 4 times.*--workers 1"):
        convert(_deadly(tmp_path, 9), str(tmp_path / "out"), _with(2))
    assert list((tmp_path / "out").glob("shard-*"))
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.usefixtures("ray_workers")
def test_error_on_a_worker_keeps_its_class(tmp_path: Path) -> None:
    """What a worker raises reaches the caller as it is: a bad item with its place."""
    with pytest.raises(BadItem, match="rows:3: it is bad") as caught:
        convert(SOURCE, str(tmp_path / "out"), _with(2, on_error="raise"))
    assert caught.value.where == "rows:3"


@dataclasses.dataclass(frozen=True)
class Spoiled(Numbered):
    """Change a file when another unit is read on a worker."""

    driver: int = 0

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit."""
        if unit.name == "rows#9" and os.getpid() != self.driver:
            Path(self.folder, "9").write_bytes(b"changed")
        yield from super().read(unit, on_bad)


@pytest.mark.usefixtures("ray_workers")
def test_f05_source_changed_on_a_worker(tmp_path: Path) -> None:
    """A file that changes while a worker reads it is found afterwards."""
    for number in range(12):
        (tmp_path / str(number)).write_bytes(b"x")
    source = Spoiled(600, folder=str(tmp_path), driver=os.getpid())
    with pytest.raises(SourceChanged, match="/9 changed"):
        convert(source, str(tmp_path) + ".out", _with(2))


@pytest.mark.usefixtures("ray_workers")
def test_another_address_than_the_connected_one_is_refused() -> None:
    """A process that is connected to one Ray cluster cannot be sent to another."""
    with pytest.raises(ConfigError, match="connected to the Ray cluster at"), ray_cluster("10.0.0.1:6379", 2):
        pass


@pytest.mark.parametrize("form", ["{}", "ray://{}"])
def test_address_without_a_cluster_is_refused_at_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens, the error names the address and the next step; Ray itself would try for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = form.format(f"127.0.0.1:{port}")
    with pytest.raises(ConfigError, match=rf"no Ray cluster at {address}: .*`ray start --head`"):
        _connect(address, 2)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=rf"no Ray cluster at {address}: "):
        _connect(None, 2)


def test_a_server_that_is_not_ray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing is waited for no longer than the limit, one that says something else is named."""
    monkeypatch.setattr(pool, "_CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match="timed out"):
            _connect(address, 2)
        answers = threading.Thread(target=_answer, args=(server,))
        answers.start()
        with pytest.raises(ConfigError, match=r"something else answers there, b'HTTP/1\.1 '"):
            _connect(address, 2)
        answers.join(60)


def _answer(server: socket.socket) -> None:
    for _ in range(2):  # the first connection is the one that timed out
        client, _ = server.accept()
        with client, suppress(OSError):
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("address", ["head-node", "10.0.0.1:", ":6379", "http://10.0.0.1:6379", "10.0.0.1:ray"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    """With the forms that there are."""
    with pytest.raises(ConfigError, match=r"expected a Ray address as HOST:PORT or ray://HOST:PORT"):
        _connect(address, 2)


UNSTARTED = """
from datafeed.converters import pool
from datafeed.errors import ConfigError
try:
    with pool.ray_cluster(None, 2):
        pass
except ConfigError as exc:
    print(exc)
"""


@pytest.mark.parametrize(("folder", "reason"), [("x" * 100, "path length"), ("file", "Not a directory")])
def test_a_local_ray_that_does_not_start_is_named(tmp_path: Path, folder: str, reason: str) -> None:
    """Ray raises whatever it meets: here its sockets' paths are too long, or its folder is a file."""
    (tmp_path / "file").touch()
    given = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment = {**given, "RAY_TMPDIR": str(tmp_path / folder)}
    done = subprocess.run(
        [sys.executable, "-c", UNSTARTED], env=environment, capture_output=True, text=True, check=True
    )
    assert re.match(f"a local Ray cannot be started: .*{reason}.*--workers 1 does without", done.stdout)


LOCAL = """
import sys, psutil
from numbered import Numbered
from datafeed.converters import pool
from datafeed.converters.convert import ConvertOptions, convert
if __name__ == "__main__":
    report = convert(Numbered(200), sys.argv[1], ConvertOptions(workers=2))
    left = [process.name() for process in psutil.Process().children(recursive=True)]
    print(report.ran_on, report.records, left)
"""
LONG = """
import sys
from numbered import Numbered
from datafeed.converters import pool
from datafeed.converters.convert import ConvertOptions, convert
convert(Numbered(300_000, read_s=0.2), sys.argv[1], ConvertOptions(workers=2, shard_size=4000, block_size=700))
"""
OWN_RAYS = {"local": LOCAL, signal.SIGINT: LONG, signal.SIGKILL: LONG}
Child = subprocess.Popen[str]


@pytest.fixture(scope="module")
def own_rays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[object, tuple[Path, Child]]]:
    """Start conversions with a Ray of their own, at once: each takes seconds until it converts."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    found: dict[object, tuple[Path, Child]] = {}
    for name, code in OWN_RAYS.items():
        out = tmp_path_factory.mktemp("own")
        command = [sys.executable, "-c", code, str(out)]
        found[name] = out, subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)
    yield found
    for _, child in found.values():
        if child.poll() is None:  # its test was not selected, or failed
            _kill(psutil.Process(child.pid).children(recursive=True))
            child.kill()
        child.communicate()


@pytest.fixture(scope="module", autouse=True)
def _own_rays_first(request: pytest.FixtureRequest) -> None:
    """Start them before the first test of the module, if one that needs them is selected."""
    if any("own_rays" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("own_rays")


@pytest.mark.slow
def test_local_ray_ends_with_the_conversion(own_rays: dict[object, tuple[Path, Child]]) -> None:
    """A conversion starts a Ray of its own, finds modules there, stops it, and leaves no process or line behind."""
    assert own_rays["local"][1].communicate() == ("ray 200 []\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_conversion_leaves_no_ray_behind(
    own_rays: dict[object, tuple[Path, Child]], number: signal.Signals
) -> None:
    """Ctrl-C and a kill both end the Ray that the conversion started; the shards that were finished stay.

    After a kill two agents of Ray's own live on for a minute; what works for the conversion does not.
    """
    out, child = own_rays[number]
    wait_until(lambda: bool(list(out.glob("shard-*"))) or child.poll() is not None)
    assert child.poll() is None, child.communicate()[1]
    started = psutil.Process(child.pid).children(recursive=True)
    working = [process for process in started if "agent" not in " ".join(process.cmdline()).lower()]
    child.send_signal(number)
    child.wait(60)
    wait_until(lambda: all(map(ended, working)))
    assert len(working) > 3
    _kill(started)
    assert not (out / "dataset.json").exists()


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize(
    ("workers", "nbytes", "seconds", "worth"),
    [
        (1, 10**12, 10**6, False),
        (None, 10**12, 1.0, False),
        (None, 10, 10**6, True),
        (2, 10**6, 5.0, False),
        (2, 10**6, 60.0, True),
        (2, 10**8, 1.0, True),
    ],
)
def test_ray_is_started_for_what_is_long_or_was_asked_for(
    workers: int | None, nbytes: int, seconds: float, *, worth: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few bytes that take long are worth it, and many of which two workers were asked for."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert worth_ray(workers, None, nbytes, seconds) is worth
