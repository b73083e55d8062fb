"""Say what S3 and the way to it answered, and what to do about it."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html import unescape

from datafeed.errors import (
    AccessRefused,
    BadReply,
    ConfigError,
    CredentialsExpired,
    ObjectChanged,
    RemoteError,
)
from datafeed.httpread import Ended, Reply, WireError
from datafeed.retry import Failure, throttled, transient
from datafeed.s3client import Caller

_FIELD = re.compile(r"<(Code|Message|RequestId|Region|Endpoint)>([^<]*)</\1>")
_EXPIRED = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "RequestExpired"}
)
_ELSEWHERE = frozenset(
    {
        "PermanentRedirect",
        "TemporaryRedirect",
        "Redirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    }
)
_NAMES = {
    301: "PermanentRedirect",
    307: "TemporaryRedirect",
    403: "AccessDenied",
    404: "NoSuchKey",
    412: "PreconditionFailed",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what an error's reply said, by whichever way it came.

    Attributes:
        status: The number of the status.
        code: S3's own name of the error; the status where there is none.
        message: Its text.
        headers: Of the reply, by names in lower case.
        region: Where the bucket is, where it said so.
        request: S3's number for the request.
    """

    status: int
    code: str
    message: str
    headers: Mapping[str, str]
    region: str = ""
    request: str = ""

    def __str__(self) -> str:
        said = f": {self.message}" if self.message else ""
        return f"{self.status} {self.code}{said}{f' (request {self.request})' if self.request else ''}"


def answer_of_reply(reply: Reply) -> Answer:
    """Read an error's reply."""
    text = reply.body.decode("utf-8", "replace")
    found = {name: unescape(value) for name, value in _FIELD.findall(text)}
    code = found.get("Code", _NAMES.get(reply.status, ""))
    message = found.get("Message", "")
    if not found and (page := _page(text)):
        message = page
    return Answer(
        reply.status,
        code,
        message,
        reply.headers,
        found.get("Region", "") or reply.headers.get("x-amz-bucket-region", ""),
        found.get("RequestId", "") or reply.headers.get("x-amz-request-id", ""),
    )


def answer_of_client(response: Mapping[str, object]) -> Answer:
    """Read what a botocore ClientError holds; one of a HEAD has no name of its own."""
    error, meta = response.get("Error"), response.get("ResponseMetadata")
    said = error if isinstance(error, Mapping) else {}
    facts = meta if isinstance(meta, Mapping) else {}
    status = int(facts.get("HTTPStatusCode", 0))
    headers = {str(name).lower(): str(value) for name, value in dict(facts.get("HTTPHeaders", {})).items()}
    code = str(said.get("Code", ""))
    if code.isdecimal():
        code = _NAMES.get(int(code), "")
    region = str(said.get("Region", "")) or headers.get("x-amz-bucket-region", "")
    return Answer(status, code, str(said.get("Message", "")), headers, region, str(facts.get("RequestId", "")))


def failure(answer: Answer, caller: Caller, bucket: str, key: str) -> Failure:
    """Say what an error's reply means.

    Args:
        answer: The reply.
        caller: Who asked.
        bucket: Where.
        key: For which object; empty where for none.

    Returns:
        The error, with what may be done about it.
    """
    failed = _meaning(answer, caller, bucket, key)
    failed.answered = True
    return failed


def _meaning(answer: Answer, caller: Caller, bucket: str, key: str) -> Failure:
    url = f"s3://{bucket}/{key}" if key else f"s3://{bucket}"
    if answer.status == 404 or answer.code in {"NoSuchKey", "NoSuchBucket"}:
        return Failure(_missing(answer, caller, bucket, key), "never")
    if transient(answer.status, answer.code):
        slow_down = throttled(answer.status, answer.code) or answer.status == 503
        return Failure(RemoteError(f"{url}: {answer}"), "until", after_s=_after_s(answer), slow_down=slow_down)
    if answer.status == 412:
        return Failure(ObjectChanged(f"{url} was replaced while it was read: begin the epoch anew"), "never")
    if answer.code in _ELSEWHERE or answer.status in {301, 307}:
        return Failure(_elsewhere(answer, caller, bucket), "never")
    return _denied(answer, caller, url)


def _denied(answer: Answer, caller: Caller, url: str) -> Failure:
    if answer.code in _EXPIRED or (answer.status == 400 and not answer.code):
        return _expired(answer, caller, url)
    if answer.status in {401, 403}:
        return Failure(_refused(answer, caller, url), "never", refresh=answer.code == "InvalidAccessKeyId")
    return Failure(RemoteError(f"{url}: {answer} from {caller.endpoint}, asked {caller.identity}"), "never")


def _missing(answer: Answer, caller: Caller, bucket: str, key: str) -> FileNotFoundError:
    if answer.code == "NoSuchBucket":
        text = f"no bucket {bucket!r} at {caller.endpoint}: is its name spelt right, and the endpoint the right one?"
    else:
        text = f"no object {key!r} in the bucket {bucket!r}"
    return FileNotFoundError(errno.ENOENT, text)


