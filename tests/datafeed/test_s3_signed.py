"""Test the store of S3 against a server that checks signatures, by each way to give credentials."""

from __future__ import annotations

import logging
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_server import signed_server

from datafeed.errors import AccessRefused, ConfigError, OutputError
from datafeed.s3client import S3Client
from datafeed.s3options import parse_options
from datafeed.s3store import S3Store
from datafeed.storage import open_store

pytestmark = pytest.mark.s3
KEY, SECRET = "SOMEACCESSKEY", "some/secret+key"
DATA = random.Random(2).randbytes(20_000_000)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server with a bucket for the module."""
    with signed_server(tmp_path_factory.mktemp("jfs"), KEY, SECRET) as found:
        given = {"key": KEY, "secret": SECRET, "endpoint_url": found}
        S3Client(parse_options(given)).api.create_bucket(Bucket="bucket")
        yield found


@pytest.fixture
def store(address: str) -> S3Store:
    """Give the bucket."""
    return S3Store("s3://bucket/d", {"key": KEY, "secret": SECRET, "endpoint_url": address})


@pytest.mark.parametrize("name", ["plain", "a b+c&d=e?f#g%20h", "naïve ☃.bin", "deep/er/x", "a//b", "~._-!*'()"])
def test_every_name_is_signed(store: S3Store, name: str) -> None:
    """Whatever has to be escaped in a URL."""
    with store.writer(name) as sink:
        sink.write(b"0123456789")
    assert store.read_range(name, 2, 5) == b"234"
    assert store.read(name) == b"0123456789"
    assert store.size(name) == 10


def test_an_object_of_several_parts_comes_back(store: S3Store) -> None:
    """Uploaded in parts while it is written, in pieces of any size."""
    with store.writer("large") as sink:
        at, sizes = 0, random.Random(3)
        while at < len(DATA):
            step = sizes.choice((1, 1000, 3_000_000, 9_000_000))
            sink.write(memoryview(DATA)[at : at + step])
            at += step
        assert not store.exists("large")
    assert store.size("large") == len(DATA)
    into = bytearray(len(DATA))
    store.read_into("large", 0, memoryview(into))
    assert into == DATA
    assert store.read("large") == DATA


def test_credentials_come_from_wherever_botocore_finds_them(
    store: S3Store, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment, a profile of a file, and fsspec's configuration, with the endpoint from there, too."""
    with store.writer("who") as sink:
        sink.write(b"a")
    (tmp_path / "config").write_text(
        f"[profile mine]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\nendpoint_url={address}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert S3Store("s3://bucket/d", {"profile": "mine"}).read("who") == b"a"
    with pytest.raises(ConfigError, match=r"no credentials were found.*anon=True"):
        S3Store("s3://bucket/d", {"endpoint_url": address}).read("a")
    with pytest.raises(ConfigError, match="profile"):
        S3Store("s3://bucket/d", {"profile": "theirs"}).read("a")
    for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("ENDPOINT_URL", address)):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert open_store("s3://bucket/d").read("who") == b"a"
    assert pickle.loads(pickle.dumps(open_store("s3://bucket/d"))).read("who") == b"a"  # noqa: S301  (our own)


def test_f38_who_is_not_let_in_learns_why(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong secret, an unknown key, nobody: reading, listing and writing; no secret is told or logged."""
    caplog.set_level(logging.WARNING)
    wrong = {"key": KEY, "secret": "a-wrong-secret", "endpoint_url": address}
    unknown = {"key": "NOBODYKNOWSIT", "secret": "a-wrong-secret", "endpoint_url": address}
    for given, said in (
        (wrong, "secret does not belong"),
        (unknown, "does not know that access key"),
        ({"anon": True, "endpoint_url": address}, "anonymously"),
    ):
        store = S3Store("s3://bucket/d", given)
        for action in (
            lambda store=store: store.read("a"),
            store.names,
            lambda store=store: store.read_range("a", 0, 1),
        ):
            with pytest.raises(AccessRefused, match=said) as caught:
                action()
            assert "a-wrong-secret" not in str(caught.value) + repr(store) + caplog.text
        with pytest.raises(OutputError, match=f"cannot write 'a' in s3://bucket/d.*{said}"), store.writer("a") as sink:
            sink.write(b"a")


def test_f07_what_is_left_of_a_killed_upload_is_swept(store: S3Store) -> None:
    """After an exception nothing is left; after a kill, until the next one sweeps."""
    with pytest.raises(KeyError), store.writer("cut") as sink:
        _fail_after(sink.write, DATA)
    calls = store._mine.calls
    assert not calls.call("ListMultipartUploads", given={"Prefix": "d/"}).get("Uploads")
    assert not store.exists("cut")
    sink = store.writer("killed").__enter__()
    sink.write(DATA)  # and no end
    assert calls.call("ListMultipartUploads", given={"Prefix": "d/killed"}).get("Uploads")
    store.sweep()
    assert not calls.call("ListMultipartUploads", given={"Prefix": "d/killed"}).get("Uploads")
    sink.abort()


def _fail_after(write: Callable[[bytes], None], data: bytes) -> None:
    write(data)
    raise KeyError
