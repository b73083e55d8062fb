"""Test the store of S3 against replies that are wrong in every way, each fault by its number."""

from __future__ import annotations

import faulthandler
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from s3_faulty import DATA, KEYS, always, once, served

from datafeed.errors import (
    AccessRefused,
    BadReply,
    ConfigError,
    CredentialsExpired,
    ObjectChanged,
    RemoteUnavailable,
    ShardMissing,
    TruncatedShard,
)
from datafeed.faults import Ask, Fault
from datafeed.s3store import S3Store


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """End a test that hangs, with all stacks."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", status=503, code="SlowDown"),
        Fault("status", status=500, code="InternalError"),
        Fault("status", status=502, code=""),
        Fault("status", status=504, code=""),
        Fault("status", status=400, code="RequestTimeout"),
        Fault("status", status=503, code="SlowDown", headers={"Retry-After": "1"}),
        Fault("reset"),
        Fault("reset", 1000),
        Fault("reset", 700_000),
        Fault("close", 700_000),
        Fault("short", 10),
        Fault("long", 10),
        Fault("range"),
        Fault("whole"),
        Fault("html"),
        Fault("garbage"),
        Fault("stall", 1000, seconds=20),
        Fault("stall", 0, seconds=20),
        Fault("trickle", 1000),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.nbytes}-{fault.status}-{fault.code}",
)
def test_f31_to_f35_a_passing_fault_is_survived(fault: Fault) -> None:
    """One reply in error, broken off, of a wrong length or range, a page, nothing: the bytes are right all the same."""
    with served(once(fault)) as (server, store):
        assert store.read_range("a", 10, 999_990) == DATA[10:999_990]
        assert server.gets == 2
        assert store.stats().retries == 1
        assert store.read("a") == DATA


def test_f31_throttling_slows_down_and_says_so_at_last() -> None:
    """Fewer requests at once; after the deadline an error that names the object, the reply and what to do."""
    with served(lambda ask: Fault("status") if ask.nth < 2 else None) as (_, store), ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: store.read_range("a", i * 1000, i * 1000 + 1000), range(64)))
        assert b"".join(found) == DATA[:64_000]
        assert store.stats().throttled >= 64
    said = r"s3://bucket/d/a.*503 SlowDown.*request R\d+.*too often"
    with (
        served(always(Fault("status")), retry_deadline=0.4) as (_, store),
        pytest.raises(RemoteUnavailable, match=said),
    ):
        store.read_range("a", 0, 10)


def test_f32_a_server_that_is_not_there_is_named_soon() -> None:
    """Nobody listens, or the name is unknown: not the five minutes of an outage, but the shorter deadline."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for url, said in (
        (f"http://127.0.0.1:{port}", "refused"),
        ("http://no.such.host.invalid", "name|resolution|address"),
    ):
        store = S3Store("s3://bucket/d", {**KEYS, "endpoint_url": url, "retry_deadline": 0.3})
        for action in (
            store.size,
            lambda name, store=store: store.read_range(name, 0, 1),
            lambda _, store=store: store.names(),
        ):
            with pytest.raises(RemoteUnavailable, match=f"(?i)({said}|could not connect).*address right"):
                action("a")


def test_f33_a_read_goes_on_where_it_broke_off_with_the_same_version() -> None:
    """By a range from the last byte that came, on condition of the ETag."""
    seen: list[Ask] = []

    def script(ask: Ask) -> Fault | None:
        seen.append(ask)
        return Fault("reset", 600_000) if len(seen) < 2 else None

    with served(script) as (server, store):
        assert store.read_range("a", 100, 1_000_000) == DATA[100:]
        assert seen[1].start is not None
        assert 100 < seen[1].start <= 600_100
        assert seen[1].headers["if-match"] == server.found("bucket/d/a").etag  # type: ignore[union-attr]  # it is there


def test_f33_f36_two_versions_are_never_mixed() -> None:
    """The object is replaced while a read is broken off."""
    other = bytes(len(DATA))

    def script(ask: Ask) -> Fault | None:
        if ask.number:
            return None
        threading.Timer(0.01, server.objects.update, [{"bucket/d/a": other}]).start()  # type: ignore[union-attr]  # a dict
        return Fault("reset", 500_000)

    with served(script) as (server, store):
        with pytest.raises(ObjectChanged, match=r"s3://bucket/d/a was replaced"):
            store.read_range("a", 0, 1_000_000)
        assert store.read_range("a", 0, 1_000_000) == other  # whoever reads anew gets the new one, whole


