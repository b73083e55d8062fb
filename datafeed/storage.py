"""Keep named objects behind one small protocol, in a local directory or wherever fsspec reaches."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from typing_extensions import Buffer

from datafeed.errors import ConfigError, OutputError, ShardMissing, TruncatedShard
from datafeed.localstore import LocalStore
from datafeed.s3store import S3Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec import AbstractFileSystem

_PASSWORD = re.compile(r"(?<=://)([^/?#:@]*):[^/?#]*@")
_FLAT = {"s3", "gs", "abfs", "oss"}  # no directories there: making one would make a bucket of a mistyped name
_MASK = r"\1:***@"
_SECRET = re.compile(  # a parameter of a query, such as X-Amz-Signature, and its value
    r"(?<=[?&;])([\w.-]*(?:token|secret|signature|credential|passw(?:or)?d|api[-_]?key|access[-_]?(?:key|id))[\w.-]*"
    r"|key|sig|pwd|auth|authorization)=[^&;#\s'\"<>:]+(?::[^&;#\s'\"<>:]+)*",
    re.IGNORECASE,
)


class Sink(Protocol):
    """Take bytes, in order."""

    def write(self, data: Buffer, /) -> object:
        """Append contiguous bytes, all of them.

        Raises:
            OutputFull: There is no room.
            OutputError: The destination failed.
        """
        ...


class Store(Protocol):
    """Keep whole objects under names: plain ones, or nested ones such as "journal/000001.json".

    Stores may be shared between threads, pickled, and used in a forked child.
    """

    @property
    def url(self) -> str:
        """Where it is, as shown to people: a password in it is masked."""
        ...

    def read(self, name: str) -> bytes:
        """Return a whole object.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return bytes start <= i < end of an object, never fewer.

        Raises:
            ShardMissing: There is no such object.
            TruncatedShard: It ends before `end`.
        """
        ...

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a writable, contiguous view of bytes from `start` on.

        Raises:
            ShardMissing: There is no such object.
            TruncatedShard: It ends before the view is full.
        """
        ...

    def size(self, name: str) -> int:
        """Return an object's size in bytes.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def exists(self, name: str) -> bool:
        """Tell whether the object is there."""
        ...

    def names(self) -> list[str]:
        """List the plain names, sorted; what is nested is listed by a store opened on `url + "/nested"`."""
        ...

    def folders(self) -> list[str]:
        """List the names of the directories inside, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Delete an object.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def sweep(self) -> None:
        """Delete what writers that were killed left behind; only for whoever alone may write here."""
        ...

    def writer(self, name: str) -> AbstractContextManager[Sink]:
        """Write an object that appears, or is replaced, whole at the clean end of the `with` block.

        After an exception nothing is left of it.

        Raises:
            OutputFull: There is no room.
            OutputError: The destination failed.
        """
        ...


def open_store(url: str | os.PathLike[str], storage_options: Mapping[str, object] | None = None) -> Store:
    """Open the store at a path or URL; nothing needs to exist there yet.

    Args:
        url: A local path, `file://`, `s3://`, `memory://`, or any URL that fsspec knows.
        storage_options: Passed to the fsspec file system; of S3, read as s3fs reads them.

    Returns:
        The store.

    Raises:
        ConfigError: No file system serves this URL, or options are given that have no effect.
        MissingExtra: The URL is one of S3, and its client is not installed.
    """
    path = local_path(url)
    if path is None:
        text = os.fspath(url)
        s3 = text.startswith(("s3://", "s3a://")) and "::" not in text
        return S3Store(text, storage_options) if s3 else FsspecStore(text, storage_options)
    if storage_options:
        raise ConfigError(f"storage_options {sorted(storage_options)} have no effect on the local path {path!r}")
    return LocalStore(path)


def local_path(url: str | os.PathLike[str]) -> str | None:
    """Return the path that a path or `file://` URL names; None for any other URL."""
    path = os.fspath(url).removeprefix("file://")
    return None if "://" in path else path


def masked(url: str) -> str:
    """Return a URL, or a text with URLs, as it is shown to people: passwords, tokens and signatures are masked."""
    shown = _PASSWORD.sub(_MASK, url)
    return _SECRET.sub(r"\1=***", shown) if "?" in shown else shown


