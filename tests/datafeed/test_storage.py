"""Stores: the contract, and what each does when its destination fails."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from store_contract import StoreContract

from datafeed.errors import ConfigError, OutputError, OutputFull
from datafeed.localstore import LocalStore
from datafeed.sizes import format_size
from datafeed.storage import FsspecStore, Store, masked, open_store


class TestLocalStore(StoreContract):
    """A local directory keeps the contract."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        """Give a directory that does not exist yet."""
        return LocalStore(f"{tmp_path}/deep/er")


class TestFsspecStore(StoreContract):
    """An fsspec file system keeps the contract."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """Give an empty memory file system."""
        yield FsspecStore(f"memory://contract/{tmp_path.name}")
        fsspec.filesystem("memory").store.clear()


def test_open_store_picks_by_url(tmp_path: Path) -> None:
    """Paths and file URLs are local, anything else is fsspec's."""
    for local in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/"):
        store = open_store(local)
        assert isinstance(store, LocalStore)
        assert store.url == str(tmp_path)
    assert isinstance(open_store("memory://x"), FsspecStore)


def test_open_store_refuses_what_it_cannot_honour(tmp_path: Path) -> None:
    """Options without effect and unknown protocols are named."""
    with pytest.raises(ConfigError, match="anon"):
        open_store(tmp_path, {"anon": True})
    with pytest.raises(ConfigError, match="nope"):
        open_store("nope://bucket/x")


def test_url_masks_a_password() -> None:
    """A password in a URL is in no message, while the store still uses it."""
    with pytest.raises(ConfigError) as caught:
        open_store("nope://me:secret@host/x")
    assert "secret" not in str(caught.value)
    assert open_store("memory://me:secret@host/x").url == "memory://me:***@host/x"


def test_a_server_that_cannot_be_reached_is_named() -> None:
    """Without the password."""
    with pytest.raises(ConfigError, match=r"cannot reach 'ftp://me:\*\*\*@127.0.0.1:1/x': .*refused"):
        open_store("ftp://me:secret@127.0.0.1:1/x")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://user:se/cret@bucket/x", "s3://user:se/cret@bucket/x"),  # by the rules of URLs this is a host and a port
        ("https://user:se:c@ret@host:80/x@y", "https://user:***@host:80/x@y"),
        ("redis://:secret@host", "redis://:***@host"),
        ("simplecache::https://user:secret@host/x", "simplecache::https://user:***@host/x"),
        ("https://user@host/a:b@c", "https://user@host/a:b@c"),
        ("/data/a:b@c", "/data/a:b@c"),
        ("https://host/a.zip?token=abc&v=2#x", "https://host/a.zip?token=***&v=2#x"),
        (
            "https://h/a?X-Amz-Credential=I%2Fs3&X-Amz-Date=2026&X-Amz-Security-Token=T&X-Amz-Signature=0a",
            "https://h/a?X-Amz-Credential=***&X-Amz-Date=2026&X-Amz-Security-Token=***&X-Amz-Signature=***",
        ),
        ("zip://*.jpg::https://h/a.zip?sv=1&SIG=a%3D:b", "zip://*.jpg::https://h/a.zip?sv=1&SIG=***"),
        ("a::https://h/a?key=k::simplecache::x", "a::https://h/a?key=***::simplecache::x"),
        ("cannot GET 'https://h/a?access_token=t'", "cannot GET 'https://h/a?access_token=***'"),
        ("https://h/a?AWSAccessKeyId=A;api-key=b", "https://h/a?AWSAccessKeyId=***;api-key=***"),
        ("https://h/token=a?keyword=dog&design=b&size=", "https://h/token=a?keyword=dog&design=b&size="),
    ],
)
def test_masked_hides_secrets_alone(url: str, shown: str) -> None:
    """Whatever stands between the user's colon and the last @ before the path; values of a query by their names."""
    assert masked(url) == shown


def test_errors_of_a_file_system_show_no_password() -> None:
    """Not in their text, whether it has the URL or the path, and not in what they come from."""
    store = FsspecStore("memory://me:secret@host/x")
    for action in (store.read, store.size, store.delete, lambda name: store.read_range(name, 0, 1)):
        with pytest.raises(FileNotFoundError) as caught:
            action("gone")
        assert "secret" not in "".join(traceback.format_exception(caught.value))
        assert "***" in str(caught.value)
    file = FsspecStore("memory://me:secret@host/y")
    fsspec.filesystem("memory").pipe_file("/me:secret@host/y", b"")
    with pytest.raises(OutputError) as failed, file.writer("z") as sink:
        sink.write(b"1")
    assert "secret" not in "".join(traceback.format_exception(failed.value))