def _expired(answer: Answer, caller: Caller, url: str) -> Failure:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    text = f"{url}: {answer} at {now}, asked {caller.identity}: the credentials have expired: renew them"
    return Failure(CredentialsExpired(text), "never", refresh=True)


def _elsewhere(answer: Answer, caller: Caller, bucket: str) -> ConfigError:
    place = f"in the region {answer.region!r}" if answer.region else "in another region"
    region = answer.region or "ITS-REGION"
    told = f"set AWS_DEFAULT_REGION={region}, or client_kwargs={{'region_name': {region!r}}}"
    return ConfigError(
        f"the bucket {bucket!r} is {place}, and {caller.endpoint} was asked for {caller.region!r}: {told} ({answer})"
    )


def _refused(answer: Answer, caller: Caller, url: str) -> AccessRefused:
    hints = {
        "RequestTimeTooSkewed": f"this machine's clock is {_skew(answer)}: set it",
        "SignatureDoesNotMatch": "the secret does not belong to that access key, or a proxy changed the request",
        "InvalidAccessKeyId": "the server does not know that access key",
        "InvalidObjectState": "the object is in an archive, such as Glacier: restore it first",
    }
    hint = hints.get(answer.code, "it lacks the permission, or the object is missing and it may not list the bucket")
    if answer.code.startswith("KMS") or "kms" in answer.message.lower():
        hint = "it may not use the key of KMS that the object is encrypted with"
    elif "requester" in answer.message.lower():
        hint = "its reader pays: requester_pays=True agrees to that"
    return AccessRefused(f"{url}: {answer} from {caller.endpoint}, asked {caller.identity}: {hint}")


def _skew(answer: Answer) -> str:
    try:
        told = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return "off by more than the server allows"
    minutes = (time.time() - told) / 60
    return f"{abs(minutes):.0f} min {'ahead of' if minutes > 0 else 'behind'} the server's"


def _after_s(answer: Answer) -> float:
    said = answer.headers.get("retry-after", "")
    if said.isdecimal():
        return float(said)
    try:
        return max(parsedate_to_datetime(said).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def broken(error: Exception, url: str) -> Failure:
    """Say what a failed connection, or bytes that are no reply, mean: the same may be asked again."""
    import ssl

    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in text:
        trusted = (
            "where the server is to be trusted, name its authority by AWS_CA_BUNDLE, or client_kwargs={'verify': FILE}"
        )
        return Failure(RemoteError(f"{url}: the server's certificate is not trusted ({text}): {trusted}"), "never")
    if isinstance(error, WireError) and not isinstance(error, Ended):
        return bad(f"{url}: {text}")
    return Failure(RemoteError(f"{url}: {text}"), "until")


def check_range(reply: Reply, url: str, start: int, end: int) -> tuple[int, int | None]:
    """Check that a reply's head promises the bytes that were asked for.

    Returns:
        How many bytes come: fewer where the object ends early, and it says so; and the object's size, where it is told.

    Raises:
        Failure: It promises others.
    """
    asked = f"bytes {start} to {end}"
    if reply.status != 206:
        raise bad(f"{url}: asked for {asked}, and got a reply of status {reply.status}, 206 expected{_shown(reply)}")
    said = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", reply.headers.get("content-range", ""))
    if said is None:
        raise bad(f"{url}: asked for {asked}, and got a reply that does not say which bytes it has{_shown(reply)}")
    first, last = int(said[1]), int(said[2])
    size = None if said[3] == "*" else int(said[3])
    expected = end if size is None else min(end, size)
    if (first, last + 1) != (start, expected):
        raise bad(f"{url}: asked for {asked}, and got bytes {first} to {last + 1}")
    if reply.length not in {None, expected - start}:
        raise bad(f"{url}: expected {expected - start} bytes, and got a reply with {reply.length}")
    return expected - start, size


def bad(text: str) -> Failure:
    """Return the failure of a reply that is not what was asked for: it may be a proxy's, and is asked for once more."""
    return Failure(BadReply(text), "once")


def past_end(reply: Reply) -> int | None:
    """Return an object's size from the reply to a range behind its end; None where it does not tell."""
    said = re.fullmatch(r"bytes \*/(\d+)", reply.headers.get("content-range", ""))
    said = said or re.search(r"<ActualObjectSize>(\d+)<", reply.body.decode("utf-8", "replace"))
    return int(said[1]) if said else None


def _shown(reply: Reply) -> str:
    kind = reply.headers.get("content-type", "")
    return f" ({kind}: a proxy's or a login page, no object)" if "html" in kind else ""


def _page(text: str) -> str:
    return "an HTML page, as proxies and login pages send" if "<html" in text[:1000].lower() else text[:80].strip()
