"""Keep named objects in a bucket of S3, or of what speaks as S3 does."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from datafeed.errors import AccessRefused, RemoteError, ShardMissing, TruncatedShard
from datafeed.s3calls import Calls
from datafeed.s3client import need_botocore
from datafeed.s3get import Fetcher
from datafeed.s3options import bucket_of, parse_options
from datafeed.s3put import Upload
from datafeed.s3stats import S3Stats

_LOG = logging.getLogger(__name__)


class _Process:
    """Hold what belongs to one process: sockets and locks must not be shared with a forked child."""

    def __init__(self, calls: Calls) -> None:
        self.pid = os.getpid()
        self.calls = calls
        self.fetcher = Fetcher(calls)


class S3Store:
    """Keep objects in a bucket. Threads may share it; it may be pickled, and used in a forked child.

    Nothing is opened before the first request.

    Args:
        url: "s3://BUCKET/FOLDER".
        storage_options: As s3fs takes them, `hedge` (bool) and `retry_deadline` (seconds); secrets among them.

    Raises:
        ConfigError: An option is unknown.
        MissingExtra: botocore is not installed.
    """

    def __init__(self, url: str, storage_options: Mapping[str, object] | None = None) -> None:
        need_botocore()
        self._given = dict(storage_options or {})
        self._options = parse_options(storage_options)
        self._bucket, self._prefix = bucket_of(url)
        self.url = f"s3://{self._bucket}/{self._prefix}".rstrip("/")
        self._locks: dict[int, threading.Lock] = {}
        self._process: _Process | None = None

    def __reduce__(self) -> tuple[type[S3Store], tuple[str, dict[str, object]]]:
        return S3Store, (self.url, self._given)

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    @property
    def _mine(self) -> _Process:
        """This process's own part, made at its first request."""
        process = self._process
        if process is not None and process.pid == os.getpid():
            return process
        with self._locks.setdefault(os.getpid(), threading.Lock()):  # a parent's might be held for ever
            if self._process is None or self._process.pid != os.getpid():
                self._process = _Process(Calls(self._options, self._bucket))
            return self._process

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def stats(self) -> S3Stats:
        """Return what the GETs of this process did so far."""
        return self._mine.calls.counts.stats()

    def read(self, name: str) -> bytes:
        """Return a whole object (see `Store`), whatever version earlier reads saw."""
        return bytes(self._mine.fetcher.whole(self._key(name)))

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return part of an object (see `Store`)."""
        into = bytearray(max(end - start, 0))
        self.read_into(name, start, memoryview(into))
        return bytes(into)

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view from an object (see `Store`).

        The bytes are received straight into it. After an error its content is undefined; nothing writes to it later.

        Raises:
            ObjectChanged: The object is not the one that earlier reads of this process saw.
            RemoteError: The server cannot be reached, or refuses.
            ConfigError: It cannot be asked with these options.
        """
        try:
            self._mine.fetcher.fill(self._key(name), start, into)
        except FileNotFoundError as exc:
            raise ShardMissing(f"{exc.strerror}, of {self.url}") from exc
        except TruncatedShard as exc:
            exc.shard = name
            raise

    def size(self, name: str) -> int:
        """Return an object's size (see `Store`)."""
        return self._mine.fetcher.size(self._key(name))

    def exists(self, name: str) -> bool:
        """Tell whether an object is there (see `Store`)."""
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """List the plain names (see `Store`)."""
        return sorted(str(found["Key"])[self._root :] for found in self._listed("Contents", "Key"))

    def folders(self) -> list[str]:
        """List the directories inside (see `Store`)."""
        return sorted(str(found["Prefix"])[self._root : -1] for found in self._listed("CommonPrefixes", "Prefix"))

    @property
    def _root(self) -> int:
        return len(self._prefix) + 1 if self._prefix else 0

    def _listed(self, kind: str, field: str) -> Iterator[Mapping[str, object]]:
        more: dict[str, object] = {}
        prefix = self._key("")
        while True:
            try:
                page = self._mine.calls.call("ListObjectsV2", given={"Prefix": prefix, "Delimiter": "/", **more})
            except FileNotFoundError:  # no such bucket: nothing needs to be there yet
                return
            for found in cast("list[Mapping[str, object]]", page.get(kind, [])):
                if str(found[field]) not in {prefix, prefix + "/"}:  # the folder itself, as consoles make it
                    yield found
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, name: str) -> None:
        """Delete an object (see `Store`)."""
        if not self.exists(name):
            raise FileNotFoundError(errno.ENOENT, f"no object {name!r} in {self.url}")
        self._mine.fetcher.forget(self._key(name))
        self._mine.calls.call("DeleteObject", self._key(name))

    def sweep(self) -> None:
        """Abort the uploads that killed writers left unfinished (see `Store`), where the server allows to list them."""
        calls = self._mine.calls
        more: dict[str, object] = {}
        try:
            while True:
                page = calls.call("ListMultipartUploads", given={"Prefix": self._key(""), **more})
                for found in cast("list[Mapping[str, object]]", page.get("Uploads", [])):
                    calls.call("AbortMultipartUpload", str(found["Key"]), {"UploadId": found["UploadId"]})
                if not page.get("IsTruncated"):
                    return
                more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        except FileNotFoundError:
            return
        except (AccessRefused, RemoteError) as exc:
            _LOG.debug("unfinished uploads below %s are left to the bucket's own rules: %s", self.url, exc)

    @contextmanager
    def writer(self, name: str) -> Iterator[Upload]:
        """Write an object (see `Store`): up to 8 MiB with one PUT, else in parts, of which a few are in memory."""
        key = self._key(name)
        upload = Upload(self._mine.calls, key, f"{name!r} in {self.url}")
        try:
            yield upload
            upload.finish()
        except BaseException:
            upload.abort()
            raise
        self._mine.fetcher.forget(key)
