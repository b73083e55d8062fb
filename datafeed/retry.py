"""Decide what is asked of a server again, how often, and when."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from datafeed.errors import RemoteUnavailable

_LOG = logging.getLogger(__name__)
_TELL_AFTER_S = 5.0  # of failures: shorter ones are the daily weather of object stores
_TELL_AGAIN_S = 30.0

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
TRANSIENT_CODES = frozenset(
    {"RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", "RequestTimeoutException"}
)
THROTTLED_CODES = frozenset(
    {
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequests",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
    }
)


def throttled(status: int, code: str) -> bool:
    """Whether a server says that it is asked too often."""
    return code in THROTTLED_CODES or status == 429


def transient(status: int, code: str) -> bool:
    """Whether the same request may succeed a little later; never so for 400, 403 and 404 without such a code."""
    return throttled(status, code) or code in TRANSIENT_CODES or status in TRANSIENT_STATUS


class Failure(Exception):
    """Carry what went wrong with one attempt.

    Args:
        error: What the caller gets to see where nothing more is tried.
        again: Whether the same may be asked again: never, once, or until the deadline.
        after_s: Seconds that the server wants to be left alone.
        slow_down: Whether it says that it is asked too often.
        refresh: Whether newer credentials may help.
        answered: Whether it was the server that said so.
    """

    def __init__(
        self,
        error: Exception,
        again: Literal["never", "once", "until"],
        *,
        after_s: float = 0.0,
        slow_down: bool = False,
        refresh: bool = False,
        answered: bool = False,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.after_s = after_s
        self.slow_down = slow_down
        self.refresh = refresh
        self.answered = answered


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Say how long and how often failures are met with another attempt.

    Attributes:
        deadline_s: Seconds without any progress after which an error is raised: five minutes outlast an outage of two.
        first_deadline_s: The same while the server has never answered: its address may be wrong.
        attempts: The most attempts without progress; 0 for as many as the deadline allows.
        base_s: The first pause; each further one is twice as long, and a random half of it is left out.
        most_s: The longest pause.
    """

    deadline_s: float = 300.0
    first_deadline_s: float = 20.0
    attempts: int = 0
    base_s: float = 0.05
    most_s: float = 5.0


class Attempts:
    """Count the attempts at one request; used by one thread.

    Args:
        policy: How long and how often.
        what: The request, as the error names it.
        answered: Whether the server has ever answered.
        clock: Tells monotonic seconds.
        sleep: Waits.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        what: str,
        *,
        answered: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._policy = policy
        self._what = what
        self._deadline_s = policy.deadline_s if answered else min(policy.first_deadline_s, policy.deadline_s)
        self._clock = clock
        self._sleep = sleep
        self._told: float | None = None
        self._once: set[type[Exception]] = set()  # errors that were met with one more attempt
        self._refreshed = False
        self.progress()

    def progress(self) -> None:
        """Note that bytes came: the deadline and the pauses begin anew."""
        self._since = self._clock()
        self._once.clear()
        self._failures = 0

    def failed(self, failure: Failure) -> None:
        """Wait before the next attempt.

        Raises:
            Exception: The failure's own error, where nothing more is to be tried.
            RemoteUnavailable: Attempts or time are used up.
        """
        self._failures += 1
        if not self._may_go_on(failure):
            raise failure.error from failure.__cause__
        if failure.again == "until":
            self._pause(failure)

    def _may_go_on(self, failure: Failure) -> bool:
        """Whether another attempt is worth it; errors met once are tried once more, credentials refreshed once."""
        if failure.refresh and not self._refreshed:
            self._refreshed = True
            return True
        if failure.again == "once" and type(failure.error) not in self._once:
            self._once.add(type(failure.error))
            return True
        return failure.again == "until"

    def _pause(self, failure: Failure) -> None:
        policy, now = self._policy, self._clock()
        pause = min(policy.base_s * 2 ** min(self._failures - 1, 30), policy.most_s) * random.uniform(0.5, 1)  # noqa: S311  (no secret)
        pause = max(pause, failure.after_s)
        left = self._since + self._deadline_s - now
        if pause >= left or self._failures == policy.attempts:
            raise self._unavailable(failure, now) from failure.error
        if now - (self._since if self._told is None else self._told) >= (
            _TELL_AFTER_S if self._told is None else _TELL_AGAIN_S
        ):
            self._told = now
            _LOG.warning(
                "%s: no answer for %.0f s (%s); trying for %.0f s more",
                self._what,
                now - self._since,
                failure.error,
                left,
            )
        self._sleep(pause)

    def _unavailable(self, failure: Failure, now: float) -> RemoteUnavailable:
        tried = f"{self._failures} attempt{'s' if self._failures > 1 else ''} in {now - self._since:.1f} s"
        next_step = (
            "it is asked too often: use fewer loaders or conversions at once, or spread the objects over more prefixes"
            if failure.slow_down
            else "is the server up, and its address right?"
        )
        return RemoteUnavailable(f"{self._what}: no usable answer to {tried}; the last: {failure.error}; {next_step}")