def test_f01_killed_writer_leaves_no_final_name(tmp_path: Path) -> None:
    """SIGKILL in the middle of a write leaves a temporary name only, which `sweep` deletes."""
    code = f"""
        from datafeed.storage import open_store
        import time
        with open_store({str(tmp_path)!r}).writer("journal/shard") as sink:
            sink.write(b"x" * 100_000)
            print("half", flush=True)
            time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"half\n"
        child.send_signal(signal.SIGKILL)
    store = open_store(tmp_path)
    assert not store.exists("journal/shard")
    assert open_store(tmp_path / "journal").names() == []
    assert len(list((tmp_path / "journal").iterdir())) == 1
    store.sweep()
    assert list((tmp_path / "journal").iterdir()) == []


def test_f02_no_room_is_output_full(tmp_path: Path) -> None:
    """A full file system gives OutputFull with the numbers, and the temporary name is gone."""
    mount = tmp_path / "small"
    mount.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("NOT TESTED: a tmpfs of 64 kB needs root and the right to mount")
    try:
        with (
            pytest.raises(OutputFull, match=r"needs 100\.0 kB at least, (.* kB) and .* are free at") as caught,
            open_store(mount).writer("shard") as sink,
        ):
            sink.write(b"x" * 100_000)
        assert caught.value.errno == errno.ENOSPC
        assert list(mount.iterdir()) == []
        status = os.statvfs(mount)
        assert f" {format_size(status.f_bavail * status.f_frsize)} and" in str(caught.value)  # the partial file is gone
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_f03_failed_write_names_file_and_errno(tmp_path: Path) -> None:
    """A write past RLIMIT_FSIZE fails with EFBIG: OutputError names the file, and nothing is left."""
    code = f"""
        import errno, os, resource
        from datafeed.errors import OutputError, OutputFull
        from datafeed.storage import open_store
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with open_store({str(tmp_path)!r}).writer("shard") as sink:
                sink.write(b"x" * 600)
                sink.write(b"x" * 600)
        except OutputError as exc:
            assert not isinstance(exc, OutputFull)
            assert (exc.errno, exc.filename) == (errno.EFBIG, {str(tmp_path)!r} + "/shard"), exc
            assert os.listdir({str(tmp_path)!r}) == []
            print("as promised")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("as promised\n", "")


def test_f03_destination_inside_a_file_names_it(tmp_path: Path) -> None:
    """A directory that cannot be made is an OutputError with its path."""
    (tmp_path / "file").write_bytes(b"")
    reason = f"cannot write: '{tmp_path}/file' is no directory: .*file/shard"
    with pytest.raises(OutputError, match=reason), open_store(tmp_path / "file").writer("shard"):
        pass


def test_local_store_keeps_few_files_open(tmp_path: Path) -> None:
    """Over 300 objects read, at most 128 descriptors stay open, and closing them warns of nothing."""
    store = open_store(tmp_path)
    before = _descriptors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(300):
            (tmp_path / str(number)).write_bytes(b"%d" % number)
            assert store.read_range(str(number), 0, len(str(number))) == b"%d" % number
    assert _descriptors() - before <= 128
    del store
    assert _descriptors() == before


def test_local_store_reads_in_a_forked_child(tmp_path: Path) -> None:
    """A child uses the descriptors that it inherits, without moving its parent's."""
    store = open_store(tmp_path)
    with store.writer("a") as sink:
        sink.write(bytes(range(100)))
    assert store.read_range("a", 0, 3) == b"\0\1\2"
    code = f"""
        import os, warnings
        from datafeed.storage import open_store
        store = open_store({str(tmp_path)!r})
        store.read_range("a", 0, 3)
        pid = os.fork()
        found = store.read_range("a", 50, 52)
        if not pid:
            os._exit(0 if found == b"23" else 1)
        assert os.waitpid(pid, 0)[1] == 0 and found == b"23"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_names_skip_directories_and_unfinished_writes(tmp_path: Path) -> None:
    """Only plain files count as objects; hidden files of others do."""
    (tmp_path / "folder").mkdir()
    (tmp_path / ".a.1-2.tmp").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    assert open_store(tmp_path).names() == [".hidden", "b"]


def test_delete_removes_the_nested_directory_that_it_empties(tmp_path: Path) -> None:
    """Directories are no objects: an emptied one is not left behind, a filled one stays."""
    store = open_store(tmp_path)
    for name in ("journal/1", "journal/2"):
        with store.writer(name) as sink:
            sink.write(b"x")
    store.delete("journal/1")
    assert (tmp_path / "journal").exists()
    store.delete("journal/2")
    assert not (tmp_path / "journal").exists()


def test_fsspec_store_maps_a_failing_put(tmp_path: Path) -> None:
    """An OSError of the file system becomes OutputError with the object's name."""
    (tmp_path / "file").write_bytes(b"")
    store = FsspecStore(f"local://{tmp_path}/file")
    with pytest.raises(OutputError, match="shard"), store.writer("shard") as sink:
        sink.write(b"x")


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
