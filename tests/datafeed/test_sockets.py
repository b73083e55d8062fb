"""Test how a server is reached: by TLS, through proxies, at each address of its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from relays import certificate, relay
from s3_faulty import DATA, KEYS

from datafeed.errors import ConfigError, RemoteError, RemoteUnavailable
from datafeed.faultserver import FaultServer
from datafeed.s3store import S3Store


def _store(url: str, **given: object) -> S3Store:
    return S3Store("s3://bucket/d", {**KEYS, "endpoint_url": url, "retry_deadline": 2, **given})


def test_a_server_is_read_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose certificate is trusted by an option or the environment; not trusted, it is refused at once."""
    files = certificate(tmp_path)
    with FaultServer({"bucket/d/a": DATA}) as server, relay(server.url.removeprefix("http://"), files) as (port, heads):
        url = f"https://127.0.0.1:{port}"
        for action in (lambda store: store.read_range("a", 0, 9), lambda store: store.names()):
            with pytest.raises(RemoteError, match=r"certificate is not trusted.*AWS_CA_BUNDLE") as caught:
                action(_store(url))
            assert not isinstance(caught.value, RemoteUnavailable)
        for given in ({"client_kwargs": {"verify": files[0]}}, {"client_kwargs": {"verify": False}}):
            store = _store(url, **given)
            for _ in range(3):
                assert store.read_range("a", 10, 900_000) == DATA[10:900_000]
        assert len(heads) == 2
        monkeypatch.setenv("AWS_CA_BUNDLE", files[0])
        assert _store(url).read("a") == DATA


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_proxy_is_asked_as_proxies_are(tmp_path: Path, secure: bool) -> None:  # noqa: FBT001  (pytest's parameters)
    """By whole URLs or a tunnel, with its user and password, which no error tells."""
    files = certificate(tmp_path)
    with FaultServer({"bucket/d/a": DATA}) as server, relay(server.url.removeprefix("http://"), files) as (tls_port, _):
        place = f"127.0.0.1:{tls_port}" if secure else "s3.invalid:80"
        with relay(place if secure else server.url.removeprefix("http://")) as (port, heads):
            url = f"https://{place}" if secure else "http://s3.invalid"
            proxies = {"https" if secure else "http": f"http://me:pass%20word@127.0.0.1:{port}"}
            store = _store(url, config_kwargs={"proxies": proxies}, client_kwargs={"verify": files[0]})
            assert store.read_range("a", 10, 900_000) == DATA[10:900_000]
            begin = f"CONNECT {place} HTTP/1.1" if secure else "GET http://s3.invalid/bucket/d/a HTTP/1.1"
            assert heads[0].decode().startswith(begin)
            assert b"Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk" in heads[0]
            assert "word" not in repr(store._mine.calls.client.connections.wiring)


def test_proxies_of_the_environment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for hosts that are excepted."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    with FaultServer({"bucket/d/a": DATA}) as server:
        with pytest.raises(RemoteUnavailable, match="refused"):
            _store(server.url, retry_deadline=0.2).read("a")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert _store(server.url).read("a") == DATA


def test_each_address_of_a_name_is_tried() -> None:
    """Of localhost, the first may be one where nobody listens."""
    with FaultServer({"bucket/d/a": DATA}) as server:
        assert _store(server.url.replace("127.0.0.1", "localhost")).read_range("a", 5, 9) == DATA[5:9]


def test_a_proxy_over_tls_is_refused_by_name() -> None:
    """It would be reached by plain http."""
    with pytest.raises(ConfigError, match="proxies_config"):
        _store("http://127.0.0.1:9", config_kwargs={"proxies_config": {"proxy_ca_bundle": "x"}}).read("a")
