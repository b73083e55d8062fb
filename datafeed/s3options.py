"""Read the storage options of S3, with the meaning that s3fs gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from datafeed.errors import ConfigError
from datafeed.retry import RetryPolicy

_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# What s3fs takes and what changes nothing about whole objects and their ranges.
_WITHOUT_EFFECT = frozenset(
    {
        "asynchronous",
        "cache_regions",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "fixed_upload_size",
        "listings_expiry_time",
        "loop",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
        "version_aware",
    }
)
_KNOWN = frozenset(
    {
        "anon",
        "client_kwargs",
        "config_kwargs",
        "endpoint_url",
        "hedge",
        "key",
        "local_expiry_check",
        "max_concurrency",
        "password",
        "profile",
        "requester_pays",
        "retry_deadline",
        "s3_additional_kwargs",
        "secret",
        "token",
        "use_ssl",
        "username",
    }
)
_ARN = re.compile(r"arn:[^/]*:(?:outpost[:/][^/:]+[:/])?(?:accesspoint|bucket)[:/][^/]+")


@dataclass(frozen=True, slots=True)
class S3Options:
    """Say how a bucket is reached.

    Attributes:
        client: For botocore's `create_client`, secrets among them.
        config: For `botocore.config.Config`.
        profile: A profile of AWS's files, where one is named.
        anonymous: Whether requests go unsigned.
        extra: Parameters of requests, for those that have them.
        if_match: Whether the server understands a condition on an ETag; else ETags are compared here.
        hedge: Whether late GETs are asked a second time.
        uploads: Parts of one object that are uploaded at once.
        retry: How failures are met.
    """

    client: Mapping[str, object] = field(repr=False)
    config: Mapping[str, object] = field(repr=False)  # proxies may hold a password
    profile: str | None
    anonymous: bool
    extra: Mapping[str, object] = field(repr=False)
    if_match: bool
    hedge: bool
    uploads: int
    retry: RetryPolicy


def parse_options(given: Mapping[str, object] | None) -> S3Options:
    """Read storage options.

    Args:
        given: As s3fs takes them, and as fsspec's own configuration adds to them; beside those `hedge` (bool) and
            `retry_deadline` (seconds).

    Returns:
        What they ask for.

    Raises:
        ConfigError: One is unknown, or two exclude each other.
    """
    options = {**_configured(), **(given or {})}
    _check_names(options)
    anonymous = bool(options.get("anon", False))
    client = _client(options, anonymous=anonymous)
    config = {"connect_timeout": 5, "read_timeout": 15, **_mapping(options, "config_kwargs")}
    retry = RetryPolicy(
        deadline_s=_number(options, "retry_deadline", RetryPolicy().deadline_s),
        attempts=_attempts(config.pop("retries", None)),
    )
    extra = _mapping(options, "s3_additional_kwargs")
    if options.get("requester_pays"):
        extra = {"RequestPayer": "requester", **extra}
    return S3Options(
        client=client,
        config=config,
        profile=_text(options, "profile"),
        anonymous=anonymous,
        extra=extra,
        if_match=not options.get("local_expiry_check"),
        hedge=bool(options.get("hedge", True)),
        uploads=min(max(int(_number(options, "max_concurrency", 3)), 1), 3),
        retry=retry,
    )


def bucket_of(url: str) -> tuple[str, str]:
    """Return the bucket, or the access point's ARN, and the key's beginning that an S3 URL names.

    Raises:
        ConfigError: It names no bucket.
    """
    path = url.partition("://")[2].rstrip("/")
    arn = _ARN.match(path)
    bucket = arn[0] if arn else path.partition("/")[0]
    if not bucket:
        raise ConfigError(f"expected s3://BUCKET/FOLDER, found {url!r}")
    if "@" in bucket:  # a bucket's name has none, and what stands before it may be a secret
        raise ConfigError(
            "expected s3://BUCKET/FOLDER, found an '@' before the bucket: give key= and secret= as options"
        )
    return bucket, path[len(bucket) :].strip("/")


def _configured() -> dict[str, object]:
    """Return what fsspec's configuration files and environment say of S3."""
    from fsspec.config import conf

    return {name: value for protocol in ("s3", "s3a") for name, value in conf.get(protocol, {}).items()}


def _check_names(options: Mapping[str, object]) -> None:
    unknown = sorted(options.keys() - _KNOWN - _WITHOUT_EFFECT)
    if "session" in unknown:
        raise ConfigError("storage_options: a session of aiobotocore serves s3fs alone: name a profile= instead")
    if unknown:
        raise ConfigError(f"storage_options {unknown} are unknown to S3: it takes {', '.join(sorted(_KNOWN))}")
    for one, other in (("key", "username"), ("secret", "password")):
        if options.get(one) and options.get(other):
            raise ConfigError(f"storage_options {one!r} and {other!r} say the same: give one of them")


def _client(options: Mapping[str, object], *, anonymous: bool) -> dict[str, object]:
    named = {
        "aws_access_key_id": options.get("key") or options.get("username"),
        "aws_secret_access_key": options.get("secret") or options.get("password"),
        "aws_session_token": options.get("token"),
        "endpoint_url": options.get("endpoint_url"),
    }
    client = {"use_ssl": bool(options.get("use_ssl", True)), **_mapping(options, "client_kwargs")}
    if "config" in client:
        raise ConfigError("storage_options: client_kwargs={'config': ...} is refused: give config_kwargs={...}")
    client |= {name: value for name, value in named.items() if value is not None}
    if anonymous:
        client = {name: value for name, value in client.items() if name not in _SECRETS}
    elif bool(client.get(_SECRETS[0])) != bool(client.get(_SECRETS[1])):
        raise ConfigError("storage_options: key= and secret= go together: one of them is missing")
    return client


def _mapping(options: Mapping[str, object], name: str) -> dict[str, object]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"storage_options: {name} is a mapping of names to values, found {type(value).__name__}")
    return dict(value)


def _text(options: Mapping[str, object], name: str) -> str | None:
    value = options.get(name)
    return None if value is None else str(value)


def _number(options: Mapping[str, object], name: str, default: float) -> float:
    value = options.get(name, default)
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ConfigError(f"storage_options: {name} is a number above 0, found {value!r}")
    return number


def _attempts(retries: object) -> int:
    """Return the most attempts that botocore's own setting allows; 0 for no limit."""
    if not isinstance(retries, Mapping):
        return 0
    if "total_max_attempts" in retries:
        return int(retries["total_max_attempts"])
    return int(retries["max_attempts"]) + 1 if "max_attempts" in retries else 0