@pytest.mark.parametrize("local_check", [False, True])
def test_f36_an_object_replaced_between_reads_is_found(local_check: bool) -> None:  # noqa: FBT001  (pytest's parameters)
    """By the server where it compares ETags, and by the store where it does not; a write of one's own is no such."""
    with served(local_expiry_check=local_check) as (server, store):
        store.read_range("a", 0, 10)
        server.objects = {"bucket/d/a": DATA[::-1]}
        with pytest.raises(ObjectChanged):
            store.read_range("a", 10, 20)
        assert store.read_range("a", 10, 20) == DATA[::-1][10:20]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("short", 10), "expected 999980 bytes, and got a reply with 999970"),
        (Fault("long", 10), "expected 999980 bytes, and got a reply with 999990"),
        (Fault("range"), "asked for bytes 10 to 999990, and got bytes 11 to 999991"),
        (Fault("whole"), "status 200, 206 expected"),
        (Fault("html"), "text/html: a proxy's or a login page, no object"),
        (Fault("close", 0), "expected 999980 bytes, and the connection was closed after 0"),
        (Fault("garbage"), "no reply of HTTP: b'SSH-2.0"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_f34_f35_f43_what_stays_wrong_is_told(fault: Fault, said: str) -> None:
    """After a second attempt, with what was expected and what came."""
    with served(always(fault)) as (server, store):
        with pytest.raises(BadReply, match=said):
            store.read_range("a", 10, 999_990)
        assert server.gets == 2


def test_f34_the_end_of_an_object_is_no_short_body() -> None:
    """It says where the object ends, at once."""
    with served() as (server, store):
        for start, end in ((999_990, 1_000_001), (1_000_000, 1_000_001), (5_000_000, 6_000_000)):
            with pytest.raises(TruncatedShard, match="ends at 1000000"):
                store.read_range("a", start, end)
        assert server.gets == 3
        assert store.size("empty") == 0
        assert store.read("empty") == b""


def test_f37_a_deleted_object_is_missing_at_once() -> None:
    """Also one of a bucket that is not there, which is told apart."""
    with served() as (server, store):
        store.read_range("a", 0, 1)
        server.objects = {}
        with pytest.raises(ShardMissing, match=r"no object 'd/a' in the bucket 'bucket'"):
            store.read_range("a", 1, 2)
        assert server.gets == 2
        server.script = always(Fault("status", status=404, code="NoSuchBucket"))
        with pytest.raises(ShardMissing, match=r"no bucket 'bucket' at http://127"):
            store.read_range("a", 1, 2)


def test_f38_f88_expired_credentials_are_looked_for_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 threads find that they have expired; the environment was renewed meanwhile: all go on."""
    for name, value in (("ACCESS_KEY_ID", "OLDKEY"), ("SECRET_ACCESS_KEY", "s"), ("SESSION_TOKEN", "old")):
        monkeypatch.setenv(f"AWS_{name}", value)
    expired = Fault("status", status=400, code="ExpiredToken")
    none = dict.fromkeys(KEYS)
    with served(lambda ask: expired if ask.headers.get("x-amz-security-token") == "old" else None, **none) as (
        _,
        store,
    ):
        with pytest.raises(
            CredentialsExpired, match=r"400 ExpiredToken.*at 20.*key \.\.\.DKEY from env.*renew"
        ) as caught:
            store.read_range("a", 0, 1)
        assert "old" not in str(caught.value)
        monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
        with ThreadPoolExecutor(32) as pool:
            assert len(set(pool.map(lambda _: store.read_range("a", 0, 5), range(64)))) == 1
        assert store._mine.calls.client.made == 3  # at first, in vain, and once for all threads


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (
            Fault("status", status=403, code="AccessDenied"),
            AccessRefused,
            r"127.0.0.1.*access key \.\.\.EKEY from storage_options",
        ),
        (Fault("status", status=403, code="SignatureDoesNotMatch"), AccessRefused, "secret does not belong"),
        (
            Fault("status", status=403, code="RequestTimeTooSkewed", headers={"Date": "Mon, 01 Jan 2024 00:00:00 GMT"}),
            AccessRefused,
            r"clock is \d+ min ahead of the server's",
        ),
        (
            Fault("status", status=301, code="PermanentRedirect", extra={"Region": "eu-west-3"}),
            ConfigError,
            "region 'eu-west-3'",
        ),
        (Fault("status", status=307, code="TemporaryRedirect"), ConfigError, "in another region"),
        (
            Fault("status", status=400, code="AuthorizationHeaderMalformed", extra={"Region": "x"}),
            ConfigError,
            "region 'x'",
        ),
        (Fault("status", status=403, code="InvalidObjectState"), AccessRefused, "archive.*restore"),
        (
            Fault("status", status=403, code="AccessDenied", extra={"Message": "kms:Decrypt"}),
            AccessRefused,
            "key of KMS",
        ),
        (
            Fault("status", status=403, code="AccessDenied", extra={"Message": "Requester pays"}),
            AccessRefused,
            "requester_pays=True",
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Fault) else "",
)
def test_f38_to_f40_what_is_refused_says_why(fault: Fault, kind: type[Exception], said: str) -> None:
    """One request, one error with the next step, and no secret in it."""
    with served(always(fault)) as (server, store):
        for count, action in enumerate(
            (lambda: store.read_range("a", 0, 9), lambda: store.read("a"), lambda: store.size("a")), 1
        ):
            with pytest.raises(kind, match=said) as caught:
                action()
            assert not {"do-not-tell", "nor-this"} & set(str(caught.value).split())
            assert server.gets == count
        assert "do-not-tell" not in repr(store) + repr(vars(store)["_options"])
