"""List the images of a folder by class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from datafeed.converters.listing import list_files, stamp
from datafeed.converters.source import Stamp
from datafeed.errors import EmptySource, SourceError

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold the images of a folder, in order.

    Args:
        files: The images: by class, then by path.
        labels: The class of each; None where the images have none.
        classes: The names of the first level of folders, sorted.
        notes: What a person should know.
    """

    files: list[Stamp]
    labels: list[int] | None
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def list_images(path: str) -> Listing:
    """List the images of a folder; where folders of the first level hold images, these folders are the classes.

    Args:
        path: The folder; a file or a glob pattern gives images without a class.

    Returns:
        The listing.

    Raises:
        SourceNotFound: Nothing is there.
        EmptySource: There is no image.
        SourceError: Images lie both in class folders and beside them, or a folder cannot be read.
    """
    if not os.path.isdir(path):
        files = [stamp(name) for name in list_files(path, SUFFIXES)]
        return Listing(files, None, (), ())
    walk = _Walk()
    try:
        bare, folders = walk.one(path)
        found = [walk.tree(os.path.join(path, name)) for name in folders]
    except OSError as exc:
        raise SourceError(f"cannot list {exc.filename!r}: {exc.strerror}; make it readable, or take it out") from exc
    if not bare and not any(found):
        raise EmptySource(
            f"no image in {path!r}: expected names that end in {', '.join(SUFFIXES)}, found {walk.others()}"
        )
    if not any(found):
        return Listing(bare, None, (), walk.notes())
    if bare:
        raise SourceError(
            f"images in {path!r} lie in class folders ({sum(map(len, found))}) as well as beside them ({len(bare)}, "
            f"such as {os.path.basename(bare[0].path)!r}), which leaves those without a class: move them into folders, "
            "or convert each class folder by itself"
        )
    files = [image for images in found for image in images]
    labels = [number for number, images in enumerate(found) for _ in images]
    classes = tuple(map(escape, folders))
    return Listing(files, labels, classes, (*_class_notes(classes, found), *walk.notes()))


def escape(name: str) -> str:
    r"""Return a name as valid text: bytes that are not UTF-8 become \\xNN."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def shown(name: str) -> str:
    """Return a name as text for one line of a message."""
    name = escape(name)
    return name if name.isprintable() else repr(name)


def _class_notes(classes: Sequence[str], found: Sequence[Sequence[Stamp]]) -> list[str]:
    notes = []
    empty = [shown(name) for name, images in zip(classes, found, strict=True) if not images]
    if empty:
        notes.append(f"{_some(empty)}: a class without images")
    if len(classes) > 1 and all(name.lower() in _SPLITS for name in classes):
        notes.append(f"the classes are {_some(classes)}: if these are splits, convert each folder by itself")
    return notes


@dataclass(slots=True)
class _Walk:
    """Walk folders, each once, and remember what is passed over."""

    seen: set[tuple[int, int]] = field(default_factory=set)
    passed: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    collisions: list[str] = field(default_factory=list)

    def tree(self, folder: str) -> list[Stamp]:
        """List the images at any depth, sorted by path."""
        found: list[Stamp] = []
        folders = [folder]
        while folders:
            here = folders.pop()
            files, below = self.one(here)
            found += files
            folders += [os.path.join(here, name) for name in reversed(below)]
        found.sort()
        return found

    def one(self, here: str) -> tuple[list[Stamp], list[str]]:
        """List the images and the folders of one folder, each sorted by name."""
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in self.seen:
            self.again.append(here)
            return [], []
        self.seen.add((status.st_dev, status.st_ino))
        files: list[Stamp] = []
        folders: list[str] = []
        with os.scandir(here) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if entry.is_dir():
                    folders.append(name)
                elif name[-5:].lower().endswith(SUFFIXES) and entry.is_file():
                    found = entry.stat()
                    files.append(Stamp(entry.path, found.st_size, found.st_mtime_ns))
                else:
                    self._pass(entry)
        files.sort()
        folders.sort()
        self._collide(here, [*folders, *(file.path[len(here) :] for file in files)])
        return files, folders

    def _pass(self, entry: os.DirEntry[str]) -> None:
        if entry.is_symlink() and not entry.is_file():
            self.links.append(entry.path)
        else:
            self.passed[os.path.splitext(entry.name)[1].lower() or "no suffix"] += 1

    def _collide(self, here: str, names: Sequence[str]) -> None:
        folded = {name.casefold() for name in names}
        if len(folded) < len(names):
            self.collisions.append(here)

    def others(self) -> str:
        """Say how many other files there are, by suffix."""
        kinds = [f"{count} x {escape(suffix)!r}" for suffix, count in sorted(self.passed.items())]
        return _some(kinds) if kinds else "no other file either"

    def notes(self) -> tuple[str, ...]:
        """Say what was passed over."""
        notes = []
        if self.passed:
            total = self.passed.total()
            notes.append(f"{total} file{'s' if total > 1 else ''} passed over that are no images: {self.others()}")
        for paths, what in (
            (self.links, "a link that leads nowhere, or back to itself, passed over"),
            (self.again, "a folder that was reached before by another path, passed over"),
            (self.collisions, "names in this folder differ in upper and lower case alone"),
        ):
            if paths:
                notes.append(f"{_some([shown(path) for path in sorted(paths)])}: {what}")
        return tuple(notes)


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
