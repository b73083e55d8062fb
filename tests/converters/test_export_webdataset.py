"""Test the export to WebDataset tars, read by webdataset and by our own source."""

from __future__ import annotations

import tarfile
from pathlib import Path

import forms
import pytest
import webdataset
from round_trip import rows_of_dataset, rows_of_source
from tars import array, put

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.export import ExportOptions, export
from datafeed.converters.export_webdataset import member_header, safe_key
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema, stored

SCHEMA = Schema(
    [
        stored("name", "utf8"),
        stored("image", "bytes", media="image"),
        stored("label", "int64", classes=("a", "b")),
        stored("x", "float32", (2,)),
        stored("note", "utf8", optional=True),
    ]
)
KEYS = ["a", "../../etc/passwd", "/b", "c.d", "a", ""]


def _value(feature: Feature, number: int) -> object:
    if feature.name == "image":
        return forms.encoded(".png" if number % 2 else ".jpg", number)
    if feature.classes:
        return number % 2
    return KEYS[number] if feature.name == "name" else forms.value(feature, number)


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    """Return the export of samples of many kinds, without a key of their own."""
    export(forms.write(tmp_path / "in", SCHEMA, 6, shards=1, make=_value), tmp_path / "out", "webdataset")
    return tmp_path / "out" / "shard-000000.tar"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the library leaves its file open
def test_webdataset_reads_the_export(tar: Path) -> None:
    """The library decodes numbers, text and arrays by their endings; a missing feature is no member."""
    found = list(webdataset.WebDataset(str(tar), shardshuffle=False).decode())
    assert [sample["__key__"] for sample in found] == [f"{number:09d}" for number in range(6)]
    assert [sample["cls"] for sample in found] == [0, 1] * 3
    assert [sample["name.txt"] for sample in found] == KEYS
    assert found[3]["npy"].tolist() == forms.value(SCHEMA["x"], 3).tolist()
    assert ["note.txt" in sample for sample in found] == [number % 3 != 1 for number in range(6)]
    assert ["png" in sample for sample in found] == [False, True] * 3


@pytest.mark.parametrize("name", ["a.jpg", "a/b.c", "x" * 96 + ".txt", "x" * 97 + ".txt", "\u00e9.txt", "\udcff.txt"])
@pytest.mark.parametrize("size", [0, 511, 8**11 - 1, 8**11])
def test_headers_are_those_of_tarfile(name: str, size: int) -> None:
    """The quick ones, and those of long names, other letters and sizes past the field."""
    head = tarfile.TarInfo(name)
    head.size = size
    assert member_header(name, size) == head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def test_headers_do_not_depend_on_the_machine(tar: Path) -> None:
    """Times and owners are 0."""
    with tarfile.open(tar) as file:
        assert {(member.mtime, member.uid, member.gid, member.uname) for member in file} == {(0, 0, 0, "")}


def test_tars_come_back(tmp_path: Path) -> None:
    """What came from tars goes back to them, keys, folders and endings included."""
    (tmp_path / "raw").mkdir()
    for number in range(2):
        members = [
            member
            for row in range(5)
            for member in (
                (f"dir.x/{number}{row}.jpg", forms.encoded(".jpg", row)),
                (f"dir.x/{number}{row}.cls", b"%d" % row),
                (f"dir.x/{number}{row}.seg.png", forms.encoded(".png", row)),
                (f"dir.x/{number}{row}.json", b'{"a": 1}'),
                (f"dir.x/{number}{row}.npy", array([row, 1.5])),
            )
        ]
        put(tmp_path / "raw" / f"{number}.tar", *members)
    convert(str(tmp_path / "raw"), str(tmp_path / "in"), ConvertOptions(workers=1))
    export(tmp_path / "in", tmp_path / "out", "webdataset")
    expected = rows_of_source(tmp_path / "raw")
    assert rows_of_source(tmp_path / "out") == rows_of_dataset(str(tmp_path / "in")) == expected


def test_keys_never_lead_out_of_the_tar(tmp_path: Path) -> None:
    """A key that would is changed, one that came before gets its number, an empty one is the number."""
    assert [safe_key(key) for key in KEYS] == ["a", "_/_/etc/passwd", "_/b", "c_d", "a", ""]
    assert safe_key("a\\b\0c") == "a_b_c"
    schema = Schema([stored("key", "utf8"), stored("id", "int64")])
    url = forms.write(tmp_path / "in", schema, 6, shards=1, make=lambda one, i: KEYS[i] if one.dtype == "utf8" else i)
    export(url, tmp_path / "out", "webdataset")
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as file:
        names = file.getnames()
    assert names == ["a.id", "_/_/etc/passwd.id", "_/b.id", "c_d.id", "a-000000004.id", "000000005.id"]


def test_what_a_tar_cannot_hold_is_refused(tmp_path: Path) -> None:
    """A feature by its name before anything is written; a sample without a member by its place."""
    url = forms.write(tmp_path / "in", forms.SCHEMA, 6)
    with pytest.raises(SchemaError, match=r"'words': webdataset cannot hold lists of utf8.*or export --to parquet"):
        export(url, tmp_path / "out", "webdataset", ExportOptions(columns=("id", "words")))
    assert not (tmp_path / "out").exists()
    with pytest.raises(SchemaError, match=r"block 0, record 1: it has no member"):
        export(url, tmp_path / "out", "webdataset", ExportOptions(columns=("maybe",)))
    assert list((tmp_path / "out").glob("*.tar")) == []
