"""Test reaching files of any file system."""

from __future__ import annotations

import zipfile
from pathlib import Path

import fsspec
import pytest

from datafeed.converters import remote

FILES = {"a/1.bin": b"x", "b/2.bin": b"yy"}


def _zip(folder: Path) -> str:
    with zipfile.ZipFile(folder / "x.zip", "w") as packed:
        for name, data in FILES.items():
            packed.writestr(name, data)
    return f"zip://::{folder}/x.zip"


def _memory(_: Path) -> str:
    fsspec.filesystem("memory").store.clear()
    fsspec.filesystem("memory").pipe({f"/{name}": data for name, data in FILES.items()})
    return "memory://"


@pytest.mark.parametrize("root", [_zip, _memory])
def test_files_of_a_root_without_a_name_are_listed_by_urls_that_read(tmp_path: Path, root: object) -> None:
    """A whole archive, or all of a file system, has no folder's name before the files' names."""
    assert callable(root)
    stamps = list(remote.listed(root(tmp_path), ("",), {}))
    assert [stamp.nbytes for stamp in stamps] == [1, 2]
    assert remote.read_all([stamp.path for stamp in stamps], {}) == [b"x", b"yy"]
    for stamp in stamps:
        with remote.opened(stamp.path, 2**16, {}) as file:
            assert file.read() in FILES.values()


def test_files_of_several_file_systems_are_read_in_their_order(tmp_path: Path) -> None:
    """Each comes from its own, and one that is absent is an error in its place."""
    (tmp_path / "local.bin").write_bytes(b"local")
    archive, memory = _zip(tmp_path), _memory(tmp_path)
    urls = [
        f"{memory}a/1.bin",
        archive.replace("zip://", "zip://b/2.bin"),
        f"{memory}gone",
        str(tmp_path / "local.bin"),
        f"{memory}b/2.bin",
    ]
    found = remote.read_all(urls, {})
    assert isinstance(found.pop(2), FileNotFoundError)
    assert found == [b"x", b"yy", b"local", b"yy"]
