"""Reach files of any file system that fsspec knows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, NoReturn, cast

from datafeed.converters.braces import expand
from datafeed.converters.names import shown
from datafeed.converters.source import Stamp
from datafeed.errors import ConfigError, DatafeedError, MissingExtra, SourceError, SourceNotFound
from datafeed.storage import masked

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Options = Mapping[str, object]
_WILD = "*?["
_UNKNOWN = 0
_VERSIONS = ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "CRC", "created")


def listed(url: str, suffixes: Sequence[str], options: Options) -> Iterator[Stamp]:
    """Yield the files that a URL names, sorted (see `Files.listed`); hidden ones of a folder are passed over.

    Raises:
        SourceNotFound: Nothing is there.
        SourceError: It cannot be listed.
    """
    for one in expand(url):
        with _errors(one):
            yield from _listed(one, tuple(suffix.lower() for suffix in suffixes), options)


def _listed(url: str, suffixes: tuple[str, ...], options: Options) -> list[Stamp]:
    fs, root = _file_system(url, options)
    naming = _Naming(url, root)
    fs.invalidate_cache()
    if any(sign in root for sign in _WILD):
        found = fs.glob(root, detail=True)
        if not found:
            raise SourceNotFound(f"no file matches {shown(url)}")
        infos = [info for info in found.values() if info["type"] == "file"]
    elif not fs.isdir(root):
        if not fs.exists(root):
            raise SourceNotFound(f"no file or folder {shown(url)}{_bucket(fs, root)}")
        infos = [fs.info(root)]
    else:
        start = len(root.rstrip("/")) + 1 if root.strip("/") else 0
        infos = [
            info
            for name, info in fs.find(root, detail=True).items()
            if info["type"] == "file" and name.lower().endswith(suffixes) and not _hidden(name[start:])
        ]
    return sorted(_stamp(naming.url_of(info["name"]), info) for info in infos)


def _bucket(fs: AbstractFileSystem, root: str) -> str:
    """Say that the bucket itself is what is missing, where a store of buckets says so."""
    bucket = root.partition("/")[0]
    with suppress(OSError):  # who may list one folder need not be allowed to list the bucket
        if "s3" in fs.protocol and not fs.exists(bucket):
            return f": no bucket {bucket!r} is to be seen: is its name spelt right, and the endpoint the right one?"
    return ""


def _hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


class _Naming:
    """Turn a name within a file system into a URL: what stands around the root's name in its URL stays."""

    def __init__(self, url: str, root: str) -> None:
        head, chain, rest = url.partition("::")
        bare, name = head.rstrip("/"), root.rstrip("/")
        named = bool(name) and bare.endswith(name)
        self._start = bare.removesuffix(name) if named else head.partition("://")[0] + "://"
        self._end = chain + rest

    def url_of(self, name: str) -> str:
        return self._start + name + self._end


def is_folder(url: str, options: Options) -> bool:
    """Whether a URL names a folder."""
    with _errors(url):
        fs, root = _file_system(url, options)
        return not any(sign in root for sign in _WILD) and bool(fs.isdir(root))


def folders(url: str, options: Options) -> list[str]:
    """List the folders in a folder, as URLs, sorted by name; hidden ones are passed over.

    Raises:
        SourceError: It cannot be listed.
    """
    with _errors(url):
        fs, root = _file_system(url, options)
        naming = _Naming(url, root)
        fs.invalidate_cache()
        found = [str(info["name"]).rstrip("/") for info in fs.ls(root, detail=True) if info["type"] == "directory"]
        return [naming.url_of(name) for name in sorted(found) if not name.rpartition("/")[2].startswith(".")]


def stamp(url: str, options: Options) -> Stamp:
    """Return a file's size and version, as they are now.

    Raises:
        SourceNotFound: It is not there.
        SourceError: It cannot be looked at.
    """
    with _errors(url):
        fs, name = _file_system(url, options)
        fs.invalidate_cache()
        return _stamp(url, fs.info(name))


def difference(file: Stamp, options: Options) -> str:
    """Return how a file differs from its stamp; nothing where it does not.

    A listing and a question for one file may tell different facts of it: one that both tell must be the same.

    Raises:
        SourceNotFound: It is gone.
        SourceError: It cannot be looked at.
    """
    with _errors(file.path):
        fs, name = _file_system(file.path, options)
        fs.invalidate_cache()
        info = fs.info(name)
        nbytes, versions = _stamp(file.path, info).nbytes, _versions(info)
        if nbytes == file.nbytes and (file.version in versions or _UNKNOWN in {file.version, *versions}):
            return ""
        return f"{nbytes} and {versions[0]}"


def _stamp(url: str, info: Mapping[str, object]) -> Stamp:
    size = info.get("size")
    if not isinstance(size, int):
        raise SourceError(f"{shown(url)}: its server does not tell its size: fetch it, and name the file")
    return Stamp(url, size, _versions(info)[0])