class FsspecStore:
    """Keep objects in any fsspec file system.

    Args:
        url: The directory.
        storage_options: Passed to the file system.

    Raises:
        ConfigError: No file system serves this URL, or its server cannot be reached.
    """

    def __init__(self, url: str, storage_options: Mapping[str, object] | None = None) -> None:
        self._raw_url = url
        self._options = dict(storage_options or {})
        self._pid = -1
        self.url = masked(url.rstrip("/"))
        try:
            with self._opened():  # what no file system serves is refused here
                pass
        except ConnectionError as exc:
            raise ConfigError(f"cannot reach {self.url!r}: {exc}: is its server up, and its port right?") from exc

    def __reduce__(self) -> tuple[type[FsspecStore], tuple[str, dict[str, object]]]:
        return FsspecStore, (self._raw_url, self._options)

    @contextmanager
    def _opened(self) -> Iterator[tuple[AbstractFileSystem, str]]:
        """Give the file system and the directory's path there; what it raises shows no password."""
        try:
            if self._pid != os.getpid():
                self._connect()
            yield self._fs, self._root
        except Exception as exc:
            for raised in (exc, exc.__cause__, exc.__context__):
                if raised is not None:
                    raised.args = tuple(self._shown(arg) for arg in raised.args)
            raise

    def _shown(self, arg: object) -> object:
        """Mask the password in an error's text, which may hold the URL or, without its scheme, the path."""
        for found in _PASSWORD.finditer(self._raw_url) if isinstance(arg, str) else ():
            arg = str(arg).replace(found[0], found.expand(_MASK))
        return arg

    def _connect(self) -> None:
        from fsspec.core import url_to_fs

        try:
            self._fs, root = url_to_fs(self._raw_url, **self._options)
        except (ValueError, ImportError) as exc:
            raise ConfigError(f"no file system for {self.url!r}: {exc}") from exc
        self._root = root.rstrip("/")
        self._pid = os.getpid()

    def read(self, name: str) -> bytes:
        """Return a whole object (see `Store`)."""
        with self._opened() as (fs, root):
            return bytes(fs.cat_file(f"{root}/{name}"))

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return part of an object (see `Store`)."""
        try:
            with self._opened() as (fs, root):
                data = fs.cat_file(f"{root}/{name}", start=start, end=end) if end > start else b""
        except FileNotFoundError as exc:
            raise ShardMissing(f"no object {name!r} in {self.url}") from exc
        if len(data) != end - start:
            found = f"expected bytes {start} to {end}, found {len(data)} of them: the object holds {self.size(name)}"
            raise TruncatedShard(found, shard=name, offset=start + len(data))
        return bytes(data)

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view from an object (see `Store`)."""
        into[:] = self.read_range(name, start, start + into.nbytes)

    def size(self, name: str) -> int:
        """Return an object's size (see `Store`)."""
        with self._opened() as (fs, root):
            return int(fs.size(f"{root}/{name}"))

    def exists(self, name: str) -> bool:
        """Tell whether an object is there (see `Store`)."""
        with self._opened() as (fs, root):
            return bool(fs.isfile(f"{root}/{name}"))

    def names(self) -> list[str]:
        """List the plain names (see `Store`)."""
        return self._listed("file")

    def folders(self) -> list[str]:
        """List the directories inside (see `Store`)."""
        return self._listed("directory")

    def _listed(self, kind: str) -> list[str]:
        try:
            with self._opened() as (fs, root):
                fs.invalidate_cache()
                entries = fs.ls(root, detail=True)
        except FileNotFoundError:
            return []
        return sorted(entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == kind)

    def delete(self, name: str) -> None:
        """Delete an object (see `Store`)."""
        with self._opened() as (fs, root):
            fs.rm_file(f"{root}/{name}")

    def sweep(self) -> None:
        """Do nothing: an object is put whole, so a killed writer leaves nothing (see `Store`)."""

    @contextmanager
    def writer(self, name: str) -> Iterator[Sink]:
        """Write an object with a single put (see `Store`); it is held in memory until then."""
        sink = io.BytesIO()
        yield sink
        try:
            with self._opened() as (fs, root):
                if not _FLAT.intersection([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol):
                    fs.makedirs(f"{root}/{name}".rsplit("/", 1)[0], exist_ok=True)
                fs.pipe_file(f"{root}/{name}", sink.getvalue())
        except OSError as exc:
            raise OutputError(exc.errno, f"cannot write {name!r} in {self.url}: {exc}") from exc
