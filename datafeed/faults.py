"""Describe what goes wrong between a client and a server of objects, and how long it takes."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from datafeed.errors import ConfigError

_P99 = 2.3263478740408408  # standard deviations of the normal distribution


class Ask(NamedTuple):
    """Hold a request as the server sees it.

    Attributes:
        method: "GET" or "HEAD".
        key: Bucket and object, "bucket/a/b".
        start: The first byte that is wanted; None where no range is.
        end: The byte behind the last; None up to the end.
        number: How many requests came before it.
        nth: How many came before it for the same object and range.
        headers: By names in lower case.
    """

    method: str
    key: str
    start: int | None
    end: int | None
    number: int
    nth: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """Say what is done in place of a sound answer.

    Attributes:
        kind: "status": an error's reply. "reset": a TCP reset after `nbytes` of the body; "close": an orderly end.
            "short": the reply says, and holds, `nbytes` fewer; "long": as many more. "range": it says that its bytes
            begin one later. "whole": the whole object with status 200. "html": a page with status 200, as a proxy's.
            "stall": nothing more for `seconds`, after `nbytes`. "trickle": `nbytes` a second. "etag": another ETag.
            "garbage": no HTTP.
        nbytes: As the kind says.
        seconds: As the kind says.
        status: Of an error's reply.
        code: S3's name of the error.
        headers: Of an error's reply, beside the usual ones.
        extra: Fields of an error's document, such as Region.
    """

    kind: Literal[
        "status", "reset", "close", "short", "long", "range", "whole", "html", "stall", "trickle", "etag", "garbage"
    ]
    nbytes: int = 0
    seconds: float = 0.0
    status: int = 503
    code: str = "SlowDown"
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


Script = Callable[[Ask], Fault | None]


class Latency:
    """Draw the seconds before an answer: log-normal, with a second, rare value. Safe to share between threads.

    Args:
        p50_s: The median.
        p99_s: What 99 % do not exceed.
        tail_share: The share that takes `tail_s`.
        tail_s: That value.
        seed: Of the draws.
    """

    def __init__(
        self, p50_s: float = 0.0, p99_s: float = 0.0, tail_share: float = 0.0, tail_s: float = 0.0, seed: int = 0
    ) -> None:
        if min(p50_s, p99_s, tail_s) < 0 or not 0 <= tail_share < 1 or (p99_s and p99_s < p50_s):
            raise ConfigError(
                f"expected 0 <= p50 <= p99, found {p50_s:g} s and {p99_s:g} s, and {tail_share:g}={tail_s:g} s"
            )
        self._p50_s = p50_s
        self._sigma = math.log(p99_s / p50_s) / _P99 if p50_s and p99_s else 0.0
        self._tail_share = tail_share
        self._tail_s = tail_s
        self._random = random.Random(seed)  # noqa: S311  (no secret)
        self._lock = threading.Lock()

    def draw(self) -> float:
        """Return the next one."""
        with self._lock:
            if self._tail_share and self._random.random() < self._tail_share:
                return self._tail_s
            return self._p50_s * math.exp(self._random.gauss(0, self._sigma)) if self._p50_s else 0.0


def parse_latency(text: str, seed: int = 0) -> Latency:
    """Read "p50=120ms,p99=1s,0.0001=5s": a median, a 99th percentile, and a share that takes longer.

    Raises:
        ConfigError: It says something else.
    """
    said = dict(part.partition("=")[::2] for part in text.split(","))
    p50_s, p99_s = seconds(said.pop("p50", "0s")), seconds(said.pop("p99", "0s"))
    if len(said) > 1:
        raise ConfigError(f"expected p50=TIME,p99=TIME,SHARE=TIME, found {text!r}")
    for share, value in said.items():
        try:
            return Latency(p50_s, p99_s, float(share), seconds(value), seed)
        except ValueError as exc:
            raise ConfigError(f"expected p50=TIME,p99=TIME,SHARE=TIME, found {text!r}") from exc
    return Latency(p50_s, p99_s, seed=seed)


def seconds(text: str) -> float:
    """Read "120ms" or "1.5s".

    Raises:
        ConfigError: It is no time.
    """
    number, unit = (text[:-2], 0.001) if text.endswith("ms") else (text.removesuffix("s"), 1.0)
    try:
        value = float(number) * unit
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError(f"expected a time such as 120ms or 1.5s, found {text!r}")
    return value


class Bandwidth:
    """Share out the bytes of a second over all connections. Safe to share between threads.

    Args:
        bytes_per_s: The most; None for no limit.
    """

    def __init__(self, bytes_per_s: float | None) -> None:
        self.bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_at = 0.0

    def take(self, nbytes: int) -> None:
        """Wait until so many bytes may go."""
        if self.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            start = max(self._free_at, now - 0.02)  # what a late thread missed is caught up, up to 20 ms of it
            self._free_at = start + nbytes / self.bytes_per_s
            pause = start - now
        if pause > 0:
            time.sleep(pause)


def shares(faults: Sequence[tuple[Fault, float]], seed: int = 0) -> Script:
    """Return a script that meets a share of the GETs with each fault, drawn by a seed.

    Args:
        faults: Each, and its share of all GETs.
        seed: Of the draws.
    """
    draws, lock = random.Random(seed), threading.Lock()  # noqa: S311  (no secret)

    def script(ask: Ask) -> Fault | None:
        with lock:
            left = draws.random()
        for fault, share in faults:
            left -= share
            if left < 0 and ask.method == "GET":
                return fault
        return None

    return script
