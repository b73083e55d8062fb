"""Look at HDF5 files, without following what leads out of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datafeed.converters.array_fields import Form, wanted
from datafeed.converters.files import Files
from datafeed.converters.names import escape, shown
from datafeed.errors import MissingExtra, SourceError
from datafeed.storage import local_path

if TYPE_CHECKING:
    import h5py

HDF5_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError)
"""What h5py raises where a file is damaged."""

CACHE_NBYTES = 2**28
"""What the chunks that a row touches may take, unpacked; more are unpacked again for every run of rows."""

_READ_NBYTES = 2**20  # of a remote file, behind what is asked for
_CACHE_SLOTS = 10_007
_LINKS = 100_000
_RATIO = 1100  # deflate's is 1032 at best
_SPARSE_NBYTES = 2**28
_VALUE_NBYTES = 64  # of a text or list whose size cannot be told
_SNIFFED_ROWS = 16
_DROP = "or leave it out (--columns names those to keep)"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Describe a data set with rows.

    Args:
        path: Where it stands in the file.
        form: Its dtype, and the shape of a row.
        rows: How many rows it has.
        row_nbytes: The size of a row; of texts and lists that of the first ones.
        uneven: Whether rows differ in size.
        band_rows: How many rows its chunks hold; 1 where it has none.
        band_nbytes: What the chunks that a row touches take; 0 where it has none.
    """

    path: bytes
    form: Form
    rows: int
    row_nbytes: int
    uneven: bool
    band_rows: int
    band_nbytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what a file has.

    Args:
        sets: The data sets that are wanted, by the names of their features.
        others: Names of those that are not.
        single: Names of single values.
        again: Names of links that are not followed.
        noted: Names of what has attributes.
    """

    sets: dict[str, DataSet] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    single: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)


@contextmanager
def opened(files: Files, path: str, cache_nbytes: int = 2**20) -> Iterator[h5py.File]:
    """Open a file.

    Args:
        files: What reaches it.
        path: A path or URL.
        cache_nbytes: What unpacked chunks of each data set may take.

    Raises:
        MissingExtra: h5py is not installed.
    """
    try:
        import h5py
    except ImportError as exc:
        raise MissingExtra("h5py", "hdf5", "to read HDF5") from exc
    options = {"rdcc_nbytes": cache_nbytes, "rdcc_nslots": _CACHE_SLOTS}
    name = local_path(path)
    if name is None:
        with files.open(path, read_ahead=_READ_NBYTES) as raw, h5py.File(raw, "r", **options) as file:
            yield file
    else:
        # A reader's lock fails on file systems that have none, and nothing is written.
        with h5py.File(os.fsencode(name), "r", locking=False, **options) as file:
            yield file


def find_sets(file: h5py.File, path: str, columns: Sequence[str]) -> Found:
    """Find the data sets of a file.

    Args:
        file: The file.
        path: Its path, for errors.
        columns: The features wanted; none for all.

    Raises:
        SourceError: What is wanted lies in another file, or cannot be read here.
    """
    import h5py

    found = Found(noted=["/"] if len(file.attrs) else [])
    seen = {_address(file)}
    for place, kind in _links(file, path):
        name = escape(os.fsdecode(place)).replace("/", ".")
        if kind == h5py.h5l.TYPE_HARD:
            thing = file[place]
            if _address(thing) in seen:
                found.again.append(name)
            else:
                seen.add(_address(thing))
                _look(found, name, place, (thing, path, columns))
        elif wanted(name, columns) and kind != h5py.h5l.TYPE_SOFT:
            raise SourceError(f"{shown(path)}: {shown(name)} is a link to another file, which is not opened: {_COPY}")
        else:
            found.again.append(name)
    return found


_COPY = f"copy what it leads to into this file, {_DROP}"


def _links(file: h5py.File, path: str) -> list[tuple[bytes, int]]:
    """Return all links, each with its kind, sorted by name; none is followed out of the file."""
    links: list[tuple[bytes, int]] = []

    def take(name: bytes, info: h5py.h5l.LinkInfo) -> bool | None:
        links.append((name, info.type))
        return True if len(links) > _LINKS else None

    file.id.links.visit(take, info=True)
    if len(links) > _LINKS:
        raise SourceError(f"{shown(path)} holds more than {_LINKS} links: a data set holds one feature of all samples")
    return links


def _address(thing: h5py.HLObject) -> int:
    import h5py

    address: int = h5py.h5o.get_info(thing.id).addr
    return address


def _look(found: Found, name: str, place: bytes, at: tuple[h5py.HLObject, str, Sequence[str]]) -> None:
    import h5py

    thing, path, columns = at
    if isinstance(thing, h5py.Dataset):
        if wanted(name, columns):
            _take(found, name, place, thing, path)
        else:
            found.others.append(name)
    if not isinstance(thing, h5py.Datatype) and len(thing.attrs):
        found.noted.append(name)


def _take(found: Found, name: str, place: bytes, data: h5py.Dataset, path: str) -> None:
    """Add a data set, or its name to those left out."""
    import h5py

    plan = data.id.get_create_plist()
    # Asked before its shape: that of a virtual one is drawn from other files.
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
        raise SourceError(
            f"{shown(path)}: {shown(name)} lies in other files, or other data sets, which are not opened: copy it to a "
            f"plain data set, {_DROP}"
        )
    if not data.shape:
        found.single.append(name)
        return
    try:
        form = (data.dtype, data.shape[1:])
    except TypeError as exc:
        raise SourceError(f"{shown(path)}: {shown(name)}: no feature holds its type: {exc}: {_DROP[3:]}") from exc
    _check_size(data, form, name)
    _check_filters(plan, data, name, path)
    uneven = form[0].hasobject
    nbytes = form[0].itemsize * math.prod(form[1])
    if uneven and len(data):
        nbytes = _sniffed(data)
    chunks = data.chunks or (1,) * len(data.shape)
    across = [-(-size // chunk) * chunk for size, chunk in zip(form[1], chunks[1:], strict=True)]
    band = form[0].itemsize * math.prod(across) * chunks[0] if data.chunks else 0
    found.sets[name] = DataSet(place, form, len(data), nbytes, uneven, chunks[0], band)


def _check_size(data: h5py.Dataset, form: Form, name: str) -> None:
    """Refuse a shape that far more bytes would fill than are stored; what is not stored reads as zeros, for ever."""
    nbytes = math.prod(data.shape) * form[0].itemsize
    stored = data.id.get_storage_size()
    if nbytes > max(_SPARSE_NBYTES, _RATIO * stored):
        raise OSError(f"{name} takes {nbytes} bytes by its shape, and {stored} in the file")


def _check_filters(plan: h5py.h5p.PropDCID, data: h5py.Dataset, name: str, path: str) -> None:
    import h5py

    for number in range(plan.get_nfilters()):
        code, _, _, label = plan.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            called = shown(label.decode(errors="backslashreplace")) or "without a name"
            raise SourceError(
                f"{shown(path)}: {shown(name)} is packed by the filter {code} ({called}), which h5py lacks: rewrite it "
                f"(h5repack -f GZIP=1), {_DROP}"
            )
    if plan.get_nfilters() and math.prod(data.chunks or ()) * data.dtype.itemsize > CACHE_NBYTES:
        raise SourceError(
            f"{shown(path)}: {shown(name)} has chunks of shape {data.chunks}, which are unpacked as a whole and pass "
            f"{CACHE_NBYTES} bytes: rewrite it with smaller ones (h5repack -l CHUNK=...), {_DROP}"
        )


def _sniffed(data: h5py.Dataset) -> int:
    """Return the size of a row, by the first ones."""
    try:
        rows = data[:_SNIFFED_ROWS]
    except HDF5_ERRORS:
        return _VALUE_NBYTES
    return max(nbytes_of(rows) // len(rows), 1)


def nbytes_of(array: object) -> int:
    """Return the size of an array with all that its objects hold."""
    import numpy as np

    assert isinstance(array, np.ndarray)
    if array.dtype.names is not None:
        return sum(nbytes_of(array[name]) for name in array.dtype.names)
    if array.dtype.kind != "O":
        return array.nbytes
    return sum(len(one) if isinstance(one, bytes) else getattr(one, "nbytes", 0) for one in array.flat)


def cache_nbytes(sets: Mapping[str, DataSet]) -> int:
    """Return what the chunks of each data set may take, so that those that a row touches stay unpacked."""
    bands = [data.band_nbytes for data in sets.values()]
    return max(*bands, 2**20) if sum(bands) <= CACHE_NBYTES else CACHE_NBYTES // len(bands)
