"""Test listing the files of folders by class."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import fsspec
import pytest

from datafeed.converters.class_listing import Listing, listed_by_class
from datafeed.converters.files import Files
from datafeed.converters.source import Where
from datafeed.errors import EmptySource, SourceError, SourceNotFound


def put(folder: Path, *names: str) -> str:
    """Write files, each of as many bytes as its name has; return the folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return str(folder)


def listed(where: Where) -> Listing:
    """List .a and .b files."""
    return listed_by_class(Files(), where, (".a", ".b"), "sound")


def names(listing: Listing) -> list[str]:
    """Return the names in order, with their classes."""
    files = listing.files
    return [f"{files.name(row)} {files.labels[row]}" for row in files.order]


def in_memory(*found: str) -> str:
    """Write files to memory; return their folder's URL."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    fs.pipe({f"/data/{name}": b"x" * len(name) for name in found})
    return "memory://data"


TREE = ("cat/2.a", "cat/1/x.B", "cat/10.a", "dog/é.b", "dog/notes.txt", "elk/readme", ".hidden/3.a", "dog/.4.a")


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_is_listed_alike_wherever_it_lies(tmp_path: Path, slash: str) -> None:
    """On a disk, behind a URL, in an archive: the same names, classes, sizes and notes."""
    local = listed(put(tmp_path / "data", *TREE) + slash)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in TREE:
            archive.writestr(name, "x" * len(name))
    for url in (in_memory(*TREE) + slash, f"zip://::{tmp_path}/x.zip", f"file://{tmp_path}/data{slash}"):
        there = listed(url)
        assert names(there) == names(local) == ["cat/1/x.B 0", "cat/10.a 0", "cat/2.a 0", "dog/é.b 1"]
        assert (there.classes, there.digest, there.notes) == (local.classes, local.digest, local.notes)
        stamps = there.files.stamps(there.files.order)
        assert Files().read_all(stamps) == [b"x" * file.nbytes for file in stamps]
        assert [file.nbytes for file in stamps] == [9, 8, 7, 7]
    assert local.classes == ("cat", "dog", "elk")
    assert local.notes == (
        "elk: a class without sounds",
        "2 files passed over that are no sounds: 1 x '.txt', 1 x 'no suffix'",
    )


def test_classes_of_several_folders_are_united_by_name(tmp_path: Path) -> None:
    """Files are in order of class and name, wherever each lies; a URL is a folder like another."""
    first = put(tmp_path / "z", "cat/1.a", "cat/3.a", "dog/1.a")
    second = put(tmp_path / "a", "ant/1.a", "cat/2.a")
    url = in_memory("dog/0.a")
    found = listed((first, second, url))
    assert found.classes == ("ant", "cat", "dog")
    assert names(found) == ["ant/1.a 0", "cat/1.a 1", "cat/2.a 1", "cat/3.a 1", "dog/0.a 2", "dog/1.a 2"]
    assert listed((url, second, first)).digest == found.digest
    assert found.files.path(found.files.order[2]) == f"{second}/cat/2.a"
    assert found.files.path(found.files.order[4]) == "memory://data/dog/0.a"


def test_a_file_that_two_name_is_listed_once(tmp_path: Path) -> None:
    """As a pattern and a file may, and a folder that is named twice."""
    folder = put(tmp_path, "1.a", "2.a", "3.b")
    found = listed((f"{folder}/*.a", f"{folder}/2.a", f"{folder}/{{2,3}}.?"))
    assert names(found) == ["1.a -1", "2.a -1", "3.b -1"]
    url = in_memory("x/1.a")
    assert names(listed((url, url, f"{url}/"))) == ["x/1.a 0"]
    assert names(listed((folder, f"{folder}/"))) == ["1.a -1", "2.a -1", "3.b -1"]


def test_two_files_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    """The error names both, and says what to do."""
    first, second = put(tmp_path / "a", "cat/0.a", "cat/1.a"), put(tmp_path / "b", "cat/1.a", "cat/2.a")
    with pytest.raises(SourceError, match=r"names collide: .*a/cat/1\.a and .*b/cat/1\.a would have one name"):
        listed((first, second))


def test_files_with_and_without_a_class_are_refused_together(tmp_path: Path) -> None:
    """As when a folder of classes and a class of it are named."""
    folder = put(tmp_path, "one/cat/0.a", "two/1.a")
    with pytest.raises(SourceError, match=r"class folders \(1\) as well as beside them \(1, such as '1.a'\)"):
        listed((f"{folder}/one", f"{folder}/two"))


def test_nothing_there_is_said_with_what_is(tmp_path: Path) -> None:
    """Of a folder, what lies there; of a path or URL, that there is none."""
    folder = put(tmp_path, "x/1.txt", "2.txt", "3")
    with pytest.raises(EmptySource, match=r"no sound in .*: expected .* \.a, \.b, found 2 x '\.txt', 1 x 'no suffix'"):
        listed(folder)
    with pytest.raises(EmptySource, match="no other file either"):
        listed(put(tmp_path / "none", ".hidden"))
    for where in (f"{folder}/gone", "memory://gone", (folder, "memory://gone/*.a")):
        with pytest.raises(SourceNotFound, match="gone"):
            listed(where)


def test_f56_names_that_collide_by_case_are_noted_in_each_folder(tmp_path: Path) -> None:
    """Locally and behind a URL, once each."""
    tree = ("c/x.a", "c/X.a", "c/X.A", "d/x.a")
    for where in (put(tmp_path, *tree), in_memory(*tree)):
        (note,) = listed(where).notes
        assert "differ in upper and lower case alone" in note
        assert note.partition(": ")[0] == f"{where}/c"


def test_suffixes_passed_over_are_counted_within_bounds(tmp_path: Path) -> None:
    """A number for a suffix, as in x.000001, cannot fill the memory."""
    folder = put(tmp_path, "1.a", *(f"x.{number}" for number in range(1200)))
    (note,) = listed(folder).notes
    assert note.startswith("1,200 files passed over")
    assert "200 x 'other suffixes'" not in note.partition("and")[0]
    assert note.endswith("more")


@pytest.mark.slow
def test_70_000_classes_are_listed(tmp_path: Path) -> None:
    """Each with one file; their labels are the sorted names."""
    for number in range(70_000):
        os.mkdir(tmp_path / f"{number:05}")
        (tmp_path / f"{number:05}" / "x.a").touch()
    found = listed(str(tmp_path))
    assert len(found.classes) == 70_000
    assert found.files.labels[found.files.order].tolist() == list(range(70_000))
    assert found.files.name(found.files.order[-1]) == "69999/x.a"
