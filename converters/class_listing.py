"""List the files of folders by class.

Folders of the first level are the classes where files lie in them at any depth. Several folders are laid over one
another: their classes are united by name, and files are in order of class and name, wherever the folders lie. A file
that two of them hold is listed once. Two files that would have one name in the dataset are refused.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from datafeed.converters.braces import expand
from datafeed.converters.file_units import FileUnits
from datafeed.converters.files import Files
from datafeed.converters.listing import Walk, is_folder, stamp
from datafeed.converters.names import escape, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.packed import Packed, Packer, Root, Rows
from datafeed.converters.source import Stamp, Where, each
from datafeed.errors import EmptySource, SourceError
from datafeed.sizes import counted, some
from datafeed.splitmix import permutation, sample_key
from datafeed.storage import local_path

_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})
_WILD = re.compile(r"[*?\[]")
_MOST_SUFFIXES = 1000

Labels = Literal["folders", "elsewhere"]
"""Where classes are told: by the folders of the first level, or not by folders."""


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Hold the files of folders.

    Args:
        files: The files: by class, then by name.
        classes: The sorted names of the classes; none where the files have no classes.
        notes: What a person should know.
        digest: The SHA-256 of the files' names.
        labelled: Whether something is known of each file, so that it matters in which order they come.
    """

    files: Packed
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str
    labelled: bool

    def order(self, asked: SourceOptions) -> Rows:
        """Return the files' rows in the order of the samples: shuffled where they are labelled, unless told not to."""
        order = self.files.order
        if not self.labelled or not asked.shuffle:
            return order
        return order[permutation(len(order), sample_key(asked.seed, 0, 0)).astype(np.int64)]

    def units(self, what: str, asked: SourceOptions) -> FileUnits:
        """Return the units.

        Args:
            what: What a person calls some of the files, as "images".
            asked: Whether and how they are shuffled.
        """
        return FileUnits(what, self.files, self.order(asked))

    def options(self, asked: SourceOptions) -> dict[str, object]:
        """Return the order and the digest, for a dataset's provenance."""
        options: dict[str, object] = {"names": self.digest}
        if self.labelled:
            options["shuffle"] = asked.shuffle
        if options.get("shuffle"):
            options["seed"] = asked.seed
        return options


def listed_by_class(
    files: Files, where: Where, suffixes: Sequence[str], what: str, *, labels: Labels = "folders"
) -> Listing:
    """List the files of folders; where folders of their first level hold some, these folders are the classes.

    Args:
        files: What reaches them.
        where: Folders, or files and patterns, whose files have no class; paths or URLs.
        suffixes: Which files of a folder count, by the end of their names, in lower case.
        what: What a person calls such a file, as "image".
        labels: Where classes are told.

    Returns:
        The listing.

    Raises:
        SourceNotFound: Nothing is there.
        EmptySource: There is no such file.
        SourceError: Files lie both in class folders and beside them, two have one name, or a folder cannot be read.
    """
    paths = list(dict.fromkeys(one for path in each(where) for one in _expanded(path)))
    sieve = _Sieve(tuple(suffixes), what, Packer(overlap=len(paths) > 1))
    for path in paths:
        if not files.is_folder(path):
            sieve.take(_root(path), files.listed(path, suffixes))
        elif (name := local_path(path)) is not None:
            sieve.walk_folder(name)
        else:
            sieve.take_folder(_root(path, folder=True), files.listed(path, ("",)))
    return sieve.listing(where, labels)


def _expanded(path: str) -> list[str]:
    name = local_path(path)
    return [path] if name is not None and os.path.exists(name) else expand(path)


def _root(path: str, *, folder: bool = False) -> Root:
    """Return what stands around the names of the files that a path, URL or pattern names."""
    path = local_path(path) or path
    head, chain, rest = path.partition("::") if "://" in path else (path, "", "")
    if folder:
        return Root(head if head.endswith("/") else f"{head}/", chain + rest)
    return Root("".join(_WILD.split(head)[0].rpartition("/")[:2]), chain + rest)


