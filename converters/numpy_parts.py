"""Look at files of NumPy arrays, and tell which arrays stand beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from datafeed.converters.array_fields import check_lengths, wanted
from datafeed.converters.array_names import group_names
from datafeed.converters.array_rows import READ_NBYTES, Stored
from datafeed.converters.files import Files, open_failed
from datafeed.converters.names import escape, shown
from datafeed.converters.npy_header import HEAD_NBYTES, DamagedError, read_header
from datafeed.converters.npz import members_of
from datafeed.converters.source import Stamp, Unit, Where
from datafeed.errors import SourceError
from datafeed.sizes import some

SUFFIXES = (".npy", ".npz")

Group = Mapping[str, Stamp]
"""The files whose rows belong together, by the names of their arrays."""

_ZIP = "\0"  # in place of a name: the file holds several arrays


@dataclass(frozen=True, slots=True)
class Part:
    """Hold arrays of equal length.

    Args:
        arrays: The arrays that are wanted, by name.
        rows: Their length.
        scalars: Names of single values.
        others: Names of what is no array.
    """

    arrays: Mapping[str, Stored]
    rows: int
    scalars: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def path(self) -> str:
        """The first file."""
        return next(iter(self.arrays.values())).file.path


def groups_of(files: Files, where: Where) -> list[Group]:
    """Group files by their names.

    Args:
        files: What reaches them.
        where: Paths and URLs.

    Returns:
        The groups, in order; each .npz file is one by itself.

    Raises:
        EmptySource: There is no file.
        SourceError: There are .npz files and others, or arrays have different numbers of files.
    """
    found = files.some(where, SUFFIXES)
    zipped = [_is_zip(files, file) for file in found]
    if all(zipped):
        return [{_ZIP: file} for file in found]
    if any(zipped):
        one, other = found[zipped.index(True)], found[zipped.index(False)]
        raise SourceError(f"{shown(one.path)} is a .npz file, {shown(other.path)} is none: convert them apart")
    names = group_names([file.path for file in found])
    return [{name: found[place] for name, place in group.items()} for group in names]


def _is_zip(files: Files, file: Stamp) -> bool:
    name = file.path.partition("::")[0].lower()
    if name.endswith(SUFFIXES):
        return name.endswith(".npz")
    return files.head(file.path, 2) == b"PK"


def parts_of(files: Files, groups: Sequence[Group], columns: Sequence[str]) -> Iterator[Part | Unit]:
    """Look at the headers of files; those of 0 bytes alone are passed over.

    Args:
        files: What reaches them.
        groups: The files.
        columns: The features wanted; none for all.

    Yields:
        The arrays of each group; where one cannot be read, a unit whose detail says why.

    Raises:
        SourceError: Arrays that belong together have different lengths.
    """
    for group in groups:
        if any(file.nbytes for file in group.values()):
            yield _part(files, group, columns)


def _part(files: Files, group: Group, columns: Sequence[str]) -> Part | Unit:
    found: dict[str, Stored] = {}
    others: list[str] = []
    chosen = [name for name in group if wanted(name.removeprefix(_ZIP), columns)]
    for name in chosen or group:
        file = group[name]
        try:
            if name == _ZIP:
                arrays, others = _zipped(files, file)
                found |= arrays
            else:
                header = read_header(files.head(file.path, HEAD_NBYTES), file.nbytes)
                found[name] = Stored(file, header, header.nbytes)
        except DamagedError as exc:
            beside = tuple(other for other in group.values() if other is not file)
            return Unit(file.path, file.nbytes, (file, *beside), f"it {exc}")
    return _lined_up(found, others, next(iter(group.values())).path, columns)


def _zipped(files: Files, file: Stamp) -> tuple[dict[str, Stored], list[str]]:
    try:
        with files.open(file.path, read_ahead=READ_NBYTES) as data:
            members, others = members_of(data, file.nbytes)
    except OSError as exc:
        raise open_failed(file.path, exc) from exc
    arrays = {escape(one.array): Stored(file, one.header, one.start, one.name, one.packed) for one in members}
    if not arrays:
        raise DamagedError("holds no array")
    return arrays, others


def _lined_up(found: Mapping[str, Stored], others: Sequence[str], path: str, columns: Sequence[str]) -> Part:
    """Return arrays as a part, once their lengths are seen to agree."""
    scalars = tuple(name for name, array in found.items() if not array.header.shape)
    arrays = {name: array for name, array in found.items() if array.header.shape}
    if not arrays:
        raise SourceError(f"{shown(path)}: no array has an axis that counts samples")
    # Where none is wanted, all are kept for the message that no feature is named so.
    chosen = {name: array for name, array in arrays.items() if wanted(name, columns)} or arrays
    check_lengths(path, {name: array.rows for name, array in chosen.items()})
    return Part(chosen, next(iter(chosen.values())).rows, scalars, tuple(others))


def notes_of(groups: Sequence[Group], parts: Sequence[Part | Unit]) -> list[str]:
    """Say how files are understood, and what is left out."""
    notes = []
    if len(groups) > 1 and _ZIP not in groups[0]:
        what = "one array" if "" in groups[0] else f"each of {some(list(map(shown, groups[0])))}"
        notes.append(f"{len(groups)} files are parts of {what}, as their names differ in digits alone")
    empty = sum(not file.nbytes for group in groups for file in group.values())
    if empty:
        notes.append(f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes")
    good = [part for part in parts if isinstance(part, Part)]
    told = (
        ("left out, as it is a single value", [name for part in good for name in part.scalars]),
        ("left out, as it is no array", [name for part in good for name in part.others]),
        (
            "in Fortran order, which is slow to read by rows",
            [name or "data" for part in good for name, array in part.arrays.items() if array.scattered],
        ),
    )
    return notes + [f"{what}: {some(list(map(shown, dict.fromkeys(names))))}" for what, names in told if names]
