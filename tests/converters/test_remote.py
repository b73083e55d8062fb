"""Test reaching files of any file system."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import fsspec
import pytest

from datafeed.converters import remote
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.errors import ConfigError, SourceError, SourceNotFound

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


def test_a_signature_is_nowhere_in_a_dataset_and_no_part_of_what_it_is(tmp_path: Path) -> None:
    """A rerun with a URL that was signed anew goes on; a bad item names its file without the token."""
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/s/a.csv?v=1&token={token}": b"x\n1\nodd\n" for token in ("hush-1", "hush-2")})
    options = ConvertOptions(kind="csv", types={"x": "int64"}, on_error="quarantine")
    reports = [
        convert(f"memory://s/a.csv?v=1&token={token}", tmp_path / token, options) for token in ("hush-1", "hush-2")
    ]
    assert reports[0].dataset_id == reports[1].dataset_id
    assert "token=***" in reports[0].reasons[0]
    written = [file.read_bytes() for file in (tmp_path / "hush-1").rglob("*") if file.is_file()]
    assert any(b"token=***" in data for data in written)
    assert not any(b"hush" in data for data in written)


def test_errors_of_a_file_system_show_no_token() -> None:
    """Not in the name that it has there either."""
    with pytest.raises(SourceError) as caught:
        list(remote.listed("memory://s/gone?signature=hush", ("",), {}))
    assert "signature=***" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_an_option_that_the_file_system_does_not_take_is_named() -> None:
    """It is the caller's mistake, not the data's."""
    with pytest.raises(ConfigError, match=r"storage_options: .* takes no option 'nonsense'"):
        list(remote.listed("s3://bucket/raw", ("",), {"nonsense": 1, "key": "k", "secret": "s"}))


def test_the_extra_that_s3_needs_is_named(tmp_path: Path) -> None:
    """As for every other package that is not there."""
    hidden = tmp_path / "s3fs"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError('hidden')")
    done = subprocess.run(
        [sys.executable, "-c", LISTED],
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "s3fs is needed to read raw data from S3: pip install 'datafeed-torch[s3]'\n", done.stderr


LISTED = """
from datafeed.converters import remote
from datafeed.errors import MissingExtra
try:
    list(remote.listed("s3://bucket/raw", ("",), {}))
except MissingExtra as exc:
    print(exc)
"""


def test_a_path_is_not_said_twice() -> None:
    """What the file system says of an absent file is often its path alone."""
    with pytest.raises(SourceNotFound, match=r"^no file or folder memory://gone/labels\.csv$"):
        remote.stamp("memory://gone/labels.csv", {})