@dataclass(slots=True)
class _Sieve:
    """Pick files out of folders, and remember what is passed over."""

    suffixes: tuple[str, ...]
    what: str
    taken: Packer
    walk: Walk = field(default_factory=Walk)
    classes: dict[str, int] = field(default_factory=dict)
    passed: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    collisions: list[str] = field(default_factory=list)

    def take(self, root: Root, stamps: Iterable[Stamp]) -> None:
        """Take files that were named, without a class."""
        self.taken.begin(root)
        for file in stamps:
            self.taken.add(_below(root, file.path), file.nbytes, file.version, -1)

    def take_folder(self, root: Root, stamps: Sequence[Stamp]) -> None:
        """Take the files of a folder out of all that are in it."""
        if stamps and stamps[0].path.startswith(f"{root.start}/"):  # a file system whose names begin with a slash
            root = Root(f"{root.start}/", root.end)
        self.taken.begin(root)
        folded: dict[str, str] = {}
        for file in stamps:
            name = _below(root, file.path)
            folder, slash, _ = name.partition("/")
            label = self.classes.setdefault(folder, len(self.classes)) if slash else -1
            if not name.lower().endswith(self.suffixes):
                self.passed[self._suffix(name)] += 1
                continue
            self.taken.add(name, file.nbytes, file.version, label)
            if folded.setdefault(name.casefold(), name) != name:
                self.collisions.append(file.path.rpartition("/")[0])

    def walk_folder(self, path: str) -> None:
        """Take the files of a local folder, one at a time."""
        root = os.path.join(path, "")
        self.taken.begin(Root(root))
        for folder in self._folder(root, "", -1, path):
            label = self.classes.setdefault(folder, len(self.classes))
            below = [f"{folder}/"]
            while below:
                here = below.pop()
                below += [f"{here}{name}/" for name in self._folder(root, here, label)]

    def _folder(self, root: str, below: str, label: int, path: str = "") -> list[str]:
        """Take the files of one folder, and return the names of those in it, sorted."""
        here = path or f"{root}{below}"[:-1]
        folders: list[str] = []
        folded = array("q")
        for entry in self.walk.entries(here):
            if is_folder(entry):
                folders.append(entry.name)
            elif entry.name.lower().endswith(self.suffixes) and _is_file(entry):
                file = stamp(entry.path)
                self.taken.add(below + entry.name, file.nbytes, file.version, label)
            else:
                self._pass(entry)
                continue
            folded.append(hash(entry.name.casefold()))
        if len(np.unique(np.frombuffer(folded, np.int64))) < len(folded):
            self.collisions.append(here)
        return sorted(folders)

    def _pass(self, entry: os.DirEntry[str]) -> None:
        if entry.is_symlink() and not _is_file(entry):
            self.links.append(entry.path)
        else:
            self.passed[self._suffix(entry.name)] += 1

    def _suffix(self, name: str) -> str:
        suffix = os.path.splitext(name)[1].lower() or "no suffix"
        return suffix if suffix in self.passed or len(self.passed) < _MOST_SUFFIXES else "other suffixes"

    def listing(self, where: Where, labels: Labels) -> Listing:
        """Return what was taken."""
        names = sorted(self.classes) if labels == "folders" else []
        numbers = np.full(len(self.classes) + 1, -1, np.int32)
        numbers[[self.classes[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        files = self.taken.packed(numbers)
        counts = files.counts(len(names)).tolist()
        self._check(where, files, counts)
        classes = tuple(map(escape, names)) if any(counts[1:]) else ()
        notes = (*_class_notes(self.what, classes, counts[1:]), *self._notes())
        return Listing(files, classes, notes, files.digest(), bool(classes) or labels == "elsewhere")

    def _check(self, where: Where, files: Packed, counts: Sequence[int]) -> None:
        bare, sorted_in = counts[0], sum(counts[1:])
        if not len(files):
            raise EmptySource(
                f"no {self.what} in {shown(where)}: expected names that end in {', '.join(self.suffixes)}, "
                f"found {self._others()}"
            )
        if bare and sorted_in:
            name = os.path.basename(files.name(int(files.order[0])))
            raise SourceError(
                f"{self.what}s in {shown(where)} lie in class folders ({sorted_in:,}) as well as beside them "
                f"({bare:,}, such as {name!r}), which leaves those without a class: move them into folders, or convert "
                "each class folder by itself"
            )
        both = files.collision()
        if both is not None:
            raise SourceError(
                f"two sources whose names collide: {shown(both[0])} and {shown(both[1])} would have one name in the "
                "dataset: rename one, or name the folder above both"
            )

    def _others(self) -> str:
        """Say how many other files there are, by suffix."""
        kinds = [f"{count:,} x {escape(suffix)!r}" for suffix, count in sorted(self.passed.items())]
        return some(kinds) if kinds else "no other file either"

    def _notes(self) -> tuple[str, ...]:
        """Say what was passed over."""
        notes = []
        if self.passed:
            files = counted(self.passed.total(), "file")
            notes.append(f"{files} passed over that are no {self.what}s: {self._others()}")
        for paths, said in (
            (self.links, "a link that leads nowhere, or back to itself, passed over"),
            (self.walk.again, "a folder that was reached before by another path, passed over"),
            (self.collisions, "names in this folder differ in upper and lower case alone"),
        ):
            if paths:
                notes.append(f"{some([shown(path) for path in sorted(set(paths))])}: {said}")
        return tuple(notes)


def _class_notes(what: str, classes: Sequence[str], counts: Sequence[int]) -> list[str]:
    notes = []
    empty = [shown(name) for name, count in zip(classes, counts, strict=False) if not count]
    if empty:
        notes.append(f"{some(empty)}: a class without {what}s")
    if len(classes) > 1 and all(name.lower() in _SPLITS for name in classes):
        notes.append(f"the classes are {some(classes)}: if these are splits, convert each folder by itself")
    return notes


def _below(root: Root, path: str) -> str:
    """Return a file's name below its root."""
    if not path.startswith(root.start) or not path.endswith(root.end):
        raise SourceError(f"expected URLs that begin with {shown(root.start)}, found {shown(path)} among them")
    return path[len(root.start) : len(path) - len(root.end)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False
