"""Test holding long lists of files in few bytes each."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datafeed.converters.file_units import FileUnits, labels_of, names_of
from datafeed.converters.packed import Packed, Packer, Root
from datafeed.converters.source import Stamp, Unit

NAMES = st.text(st.characters(exclude_characters="\0/", codec=None), min_size=1, max_size=30) | st.text(
    "ab", min_size=1, max_size=40
)

MEASURE = """
import sys
import numpy as np
from datafeed.converters.class_listing import Listing
from datafeed.converters.options import SourceOptions
from datafeed.converters.packed import Packer, Root
from datafeed.converters.plan import _listing
from datafeed.converters.tasks import cut_tasks

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

count, before = int(sys.argv[1]), peak()
packer = Packer()
packer.begin(Root("/data/pictures/"))
for number in range(count):
    mixed = number * 7919 % count
    packer.add(f"class {mixed % 1000:04}/from/somewhere/{mixed:09}.jpeg", 1000 + mixed % 50, mixed, mixed % 1000)
files = packer.packed(np.arange(1001, dtype=np.int32))
names = tuple(map(str, range(1000)))
units = Listing(files, names, (), files.digest(), True).units("images", SourceOptions())
tasks = cut_tasks(units)
_listing(units)
assert sum(task.nbytes for task in tasks) > 1200 * count
print((peak() - before) / count)
"""


def packed(files: list[tuple[str, int, int]], *, classes: int = 0) -> Packed:
    """Pack files of one root, given as (name, bytes, class)."""
    packer = Packer()
    packer.begin(Root("r/"))
    for version, (name, nbytes, label) in enumerate(files):
        packer.add(name, nbytes, version, label)
    return packer.packed(np.array([*range(classes), -1], np.int32))


@example([("xxxxxxxbA", 0), ("xxxxxxxaZ", 0), ("xxxxxxxaY", 0), ("xxxxxxxa", 0)])
@given(st.lists(st.tuples(NAMES, st.integers(0, 2)), unique_by=lambda file: file[0]))
def test_files_are_in_order_of_class_and_name(files: list[tuple[str, int]]) -> None:
    """Names compare as Python's text does, whatever their bytes; what is packed comes out."""
    found = packed([(name, len(name), label) for name, label in files], classes=3)
    wanted = sorted((label, name) for name, label in files)
    assert [(found.labels[row], found.name(row)) for row in found.order.tolist()] == wanted
    versions = {name: version for version, (name, _) in enumerate(files)}
    stamps = [Stamp(f"r/{name}", len(name), versions[name]) for _, name in wanted]
    assert list(found.stamps(found.order)) == stamps


def test_the_digest_is_of_the_names_bytes() -> None:
    """Of names that are no UTF-8, too: those on the disk."""
    name = os.fsdecode(b"b\xff")
    expected = hashlib.sha256(b"a\0" + b"b\xff\0" + "é".encode() + b"\0").hexdigest()
    assert packed([("é", 0, -1), (name, 0, -1), ("a", 0, -1)]).digest() == expected


@example([3_999_800, 3_999_800, 3_999_800, 3_999_801])
@given(st.lists(st.integers(0, 9_000_000), max_size=30, min_size=1))
def test_units_hold_8_mb_or_one_file(sizes: list[int]) -> None:
    """Every file once, in order; a unit ends where the next file, with 200 bytes of a row, would pass the size."""
    files = packed([(f"{place:03}", size, -1) for place, size in enumerate(sizes)])
    units = FileUnits("files", files, files.order)
    expected: list[list[int]] = [[]]
    for size in sizes:
        if expected[-1] and sum(expected[-1]) + 200 * len(expected[-1]) + size + 200 > 8_000_000:
            expected.append([])
        expected[-1].append(size)
    assert [[file.nbytes for file in unit.files] for unit in units] == expected
    assert [unit.nbytes for unit in units] == [sum(run) + 200 * len(run) for run in expected]
    assert len(units) == len(expected)
    assert units[-1] == list(units)[-1]
    assert units[1:] == list(units)[1:]


def test_a_unit_tells_the_names_and_classes_of_its_files() -> None:
    """Below their roots, also where a URL goes on behind the name, and in the order asked."""
    packer = Packer()
    for root, name in ((Root("zip://", "::/x.zip"), "é/1"), (Root("/data/"), "b/2"), (Root("/data/"), "b/3")):
        packer.begin(root)
        packer.add(name, 5, 0, 0 if name[0] == "b" else 1)
    files = packer.packed(np.array([0, 1, -1], np.int32))
    (unit,) = FileUnits("files", files, files.order[::-1])
    assert isinstance(unit, Unit)
    assert [file.path for file in unit.files] == ["zip://é/1::/x.zip", "/data/b/3", "/data/b/2"]
    assert names_of(unit) == ["é/1", "b/3", "b/2"]
    labels = labels_of(unit)
    assert labels is not None
    assert labels.tolist() == [1, 0, 0]
    assert unit.name == "files 0-2"


@pytest.mark.parametrize("count", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.large)])
def test_files_by_the_million_take_few_bytes_each(count: int) -> None:
    """Of names of 39 bytes: listed, shuffled, cut to tasks, digested, and never held as objects all at once."""
    done = subprocess.run([sys.executable, "-c", MEASURE, str(count)], capture_output=True, text=True, check=True)
    assert 60 < float(done.stdout) < 150
