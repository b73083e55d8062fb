"""Test reaching raw files, local ones and those of a URL."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from datafeed.converters.files import Files
from datafeed.converters.names import base_name
from datafeed.converters.source import Stamp
from datafeed.errors import ConfigError, SourceChanged, SourceNotFound

FILES = Files()
CONTENT = {"a.csv": b"one", "b/c.CSV": b"three", "b/d.txt": b"4", ".hidden/e.csv": b"", "b/.f.csv": b""}


@pytest.fixture(params=["local", "memory", "zip"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Put the same files in a folder, a file system of fsspec, and an archive."""
    for name, data in CONTENT.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    if request.param == "local":
        yield str(tmp_path / "in")
    elif request.param == "zip":
        with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
            for name, data in CONTENT.items():
                archive.writestr(f"in/{name}", data)
        yield f"zip://in::{tmp_path}/in.zip"
    else:
        fs = fsspec.filesystem("memory")
        fs.put(f"{tmp_path}/in", "/files", recursive=True)
        yield "memory://files"
        fs.rm("/files", recursive=True)


def within(root: str, name: str) -> str:
    """Return the URL of a file."""
    head, chain, rest = root.partition("::")
    return f"{head}/{name}{chain}{rest}"


def test_a_folder_is_listed_sorted_without_hidden_files(root: str) -> None:
    """At any depth, suffixes in any case, with sizes."""
    found = FILES.listed(root, (".csv",))
    assert [(file.path, file.nbytes) for file in found] == [(within(root, "a.csv"), 3), (within(root, "b/c.CSV"), 5)]
    assert FILES.is_folder(root)
    assert not FILES.is_folder(found[0].path)
    assert found[0] == FILES.stamp(found[0].path) or found[0].version


def test_patterns_braces_and_several_are_listed_once(root: str) -> None:
    """In the order in which they are named."""
    wanted = (within(root, "b/[cd].*"), within(root, "a.csv"), within(root, "b/c.CSV"))
    found = [file.path for file in FILES.listed(wanted, ())]
    assert found == [within(root, name) for name in ("b/c.CSV", "b/d.txt", "a.csv")]
    braces = FILES.listed(within(root, "{b/d.txt,a.csv}"), ())
    assert [file.path for file in braces] == [within(root, name) for name in ("b/d.txt", "a.csv")]


def test_what_is_not_there_is_named(root: str) -> None:
    """As a file and as a pattern."""
    for name in ("gone.csv", "gone*", "b/{c,gone}.CSV"):
        with pytest.raises(SourceNotFound, match="gone"):
            FILES.listed(within(root, name), ())


def test_bytes_are_read_whole_in_part_and_many(root: str) -> None:
    """The first ones, all, at a position, and of several files."""
    files = FILES.listed(root, ("",))
    assert FILES.read_all(files) == [CONTENT[name] for name in ("a.csv", "b/c.CSV", "b/d.txt")]
    assert FILES.read(files[1]) == b"three"
    assert FILES.head(files[1].path, 2) == b"th"
    with FILES.open(files[1].path) as file:
        file.seek(3)
        assert file.read() == b"ee"
    with FILES.local(files[1]) as path:
        assert Path(path).read_bytes() == b"three"
    FILES.check_unchanged(files)


def test_f05_a_file_that_changed_is_found(root: str) -> None:
    """By another size or version than was listed, and when it is gone."""
    file = FILES.listed(root, (".csv",))[0]
    for other in (file._replace(nbytes=2), file._replace(version=12345)):
        with pytest.raises(SourceChanged, match=r"a\.csv.* changed while it was converted: listed with"):
            FILES.check_unchanged([other])
    with pytest.raises(SourceChanged, match=r"x\.csv.* was listed, and is gone"):
        FILES.check_unchanged([file._replace(path=within(root, "x.csv"))])
    with pytest.raises(SourceChanged, match="listed with 2 bytes"):
        FILES.read_all([file._replace(nbytes=2)])


def test_one_of_many_that_cannot_be_read_is_told_apart(root: str) -> None:
    """The others are read."""
    files = FILES.listed(root, (".csv",))
    gone = Stamp(within(root, "gone"), 1, 1)
    first, error, second = FILES.read_all([files[0], gone, files[1]])
    assert (first, second) == (b"one", b"three")
    assert isinstance(error, OSError)
    with pytest.raises(OSError, match="gone"):
        FILES.read(gone)
    with pytest.raises(OSError, match="gone"):
        FILES.open(gone.path)


def test_a_url_of_no_file_system_is_refused() -> None:
    """By its name, a password masked."""
    with pytest.raises(ConfigError, match=r"no file system for nosuch://me:\*\*\*@host/a"):
        FILES.listed("nosuch://me:secret@host/a", ())
    with pytest.raises(SourceNotFound, match=r"zip://a::/gone\.zip"):
        FILES.head("zip://a::/gone.zip", 3)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b.csv", "b.csv"),
        ("/a/b::c.csv", "b::c.csv"),
        ("s3://bucket/key.csv", "key.csv"),
        ("zip://in/b.csv::s3://bucket/c.zip", "b.csv"),
        ("https://host/d/b.csv.gz?X-Signature=a/b", "b.csv.gz"),
        ("s3://bucket/train/", "train"),
    ],
)
def test_the_last_part_of_a_name_tells_the_kind(path: str, name: str) -> None:
    """Whatever stands behind it."""
    assert base_name(path) == name


def test_options_are_in_no_text() -> None:
    """They may hold a secret."""
    assert "secret" not in repr(Files({"password": "secret"}))
    assert os.sep in str(Path.cwd())
