"""Fetch bytes of S3 objects: resumed where they break off, asked for a second time where they come late."""

from __future__ import annotations

import math
import time

from datafeed.errors import BadReply, ObjectChanged, TruncatedShard
from datafeed.hedge import Budget, Latencies, race
from datafeed.httpread import Refused, Reply
from datafeed.s3calls import Calls
from datafeed.s3errors import bad, check_range, past_end
from datafeed.wire import Exchange


class _Job:
    """Hold a read under way; one thread's.

    Attributes:
        into: The memory to fill; None until a whole object has told its size.
        filled: Bytes of it that are there.
        etag: The version that they are of; empty while unknown.
        size: The object's bytes, once a reply has told them.
    """

    def __init__(self, key: str, start: int, into: memoryview | None, etag: str) -> None:
        self.key = key
        self.start = start
        self.into = into
        self.filled = 0
        self.etag = etag
        self.size: int | None = None


class Fetcher:
    """Fetch from one bucket, within one process. Safe to share between its threads.

    Args:
        calls: How it is asked.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._parameters = calls.client.takes("GetObject", calls.options.extra)
        self._latencies = Latencies()
        self._budget = Budget()
        self._etags: dict[str, str] = {}

    def forget(self, key: str) -> None:
        """Forget the version of an object: it is replaced on purpose."""
        self._etags.pop(key, None)

    def fill(self, key: str, start: int, into: memoryview) -> None:
        """Fill memory with an object's bytes from `start` on, all of one version: that of earlier reads.

        Raises:
            FileNotFoundError: There is no such object or bucket.
            TruncatedShard: It ends before the memory is full.
            ObjectChanged: It is of another version than before.
            RemoteError: What else the server answered.
            ConfigError: It cannot be asked.
        """
        job = _Job(key, start, into, self._etags.get(key, ""))
        try:
            self._finish(job)
        except ObjectChanged:
            self.forget(key)
            raise
        if job.etag:
            self._etags[key] = job.etag

    def whole(self, key: str) -> memoryview:
        """Return an object, whatever its version was; errors as `fill` raises them."""
        job = _Job(key, 0, None, "")
        self._finish(job)
        assert job.into is not None
        return job.into

    def size(self, key: str) -> int:
        """Return an object's size; errors as `fill` raises them.

        A GET of one byte, not a HEAD: the reply to a HEAD does not say what is wrong.
        """
        job = _Job(key, 0, memoryview(bytearray(1)), "")
        try:
            self._finish(job)
        except TruncatedShard:  # it has not even that byte
            return 0
        if job.size is None:
            raise BadReply(f"{self._calls.url(key)}: its server does not tell its size")
        return job.size

    def _finish(self, job: _Job) -> None:
        begun = time.monotonic()
        before = [0]

        def moved() -> bool:
            last, before[0] = before[0], job.filled
            return job.filled > last

        while job.into is None or job.filled < job.into.nbytes:
            self._calls.persist("GET", job.key, lambda: self._once(job), moved=moved)
        self._calls.counts.read(job.filled, time.monotonic() - begun)

    def _once(self, job: _Job) -> None:
        """Make one attempt at what is left, by one GET, or by two that race."""
        had = job.filled
        wanted = None if job.into is None else job.into.nbytes - had
        first = self._exchange(job, had, None if job.into is None else job.into[had:])

        def second() -> Exchange | None:
            if wanted is None or not self._budget.spend():
                return None
            self._calls.counts.add("hedges")
            come = first.filled
            return self._exchange(job, had + come, memoryview(bytearray(wanted - come)))

        self._budget.earn()
        late_s = self._latencies.late_s(wanted) if wanted is not None and self._calls.options.hedge else math.inf
        try:
            won = race(first, second, late_s)
        except Refused as exc:
            job.filled += first.filled
            raise self._past_end(job, exc.reply) if exc.reply.status == 416 else exc from None
        except BaseException:
            job.filled += first.filled
            raise
        if wanted is not None:
            self._latencies.add(wanted, time.monotonic() - first.started)
        if won is not first:
            self._calls.counts.add("hedge_wins")
            assert job.into is not None
            job.into[job.into.nbytes - won.into.nbytes :] = won.into
        assert job.into is not None
        job.filled = job.into.nbytes

    def _exchange(self, job: _Job, offset: int, into: memoryview | None) -> Exchange:
        """Begin a GET of what memory holds, or of a whole object."""
        headers = {}
        if into is not None:
            headers["Range"] = f"bytes={job.start + offset}-{job.start + offset + into.nbytes - 1}"
        if job.etag and self._calls.options.if_match and not job.etag.startswith("W/"):
            headers["If-Match"] = job.etag
        client = self._calls.client
        request = client.get(self._calls.bucket, job.key, self._parameters, headers)
        self._calls.counts.add("gets")

        def accept(reply: Reply) -> memoryview:
            return self._whole(job, reply) if into is None else self._part(job, job.start + offset, into, reply)

        return Exchange(client.connections, request, accept)

    def _whole(self, job: _Job, reply: Reply) -> memoryview:
        """Make memory for a whole object."""
        if reply.status != 200 or reply.length is None:
            asked = f"{self._calls.url(job.key)}: asked for all of it"
            raise bad(f"{asked}, and got a reply of status {reply.status} and {reply.length or 'unknown'} bytes")
        job.etag = reply.headers.get("etag", "")
        job.into = memoryview(bytearray(reply.length))
        return job.into

    def _part(self, job: _Job, start: int, into: memoryview, reply: Reply) -> memoryview:
        """Check that a reply brings what is wanted."""
        if reply.status == 200 and reply.length == 0:  # what some servers say of an empty object
            raise self._truncated(job, 0)
        count, size = check_range(reply, self._calls.url(job.key), start, start + into.nbytes)
        etag = reply.headers.get("etag", "")
        if job.etag and etag and etag != job.etag:
            url = self._calls.url(job.key)
            raise ObjectChanged(f"{url} was replaced while it was read: its ETag was {job.etag}, and is {etag} now")
        job.etag = job.etag or etag
        job.size = size
        if count < into.nbytes:
            raise self._truncated(job, start + count)
        return into

    def _past_end(self, job: _Job, reply: Reply) -> TruncatedShard:
        size = past_end(reply)
        return self._truncated(job, self.size(job.key) if size is None and job.start else size or 0)

    def _truncated(self, job: _Job, size: int) -> TruncatedShard:
        assert job.into is not None
        asked = f"expected bytes {job.start} to {job.start + job.into.nbytes}"
        return TruncatedShard(f"{asked}, but the object ends at {size}", shard=job.key, offset=size)
