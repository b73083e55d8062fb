"""Test how the files of a raw data set are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from datafeed.converters.listing import Walk, list_files, read_head, stamp
from datafeed.errors import SourceError, SourceNotFound


def put(path: Path) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    return path


def test_files_of_a_folder_are_found_at_any_depth(tmp_path: Path) -> None:
    """Sorted by path, by the end of their names in any case, but hidden ones."""
    for name in ("b.csv", "a/z.CSV", "a/deep/er/x.csv", "a/notes.txt", ".hidden.csv", ".git/x.csv"):
        put(tmp_path / name)
    found = [str(Path(path).relative_to(tmp_path)) for path in list_files(str(tmp_path), (".csv",))]
    assert found == ["a/deep/er/x.csv", "a/z.CSV", "b.csv"]


def test_a_file_and_a_pattern_count_whatever_the_name(tmp_path: Path) -> None:
    """Folders that a pattern meets are left out."""
    one, other = put(tmp_path / "one.txt"), put(tmp_path / "other")
    (tmp_path / "of").mkdir()
    assert list_files(str(one), (".csv",)) == [str(one)]
    assert list_files(str(tmp_path / "o*"), (".csv",)) == [str(one), str(other)]


def test_a_missing_path_names_the_nearest_folder(tmp_path: Path) -> None:
    """A pattern that nothing fits is one too."""
    for missing in (tmp_path / "a" / "b.csv", tmp_path / "*.csv"):
        with pytest.raises(SourceNotFound, match=f"nearest folder that exists is '{tmp_path}'"):
            list_files(str(missing), (".csv",))


def test_links_are_followed_and_each_folder_entered_once(tmp_path: Path) -> None:
    """A link back to the top ends there; one to itself is no folder."""
    elsewhere = put(tmp_path / "elsewhere" / "a.csv").parent
    top = put(tmp_path / "top" / "b.csv").parent
    (top / "away").symlink_to(elsewhere)
    (top / "back").symlink_to(top)
    (top / "self").symlink_to("self")
    walk = Walk()
    assert [entry.name for entry in walk.files(str(top))] == ["b.csv", "self", "a.csv"]
    assert walk.again == [str(top / "back")]
    assert list_files(str(top), (".csv",)) == [str(top / "away" / "a.csv"), str(top / "b.csv")]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the reason and what to do; nothing is left out in silence."""
    gone = str(tmp_path / "gone")
    for reach in (stamp, Walk().folder, lambda path: read_head(path, 4)):
        with pytest.raises(SourceError, match=r"gone: No such file or directory; make it readable, or take it out"):
            reach(gone)


def test_stamp_and_head_tell_of_a_file(tmp_path: Path) -> None:
    """Its size and time of change, its first bytes or all there are."""
    path = put(tmp_path / "a")
    found = path.stat()
    assert stamp(str(path)) == (str(path), 5, found.st_mtime_ns)
    assert read_head(str(path), 3) == b"123"
    assert read_head(str(path), 30) == b"12345"
