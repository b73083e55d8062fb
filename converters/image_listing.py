"""List the images of a folder by class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from datafeed.converters.listing import Walk, list_files, stamp
from datafeed.converters.names import escape, shown
from datafeed.converters.source import Stamp
from datafeed.errors import EmptySource, SourceError
from datafeed.sizes import some

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
    sieve = _Sieve()
    bare, folders = sieve.folder(path)
    found = [sieve.tree(folder) for folder in folders]
    if not bare and not any(found):
        raise EmptySource(
            f"no image in {path!r}: expected names that end in {', '.join(SUFFIXES)}, found {sieve.others()}"
        )
    if not any(found):
        return Listing(bare, None, (), sieve.notes())
    if bare:
        raise SourceError(
            f"images in {path!r} lie in class folders ({sum(map(len, found))}) as well as beside them ({len(bare)}, "
            f"such as {os.path.basename(bare[0].path)!r}), which leaves those without a class: move them into folders, "
            "or convert each class folder by itself"
        )
    files = [image for images in found for image in images]
    labels = [number for number, images in enumerate(found) for _ in images]
    classes = tuple(escape(os.path.basename(folder)) for folder in folders)
    return Listing(files, labels, classes, (*_class_notes(classes, found), *sieve.notes()))


def _class_notes(classes: Sequence[str], found: Sequence[Sequence[Stamp]]) -> list[str]:
    notes = []
    empty = [shown(name) for name, images in zip(classes, found, strict=True) if not images]
    if empty:
        notes.append(f"{some(empty)}: a class without images")
    if len(classes) > 1 and all(name.lower() in _SPLITS for name in classes):
        notes.append(f"the classes are {some(classes)}: if these are splits, convert each folder by itself")
    return notes


@dataclass(slots=True)
class _Sieve:
    """Pick the images out of folders, and remember what is passed over."""

    walk: Walk = field(default_factory=Walk)
    passed: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    collisions: list[str] = field(default_factory=list)

    def tree(self, folder: str) -> list[Stamp]:
        """List the images at any depth, sorted by path."""
        found: list[Stamp] = []
        folders = [folder]
        while folders:
            files, below = self.folder(folders.pop())
            found += files
            folders += below
        found.sort()
        return found

    def folder(self, here: str) -> tuple[list[Stamp], list[str]]:
        """List the images and the folders of one folder, each sorted by path."""
        entries, folders = self.walk.folder(here)
        files: list[Stamp] = []
        names = list(map(os.path.basename, folders))
        for entry in entries:
            if entry.name[-5:].lower().endswith(SUFFIXES) and _is_file(entry):
                files.append(stamp(entry.path))
                names.append(entry.name)
            else:
                self._pass(entry)
        self._collide(here, names)
        return files, folders

    def _pass(self, entry: os.DirEntry[str]) -> None:
        if entry.is_symlink() and not _is_file(entry):
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
        return some(kinds) if kinds else "no other file either"

    def notes(self) -> tuple[str, ...]:
        """Say what was passed over."""
        notes = []
        if self.passed:
            total = self.passed.total()
            notes.append(f"{total} file{'s' if total > 1 else ''} passed over that are no images: {self.others()}")
        for paths, what in (
            (self.links, "a link that leads nowhere, or back to itself, passed over"),
            (self.walk.again, "a folder that was reached before by another path, passed over"),
            (self.collisions, "names in this folder differ in upper and lower case alone"),
        ):
            if paths:
                notes.append(f"{some([shown(path) for path in sorted(paths)])}: {what}")
        return tuple(notes)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False
