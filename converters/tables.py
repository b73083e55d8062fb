"""Agree on the columns of several files that hold tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from datafeed.converters.arrow import feature_of
from datafeed.converters.leaves import Leaf, unlike
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Stamp
from datafeed.errors import ConfigError, SchemaError, SourceError
from datafeed.infer import image_media
from datafeed.schema import Feature, Schema
from datafeed.sizes import some


class Facts(Protocol):
    """Say what a file holds, as far as its metadata tell."""

    @property
    def leaves(self) -> Mapping[str, Leaf]:
        """The columns by name, in the file's order."""
        ...

    def may_lack(self, name: str) -> bool:
        """Whether a column may hold nulls."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Say what becomes of a leaf.

    Args:
        feature: The feature that it becomes.
        leaf: The leaf.
    """

    feature: Feature
    leaf: Leaf


Heads = Callable[[Leaf], Sequence[bytes]]
"""Returns the first bytes of a leaf's first values."""


def columns_of(files: Sequence[tuple[Stamp, Facts]], asked: SourceOptions, heads: Heads) -> list[Wanted]:
    """Return the features of files whose columns agree; with `asked.columns`, no other column is looked at.

    Args:
        files: One or more, with what they hold.
        asked: How they are read.
        heads: Reads the first values of a leaf, which tell images.

    Raises:
        SourceError: The columns differ, no feature holds one of them, or they hold nothing but nulls.
        ConfigError: A column is asked for that is not there.
    """
    where = shown(files[0][0].path)
    leaves = filled(files, asked.columns)
    if not leaves and not asked.columns:
        raise SourceError(f"{where}: its columns hold nothing but nulls")
    try:
        columns = [Wanted(_feature(files, leaf, asked, heads), leaf) for leaf in leaves.values()]
        if asked.columns:
            _check_asked(asked.columns, columns, files[0][1])
            columns = [column for column in columns if column.feature.name in asked.columns]
        Schema([column.feature for column in columns])
    except SchemaError as exc:
        raise SourceError(f"{where}: {exc}") from exc
    return columns


def _check_asked(asked: Sequence[str], columns: Sequence[Wanted], facts: Facts) -> None:
    known = {column.leaf.name: column.feature.name for column in columns}
    lacking = [name for name in asked if name not in known.values()]
    if lacking:
        there = [known.get(leaf.name, leaf.short) for leaf in facts.leaves.values()]
        raise ConfigError(f"columns: no feature {lacking[0]!r} that holds values; there are {', '.join(there)}")


def filled(files: Sequence[tuple[Stamp, Facts]], columns: Sequence[str]) -> dict[str, Leaf]:
    """Return the leaves that any of the files fills, in the first file's order.

    Args:
        files: One or more, with what they hold.
        columns: The features wanted; none for all.

    Raises:
        SourceError: The files do not agree on them.
    """
    found: dict[str, tuple[Stamp, Leaf]] = {}
    first = _wanted(files[0][1], columns)
    for file, facts in files:
        leaves = _wanted(facts, columns)
        _check_same(files[0][0], first, file, leaves)
        odd = [name for name, leaf in leaves.items() if name in found and unlike(leaf, found[name][1])]
        if odd:
            raise SourceError(_differ(odd, file, leaves[odd[0]], found[odd[0]]))
        for name, leaf in leaves.items():
            found[name] = _better(found.get(name), (file, leaf))
    return {name: found[name][1] for name in first if not found[name][1].empty}


def _wanted(facts: Facts, columns: Sequence[str]) -> dict[str, Leaf]:
    return {name: leaf for name, leaf in facts.leaves.items() if leaf.is_wanted(columns)}


def _check_same(first: Stamp, before: Mapping[str, Leaf], file: Stamp, leaves: Mapping[str, Leaf]) -> None:
    odd = sorted(set(before) ^ set(leaves))
    if odd:
        has, lacks = (file, first) if odd[0] in leaves else (first, file)
        more = f"; {len(odd) - 1} more differ: {some(odd[1:])}" if odd[1:] else ""
        raise SourceError(
            f"the files' columns differ: {shown(has.path)} has {odd[0]!r}, {shown(lacks.path)} lacks it{more}: convert "
            "them apart, write them alike, or name the columns to keep by --columns"
        )


def _differ(odd: Sequence[str], file: Stamp, leaf: Leaf, known: tuple[Stamp, Leaf]) -> str:
    before, other = known
    more = f"; {len(odd) - 1} more differ: {some(odd[1:])}" if odd[1:] else ""
    if leaf.form == other.form:
        what = f"stands for the classes {some(leaf.classes)} in {shown(file.path)} and {some(other.classes)}"
    else:
        what = f"is {leaf.kind} in {shown(file.path)} and {other.kind}"
    advice = "cast one of them, or name the columns to keep by --columns"
    return f"the files' columns differ: {odd[0]!r} {what} in {shown(before.path)}{more}: {advice}"


def _better(known: tuple[Stamp, Leaf] | None, new: tuple[Stamp, Leaf]) -> tuple[Stamp, Leaf]:
    """Return the one of two files' leaves that says more, with what the other knows of classes and files."""
    if known is None or known[1].empty:
        return new
    leaf, other = known[1], new[1]
    if leaf == other:
        return known
    media = other.media if leaf.media is None else leaf.media
    return known[0], replace(leaf, media=media, classes=leaf.classes or other.classes)


def _feature(files: Sequence[tuple[Stamp, Facts]], leaf: Leaf, asked: SourceOptions, heads: Heads) -> Feature:
    optional = any(facts.may_lack(leaf.name) for _, facts in files)
    made = feature_of(leaf.name, leaf.kind, optional=optional, int64_lists=asked.int64_lists)
    if made.dtype != "bytes" or made.shape:
        return replace(made, classes=leaf.classes)
    if leaf.media is not None:
        return replace(made, name=leaf.short, media=leaf.media)
    found = heads(leaf)
    if found and all(map(image_media, found)):
        return replace(made, name=leaf.short, media="image")
    return made


def notes_of(files: Sequence[tuple[Stamp, Facts]], asked: SourceOptions) -> Iterator[str]:
    """Say which columns were left out, and what stands in the names of folders alone."""
    if not files:
        return
    kept = filled(files, asked.columns)
    for name in _wanted(files[0][1], asked.columns):
        if name not in kept:
            yield f"left out, as it holds nothing but nulls: {shown(name)}"
    parts = {part for file, _ in files for part in _partitions(file.path)}
    if parts:
        yield f"in the names of folders only, and not in the samples: {shown(', '.join(sorted(parts)))}"


def _partitions(path: str) -> set[str]:
    """Return the names of columns that stand in the names of folders, as `year=2024`."""
    folders = os.path.dirname(path).split("/")
    return {folder.partition("=")[0] for folder in folders if "=" in folder}