def _versions(info: Mapping[str, object]) -> list[int]:
    """Return a number for each fact that tells a version of a file, the surest first."""
    known = [f"{name.lower()} {_plain(info[name])}" for name in _VERSIONS if info.get(name)]
    return [int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) for text in known] or [_UNKNOWN]


def _plain(value: object) -> object:
    """Return a time as seconds, which some file systems give in a listing and as a datetime elsewhere."""
    return value.timestamp() if isinstance(value, datetime) else value


def head(url: str, nbytes: int, options: Options) -> bytes:
    """Return the first bytes of a file, fewer where it is shorter.

    Raises:
        SourceError: It cannot be read.
    """
    with _errors(url):
        fs, name = _file_system(url, options)
        with fs.open(name, "rb", block_size=max(nbytes, 2**16)) as file:
            return bytes(file.read(nbytes))


def read_all(urls: Sequence[str], options: Options) -> list[bytes | OSError]:
    """Return whole files, or why one cannot be read; they are fetched many at once where the file system can.

    Args:
        urls: Files of any file systems.
        options: Passed to each.
    """
    found: list[bytes | OSError] = [OSError()] * len(urls)
    groups: dict[tuple[str, str], list[int]] = {}
    for number, url in enumerate(urls):
        head, _, chain = url.partition("::")
        protocol, _, _ = head.rpartition("://")
        groups.setdefault((protocol, chain), []).append(number)
    for numbers in groups.values():
        for number, data in zip(numbers, _read_group([urls[number] for number in numbers], options), strict=True):
            found[number] = data
    return found


def _read_group(urls: Sequence[str], options: Options) -> Iterator[bytes | OSError]:
    """Yield the files of one file system."""
    with _errors(urls[0]):
        fs, _ = _file_system(urls[0], options)
        names = [fs._strip_protocol(url.partition("::")[0]) for url in urls]  # noqa: SLF001  (fsspec documents it for file systems' users)
        fetched = fs.cat(list(dict.fromkeys(names)), on_error="return", recursive=False)
        if isinstance(fetched, bytes):
            fetched = {names[0]: fetched}
    for url, name in zip(urls, names, strict=True):
        data = fetched.get(name)
        yield data if isinstance(data, bytes) else _as_os_error(data, url)


def _as_os_error(error: object, url: str) -> OSError:
    if isinstance(error, OSError):
        return error
    return OSError(masked(f"{type(error).__name__}: {error}") if error is not None else f"{shown(url)} is not there")


def opened(url: str, block_nbytes: int, options: Options) -> BinaryIO:
    """Open a file for reading at any position; errors of its file system become OSError.

    Raises:
        OSError: It cannot be opened.
    """
    try:
        fs, name = _file_system(url, options)
        raw = fs.open(name, "rb", block_size=block_nbytes)
    except OSError:
        raise
    except Exception as exc:
        raise OSError(masked(f"{type(exc).__name__}: {exc}")) from exc
    return io.BufferedReader(_Remote(raw, fs))


class _Remote(io.RawIOBase):
    """Read an fsspec file; whatever its file system raises becomes an OSError."""

    def __init__(self, file: BinaryIO, fs: AbstractFileSystem) -> None:
        self._file = file
        self._fs = fs  # an archive's closes what it opened once nobody holds it

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase says any buffer
        try:
            data = self._file.read(len(buffer))
        except OSError:
            raise
        except Exception as exc:
            raise OSError(masked(f"{type(exc).__name__}: {exc}")) from exc
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _file_system(url: str, options: Options) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a URL, and the name that it has there."""
    from fsspec.core import url_to_fs

    try:
        fs, name = url_to_fs(url, **options)
    except ImportError as exc:
        if "s3fs" in str(exc):
            raise MissingExtra("s3fs", "s3", "to read raw data from S3") from exc
        raise ConfigError(f"no file system for {shown(url)}: {masked(str(exc))}") from exc
    except ValueError as exc:
        raise ConfigError(f"no file system for {shown(url)}: {masked(str(exc))}") from exc
    return fs, cast("str", name)


@contextmanager
def _errors(url: str) -> Iterator[None]:
    """Turn what a file system raises, which may be anything, into a SourceError."""
    try:
        yield
    except DatafeedError:
        raise
    except FileNotFoundError as exc:
        text = masked(str(exc))
        raise SourceNotFound(f"no file or folder {shown(url)}{'' if text in shown(url) else f': {text}'}") from exc
    except TypeError as exc:
        if "unexpected keyword argument" not in str(exc):
            _fail(url, exc)
        unknown = str(exc).rpartition("argument ")[2]
        raise ConfigError(f"storage_options: the file system of {shown(url)} takes no option {unknown}") from exc
    except Exception as exc:  # noqa: BLE001  (each file system raises errors of its own client)
        _fail(url, exc)


def _fail(url: str, error: Exception) -> NoReturn:
    text = masked(str(error).replace(url, shown(url)))
    raise SourceError(f"{shown(url)} cannot be read: {type(error).__name__}: {text}") from error
