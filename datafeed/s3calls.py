"""Ask S3 until it answers, within the limits of the retry policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from datafeed.errors import AccessRefused, ConfigError, DatafeedError
from datafeed.httpread import Refused, WireError
from datafeed.retry import Attempts, Failure
from datafeed.s3client import S3Client
from datafeed.s3errors import answer_of_client, answer_of_reply, bad, broken, failure
from datafeed.s3options import S3Options
from datafeed.s3stats import Counts
from datafeed.throttle import Throttle

T = TypeVar("T")


class Calls:
    """Ask for one bucket's objects, within one process. Safe to share between its threads.

    Args:
        options: How the bucket is reached.
        bucket: Its name.

    Raises:
        ConfigError: The options are not usable.
    """

    def __init__(self, options: S3Options, bucket: str) -> None:
        self.options = options
        self.bucket = bucket
        self.client = S3Client(options)
        self.counts = Counts()
        self._throttle = Throttle()
        self._answered = False

    def url(self, key: str) -> str:
        """Return an object's URL, or the bucket's for an empty key."""
        return f"s3://{self.bucket}/{key}" if key else f"s3://{self.bucket}"

    def answered(self) -> None:
        """Note that the server exists: from now on an outage is waited for."""
        self._answered = True

    def persist(
        self,
        what: str,
        key: str,
        once: Callable[[], T],
        *,
        moved: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> T:
        """Try until it succeeds.

        Args:
            what: The request, for the error.
            key: The object; empty for none.
            once: Makes one attempt.
            moved: Whether a failed attempt has left less to do.
            sleep: Waits between attempts.

        Returns:
            What the attempt returned.

        Raises:
            FileNotFoundError: There is no such object or bucket.
            RemoteError: What else the server answered.
            ConfigError: It cannot be asked.
        """
        attempts = Attempts(self.options.retry, f"{what} {self.url(key)}", answered=self._answered, sleep=sleep)
        while True:
            made = self.client.made
            try:
                with self._throttle.turn(self.options.retry.deadline_s):
                    result = once()
            except Exception as exc:  # noqa: BLE001  (told apart, and raised unless it may pass)
                failed = self._explained(exc, key)
                self._note(failed)
                if moved():
                    attempts.progress()
                attempts.failed(failed)
                self.counts.add("retries")
                if failed.refresh:
                    self.client.refresh(made)
            else:
                self._answered = True
                self._throttle.succeeded()
                return result

    def call(
        self,
        operation: str,
        key: str = "",
        given: Mapping[str, object] | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Mapping[str, object]:
        """Ask by botocore's own connections.

        Args:
            operation: The operation of S3's API, such as "PutObject".
            key: The object; empty for none.
            given: The operation's parameters, beside bucket and key.
            sleep: Waits between attempts.

        Returns:
            botocore's answer.

        Raises:
            Exception: As `persist` raises it.
        """
        from botocore import xform_name

        parameters = {**self.client.takes(operation, self.options.extra), "Bucket": self.bucket, **(given or {})}
        if key:
            parameters["Key"] = key

        def once() -> Mapping[str, object]:
            ask = getattr(self.client.api, xform_name(operation))
            return cast("Mapping[str, object]", ask(**parameters))

        return self.persist(operation, key, once, sleep=sleep)

    def _note(self, failed: Failure) -> None:
        if failed.answered:
            self._answered = True
        if failed.slow_down:
            self.counts.add("throttled")
            self._throttle.slow_down()

    def _explained(self, exc: Exception, key: str) -> Failure:
        """Tell what an attempt raised; what says enough by itself is raised again."""
        from botocore.exceptions import ClientError, HTTPClientError
        from botocore.exceptions import ConnectionError as NoConnection

        caller = self.client.caller
        if isinstance(exc, Failure):
            return exc
        if isinstance(exc, DatafeedError):
            raise exc
        if isinstance(exc, (Refused, ClientError)):
            answer = answer_of_reply(exc.reply) if isinstance(exc, Refused) else answer_of_client(exc.response)
            return failure(answer, caller, self.bucket, key)
        place = f"{self.url(key)} at {caller.endpoint}"
        if isinstance(exc, (WireError, OSError, HTTPClientError, NoConnection)):
            return broken(exc, place)
        return _of_botocore(exc, place)


def _of_botocore(exc: Exception, place: str) -> Failure:
    from botocore.exceptions import BotoCoreError, NoCredentialsError
    from botocore.parsers import ResponseParserError

    if isinstance(exc, NoCredentialsError):
        given = "give key= and secret=, a profile=, or the AWS_* variables; anon=True for what is public"
        return Failure(ConfigError(f"{place}: no credentials were found: {given}"), "never")
    if isinstance(exc, ResponseParserError):
        return bad(f"{place}: no answer of S3, but perhaps a proxy's or a login page")
    if isinstance(exc, BotoCoreError):
        return Failure(AccessRefused(f"{place}: {exc}"), "never")
    raise exc
