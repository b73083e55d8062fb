"""Test that storage options of S3 mean what they mean to s3fs."""

from __future__ import annotations

import pytest
from botocore.awsrequest import AWSPreparedRequest
from fsspec.config import conf
from s3fs import S3FileSystem

from datafeed.errors import ConfigError
from datafeed.s3client import S3Client
from datafeed.s3options import bucket_of, parse_options
from datafeed.wire import Request

GIVEN = [
    {"key": "k", "secret": "s"},
    {"username": "k", "password": "s", "token": "t"},
    {"key": "k", "secret": "s", "client_kwargs": {"region_name": "eu-west-3", "aws_access_key_id": "other"}},
    {"anon": True, "key": "k", "secret": "s"},
    {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    },
    {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://x.test",
        "config_kwargs": {"s3": {"addressing_style": "virtual"}},
    },
    {"key": "k", "secret": "s", "use_ssl": False},
    {"key": "k", "secret": "s", "requester_pays": True},
    {"key": "k", "secret": "s", "s3_additional_kwargs": {"ServerSideEncryption": "AES256", "ExpectedBucketOwner": "1"}},
    {"key": "k", "secret": "s", "config_kwargs": {"signature_version": "s3"}},
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_a_get_is_what_s3fs_would_send(given: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same URL, and the same identity, region and headers in its signature."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    head = ""
    while head != (head := (ours := _sent_by_us(given)).head.decode()):  # again where a second passed, which is signed
        request = _sent_by_s3fs(given)
    scheme, rest = str(request.url).split("://")
    host, path = rest.split("/", 1)
    lines = head.split("\r\n")
    assert lines[0] == f"GET /{path} HTTP/1.1"
    assert lines[1] == f"Host: {host}"
    assert ours.route.scheme == scheme
    mine = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[2:] if line)}
    yours = {name.lower(): _text(value) for name, value in request.headers.items()}
    assert (
        mine.get("authorization", "").split("Signature=")[0][:60]
        == yours.get("authorization", "").split("Signature=")[0][:60]
    )
    for name in ("x-amz-security-token", "x-amz-request-payer", "x-amz-expected-bucket-owner"):
        assert mine.get(name) == yours.get(name)


def _sent_by_us(given: dict[str, object]) -> Request:
    """Return the request of a client of its own, which remembers no signature."""
    options = parse_options(given)
    client = S3Client(options)
    return client.get("bucket", "a b/c", client.takes("GetObject", options.extra), {})


def _sent_by_s3fs(given: dict[str, object]) -> AWSPreparedRequest:
    """Return the request that s3fs would send."""
    theirs = S3FileSystem(**given, skip_instance_cache=True)
    if given.get("client_kwargs"):
        theirs.client_kwargs = {"region_name": "eu-west-3"}  # it refuses what is said twice
    found: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: object) -> None:
        found.append(request)
        raise RuntimeError("caught")

    theirs.connect()
    theirs.s3.meta.events.register("before-send.s3.GetObject", catch)
    with pytest.raises(RuntimeError, match="caught"):
        theirs.call_s3("get_object", Bucket="bucket", Key="a b/c")
    return found[0]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kee": "k"}, r"\['kee'\] are unknown to S3: it takes anon, client_kwargs"),
        ({"session": object()}, "profile="),
        ({"key": "k"}, "go together"),
        ({"key": "k", "username": "k"}, "say the same"),
        ({"client_kwargs": "region_name=x"}, "client_kwargs is a mapping"),
        ({"client_kwargs": {"config": 1}}, "config_kwargs"),
        ({"retry_deadline": "soon"}, "retry_deadline is a number"),
        ({"retry_deadline": 0}, "retry_deadline is a number"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(given: dict[str, object], said: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigError, match=said):
        parse_options(given)


def test_options_that_botocore_refuses_are_an_error_of_the_settings() -> None:
    """With its reason."""
    with pytest.raises(ConfigError, match="nope"):
        S3Client(parse_options({"key": "k", "secret": "s", "config_kwargs": {"nope": 1}}))
    with pytest.raises(ConfigError, match="not usable"):
        S3Client(parse_options({"key": "k", "secret": "s", "endpoint_url": "no url"}))


def test_no_secret_is_shown() -> None:
    """Not by the options' own representation."""
    given = {
        "key": "k",
        "secret": "hidden1",
        "token": "hidden2",
        "config_kwargs": {"proxies": {"http": "http://u:hidden3@p"}},
    }
    assert "hidden" not in repr(parse_options(given))


def test_fsspec_configuration_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for s3fs: below what is given."""
    monkeypatch.setitem(conf, "s3", {"endpoint_url": "http://configured", "anon": True})
    assert parse_options(None).client["endpoint_url"] == "http://configured"
    assert parse_options({"anon": False}).anonymous is False


def test_retries_of_botocore_are_ours() -> None:
    """Its number of attempts is kept, and its own attempts are off."""
    options = parse_options({"config_kwargs": {"retries": {"max_attempts": 4}}})
    assert options.retry.attempts == 5
    assert parse_options({"config_kwargs": {"retries": {"total_max_attempts": 2}}}).retry.attempts == 2
    assert S3Client(options).api.meta.config.retries["total_max_attempts"] == 1


@pytest.mark.parametrize(
    ("url", "bucket", "folder"),
    [
        ("s3://b", "b", ""),
        ("s3a://b/a/c/", "b", "a/c"),
        (
            "s3://arn:aws:s3:us-west-2:123456789012:accesspoint/mine/a/c",
            "arn:aws:s3:us-west-2:123456789012:accesspoint/mine",
            "a/c",
        ),
        (
            "s3://arn:aws:s3:us-west-2:123456789012:accesspoint:mine",
            "arn:aws:s3:us-west-2:123456789012:accesspoint:mine",
            "",
        ),
    ],
)
def test_a_url_names_a_bucket(url: str, bucket: str, folder: str) -> None:
    """Or an access point."""
    assert bucket_of(url) == (bucket, folder)


@pytest.mark.parametrize("url", ["s3://", "s3:///a", "s3://me:hidden@bucket/a"])
def test_a_url_without_a_bucket_is_refused(url: str) -> None:
    """Without repeating what may be a secret."""
    with pytest.raises(ConfigError) as caught:
        bucket_of(url)
    assert "hidden" not in str(caught.value)
