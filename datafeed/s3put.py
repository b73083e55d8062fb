"""Write one S3 object: at once where it is small, else in parts as they fill."""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from typing_extensions import Buffer

from datafeed.errors import OutputError
from datafeed.s3calls import Calls

_LOG = logging.getLogger(__name__)
PART_NBYTES = 8 * 2**20  # equal parts, as some servers ask for; S3 takes 10,000 of them: 83 GB
_MOST_PARTS = 10_000


class Upload:
    """Take an object's bytes. Its memory is that of the part that fills, and of those under way.

    Args:
        calls: How the bucket is asked.
        key: The object.
        what: How errors name it.
    """

    def __init__(self, calls: Calls, key: str, what: str) -> None:
        self._calls = calls
        self._key = key
        self._what = what
        self._part = bytearray()
        self._id = ""
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[dict[str, object]]] = deque()
        self._parts: list[dict[str, object]] = []
        self._begun = 0
        self._stopped = threading.Event()

    def write(self, data: Buffer) -> None:
        """Append bytes.

        Raises:
            OutputError: An earlier part could not be uploaded, or there are too many.
        """
        view = memoryview(data).cast("B")
        while view:
            room = PART_NBYTES - len(self._part)
            self._part += view[:room]
            view = view[room:]
            if view:  # more than one part: the last one may be full
                self._send()

    def finish(self) -> None:
        """Make the object appear, whole.

        Raises:
            OutputError: It does not.
        """
        try:
            if self._pool is None:
                self._calls.call("PutObject", self._key, {"Body": bytes(self._part)})
                return
            self._send()
            while self._under_way:
                self._parts.append(self._under_way.popleft().result())
            self._complete()
        except OSError as exc:
            raise self._failed(exc) from exc
        finally:
            self._close()

    def abort(self) -> None:
        """Leave nothing of it behind."""
        self._stopped.set()
        self._close()
        if self._id:
            try:
                self._calls.call("AbortMultipartUpload", self._key, {"UploadId": self._id})
            except (OSError, ValueError) as exc:
                _LOG.warning("parts of %s may be left, which the next conversion there deletes: %s", self._what, exc)

    def _send(self) -> None:
        """Upload the part that is full while the next one fills."""
        try:
            if self._pool is None:
                self._id = str(self._calls.call("CreateMultipartUpload", self._key)["UploadId"])
                self._pool = ThreadPoolExecutor(self._calls.options.uploads, "datafeed-upload")
            if len(self._under_way) >= self._calls.options.uploads:
                self._parts.append(self._under_way.popleft().result())
        except OSError as exc:
            raise self._failed(exc) from exc
        self._begun += 1
        if self._begun > _MOST_PARTS:
            raise OutputError(f"cannot write {self._what}: S3 takes {_MOST_PARTS} parts of {PART_NBYTES} bytes")
        self._under_way.append(self._pool.submit(self._upload, self._begun, self._part))
        self._part = bytearray()

    def _upload(self, number: int, part: bytearray) -> dict[str, object]:
        given = {"Body": part, "PartNumber": number, "UploadId": self._id}
        answer = self._calls.call("UploadPart", self._key, given, sleep=self._pause)
        sums = {name: value for name, value in answer.items() if name.startswith("Checksum") and isinstance(value, str)}
        return {"PartNumber": number, "ETag": answer["ETag"], **sums}

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise OutputError(f"cannot write {self._what}: given up")

    def _complete(self) -> None:
        given = {"UploadId": self._id, "MultipartUpload": {"Parts": self._parts}}
        try:
            self._calls.call("CompleteMultipartUpload", self._key, given)
        except FileNotFoundError:
            if not self._completed():
                raise

    def _completed(self) -> bool:
        """Whether a first attempt, whose answer was lost, has made the object: it is then no upload any more."""
        found: Mapping[str, object] = self._calls.call("HeadObject", self._key)
        return str(found.get("ETag", "")).strip('"').endswith(f"-{len(self._parts)}")

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _failed(self, exc: OSError) -> OutputError:
        if isinstance(exc, OutputError):
            return exc
        return OutputError(exc.errno or errno.EIO, f"cannot write {self._what}: {exc.strerror or exc}")
