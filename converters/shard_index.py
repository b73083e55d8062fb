"""Find data sets that an index.json describes, with the files that it names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from datafeed.converters.files import Files, open_failed
from datafeed.converters.names import shown
from datafeed.converters.source import Stamp, Where, each
from datafeed.errors import EmptySource, SourceError
from datafeed.storage import local_path

NAME = "index.json"


@dataclass(frozen=True, slots=True)
class Index:
    """Hold what an index says, and what lies beside it.

    Args:
        file: The index.
        says: Its JSON.
        beside: The files of its folder at any depth, by path or URL.
        files: What reaches them.
    """

    file: Stamp
    says: Mapping[str, object]
    beside: Mapping[str, Stamp]
    files: Files

    def find(self, name: object) -> Stamp | None:
        """Return the file that the index names; None where there is none.

        Raises:
            SourceError: The name leads out of the index's folder, or is none; or the file cannot be looked at.
        """
        if not isinstance(name, str) or not name or _leads_out(name):
            raise SourceError(
                f"{shown(self.file.path)} names the file {name!r}: expected the name of a file in its own folder"
            )
        start, end = _around(self.file.path)
        path = start + name + end
        if path in self.beside:
            return self.beside[path]
        if local_path(path) is not None and not os.path.exists(path):
            return None
        try:
            return self.files.stamp(path)
        except FileNotFoundError:
            return None


def _leads_out(name: str) -> bool:
    return name[0] == "/" or ".." in name.split("/") or "\0" in name or "::" in name or "://" in name


def _around(path: str) -> tuple[str, str]:
    """Return what stands before and behind a file's name in its path or URL."""
    if local_path(path) is not None:
        return os.path.join(os.path.dirname(path), ""), ""
    head, chain, rest = path.partition("::")
    return head[: head.rindex("/") + 1], chain + rest


def indexes(files: Files, where: Where) -> Iterator[Index]:
    """Yield the indexes that paths and URLs name, or that their folders hold; not those below another's folder.

    Raises:
        EmptySource: There is none.
        SourceError: One cannot be read, or is no JSON object.
    """
    found = [file for file in files.listed(where, (NAME,)) if _name(file.path) == NAME or file.path in each(where)]
    if not found:
        raise EmptySource(f"{shown(where)}: no {NAME}, which tells what the files beside it hold")
    folders = {_around(file.path) for file in found}
    for file in found:
        start, end = _around(file.path)
        if not any(start != other and start.startswith(other) and end == rest for other, rest in folders):
            yield _load(files, file)


def _name(path: str) -> str:
    return path.partition("::")[0].rpartition("/")[2]


def _load(files: Files, file: Stamp) -> Index:
    try:
        says = json.loads(files.read(file))
    except OSError as exc:
        raise open_failed(file.path, exc) from exc
    except (ValueError, RecursionError) as exc:
        raise SourceError(
            f"{shown(file.path)} is no {NAME} that can be read; name the folder that holds one: {exc}"
        ) from exc
    if not isinstance(says, dict):
        raise SourceError(f"{shown(file.path)} is no {NAME}: expected a JSON object, found {type(says).__name__}")
    start, end = _around(file.path)
    return Index(file, says, {one.path: one for one in files.listed((start or "./") + end, ("",))}, files)


def mapping(value: object) -> Mapping[str, object]:
    """Return a JSON object.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {value!r:.60}")
    return value


def sequence(value: object) -> list[object]:
    """Return a JSON list.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r:.60}")
    return value


def count(value: object) -> int:
    """Return a number of something.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"expected a number of something, found {value!r:.60}")
    return value
