"""Own the botocore client of one process, which signs every request."""

from __future__ import annotations

import io
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from datafeed.errors import ConfigError, MissingExtra
from datafeed.s3options import S3Options
from datafeed.sockets import Connections, Route, Wiring, proxy_header
from datafeed.wire import Request

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.client import BaseClient

CONNECTIONS = 64  # kept open: the default 48 lanes, and as many again a third for second GETs
_SIGNED_FOR_S = 60.0  # of the 15 minutes for which a signature counts
_MOST_SIGNED = 4096
_UNSENT = ("amz-sdk-invocation-id", "amz-sdk-request", "expect")  # what only botocore's own attempts tell


@dataclass(frozen=True, slots=True)
class Caller:
    """Say who asks, and where, without any secret.

    Attributes:
        endpoint: The server's address.
        region: The region that requests are signed for.
        identity: The access key's end, and where it was found.
    """

    endpoint: str
    region: str
    identity: str


@dataclass(frozen=True, slots=True)
class _Signed:
    route: Route
    head: bytes
    until: float


class S3Client:
    """Sign and send the requests of one process. Safe to share between its threads.

    A GET is signed by botocore without its range, which S3 does not ask to be signed, and the signature serves an
    object for a minute: botocore takes 0.8 ms of Python for a request, which is what receiving a megabyte takes.

    Args:
        options: How the bucket is reached.

    Raises:
        ConfigError: botocore refuses what they say.
    """

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._made = 0
        self._caught = threading.local()
        self.api: BaseClient
        self._connect()

    def _connect(self) -> None:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        try:
            session = Session(profile=self._options.profile)
            self.api = session.create_client("s3", config=self._config(), **self._options.client)
            given = self._options.anonymous or self._options.client.get("aws_access_key_id")
            credentials = None if given else session.get_credentials()
        except (BotoCoreError, ValueError, TypeError) as exc:
            raise ConfigError(f"storage_options or AWS's settings are not usable: {exc}") from exc
        self.api.meta.events.register("before-send.s3.GetObject", self._catch)
        self._signed: dict[tuple[str, str], _Signed] = {}
        self.caller = Caller(self.api.meta.endpoint_url, str(self.api.meta.region_name), self._identity(credentials))
        self.connections = Connections(self._wiring(session.get_config_variable("ca_bundle")))
        self._made += 1

    def _config(self) -> object:
        from botocore import UNSIGNED
        from botocore.config import Config

        said = dict(self._options.config)
        said["max_pool_connections"] = max(int(str(said.get("max_pool_connections", 0))), CONNECTIONS)
        said["retries"] = {"total_max_attempts": 1, "mode": "standard"}  # `datafeed.retry` decides
        if self._options.anonymous:
            said["signature_version"] = UNSIGNED
        if said.get("proxies_config"):
            raise ConfigError("storage_options: proxies_config is not supported: a proxy is reached by plain http")
        return Config(**said)

    def _identity(self, credentials: object) -> str:
        key = self._options.client.get("aws_access_key_id") or getattr(credentials, "access_key", None)
        if self._options.anonymous:
            return "anonymously"
        if key is None:
            return "without credentials"
        given = self._options.client.get("aws_access_key_id") is not None
        source = "storage_options" if given else getattr(credentials, "method", "unknown")
        return f"with the access key ...{str(key)[-4:]} from {source}"

    def _wiring(self, ca_bundle: object) -> Wiring:
        from botocore.utils import get_environ_proxies

        config = self.api.meta.config
        proxies = get_environ_proxies(self.caller.endpoint) if config.proxies is None else config.proxies
        return Wiring(
            connect_timeout_s=float(config.connect_timeout),
            read_timeout_s=float(config.read_timeout),
            proxies={scheme: url if "://" in url else f"http://{url}" for scheme, url in proxies.items()},
            tls=_tls(self._options.client.get("verify", ca_bundle), config.client_cert),
            idle=config.max_pool_connections,
        )

    def get(self, bucket: str, key: str, parameters: Mapping[str, object], headers: Mapping[str, str]) -> Request:
        """Return a signed GET.

        Args:
            bucket: The bucket.
            key: The object.
            parameters: Of GetObject, beside these.
            headers: What goes unsigned, such as `Range`.
        """
        signed = self._signed.get((bucket, key))
        if signed is None or signed.until < time.monotonic():
            signed = self._sign(bucket, key, parameters)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return Request(signed.route, signed.head + lines.encode() + b"\r\n")

    def _sign(self, bucket: str, key: str, parameters: Mapping[str, object]) -> _Signed:
        from urllib.parse import urlsplit

        self.api.get_object(Bucket=bucket, Key=key, **parameters)
        request: AWSPreparedRequest = self._caught.request
        route, parts = self.connections.route(request.url), urlsplit(request.url)
        lines = [f"GET {_target(route, parts)} HTTP/1.1", f"Host: {parts.netloc}", "Accept-Encoding: identity"]
        lines += [
            f"{name}: {_text(value)}"
            for name, value in request.headers.items()
            if name.lower() not in {"host", "accept-encoding", *_UNSENT}
        ]
        head = "\r\n".join(lines) + "\r\n"
        if route.proxy and route.scheme == "http":
            proxy = urlsplit(route.proxy)
            head += proxy_header(proxy.username, proxy.password)
        signed = _Signed(route, head.encode(), time.monotonic() + _SIGNED_FOR_S)
        if len(self._signed) >= _MOST_SIGNED:
            self._signed.clear()
        self._signed[bucket, key] = signed
        return signed

    def _catch(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Keep a signed request in place of sending it."""
        from botocore.awsrequest import AWSResponse

        self._caught.request = request
        return AWSResponse(request.url, 200, {}, io.BytesIO())

    @property
    def made(self) -> int:
        """How often the credentials were looked for."""
        return self._made

    def refresh(self, made: int) -> None:
        """Look for credentials anew, as a new process would: once for all threads that ask.

        Args:
            made: `made`, before the request that failed.
        """
        with self._lock:
            if made == self._made:
                self._connect()

    def takes(self, operation: str, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return those parameters that an operation has."""
        shape = self.api.meta.service_model.operation_model(operation).input_shape
        return {name: value for name, value in parameters.items() if name in shape.members}


def need_botocore() -> None:
    """Check that the client can be imported.

    Raises:
        MissingExtra: It cannot.
    """
    try:
        import botocore.session  # noqa: F401  (whether it is there is the question)
    except ImportError as exc:
        raise MissingExtra("botocore", "s3", "to reach s3:// URLs") from exc


def _target(route: Route, parts: SplitResult) -> str:
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return f"http://{parts.netloc}{path}" if route.proxy and route.scheme == "http" else path


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _tls(verify: object, certificate: object) -> ssl.SSLContext:
    from botocore.httpsession import get_cert_path

    context = ssl.create_default_context(
        cafile=get_cert_path(True if verify is None else verify) if verify is not False else None
    )
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if isinstance(certificate, str):
        context.load_cert_chain(certificate)
    elif certificate is not None:
        context.load_cert_chain(*cast("tuple[str, str]", certificate))
    return context
